"""External facts: HTTP answers that gates read, as in `external("error-budget")`.

Levelgate requests facts independently of reconciliations. A reconciliation reads the last answer of each fact. An
answer counts until it is older than `max_age` of its fact. A fact without an answer that counts is unknown, and closes
the gates that need the fact. Levelgate requests only URLs of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from applier.proxy import proxy_of
from gitops.clock import Clock
from gitops.durations import format_duration
from gitops.errors import GitopsError
from gitops.gates.evaluate import ExternalFact
from renderer.frozen import dataclass

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_POLLS_PER_MAX_AGE: Final = 3
"""Number of requests within `max_age` of a fact, so that a single failed request does not close a gate."""


class FactUnavailable(GitopsError):
    """Failed request for a fact. The text contains the reason, without the URL, which may hold a token."""


@dataclass(frozen=True, slots=True)
class ExternalFactSource:
    """Fact as configured. If the answer to a GET of `url` has status 200 and the text `expect`, the fact is true."""

    name: str
    url: str
    expect: str
    max_age: timedelta
    """Time for which an answer counts."""
    timeout: timedelta = timedelta(seconds=10)
    """Time after which a request without an answer fails."""

    @property
    def interval(self) -> timedelta:
        """Return the time between two requests."""
        return self.max_age / _POLLS_PER_MAX_AGE


@dataclass(frozen=True, slots=True)
class _FactAnswer:
    """Last answer of a server, the time of its request, and the error of later requests."""

    answer: bool | None = None
    asked_at: datetime | None = None
    error: str = "not asked yet"


@dataclass
class ExternalFactPoller:
    """Store of the configured facts and their last answers."""

    clock: Clock
    declared: Mapping[str, ExternalFactSource] = field(default_factory=dict)
    _answers: dict[str, _FactAnswer] = field(default_factory=dict)

    def declare(self, externals: Iterable[ExternalFactSource]) -> None:
        """Replace the configured facts. A fact whose configuration is unchanged keeps its answer."""
        declared = {external.name: external for external in externals}
        self._answers = {
            name: answer for name, answer in self._answers.items() if declared.get(name) == self.declared.get(name)
        }
        self.declared = declared

    def facts(self, now: datetime) -> Mapping[str, ExternalFact]:
        """Return all configured facts by name, with their values at `now`."""
        return {
            name: _evaluate_answer(self._answers.get(name, _FactAnswer()), external.max_age, now)
            for name, external in self.declared.items()
        }

    async def request_fact(self, external: ExternalFactSource) -> bool:
        """Request the fact `external` and store the answer. Return whether the known value has changed."""
        asked_at = self.clock.now()
        previous = self._answers.get(external.name, _FactAnswer())
        try:
            answer = _FactAnswer(await request_fact(external), asked_at, "")
        except FactUnavailable as error:
            answer = _FactAnswer(previous.answer, previous.asked_at, str(error))
        if self.declared.get(external.name) != external:  # The configuration has changed during the request.
            return False
        self._answers[external.name] = answer
        now = self.clock.now()
        return (
            _evaluate_answer(previous, external.max_age, now).answer
            != _evaluate_answer(answer, external.max_age, now).answer
        )


def _evaluate_answer(answer: _FactAnswer, max_age: timedelta, now: datetime) -> ExternalFact:
    """Return the fact at `now`.

    If the time of the answer is more than `max_age` before or after `now`, the fact is unknown. After a clock moves
    back, that time can be after `now`.
    """
    if answer.asked_at is None:
        return ExternalFact(None, answer.error)
    age = now - answer.asked_at
    if abs(age) <= max_age:
        return ExternalFact(answer.answer)
    if age < timedelta():
        message = f"the time of the last answer is {format_duration(-age)} ahead, because the clock has moved back"
    else:
        message = f"the last answer is {format_duration(age)} old, more than {format_duration(max_age)}"
    return ExternalFact(None, f"{message}; since then: {answer.error}" if answer.error else message)


async def request_fact(external: ExternalFactSource) -> bool:
    """Request the fact with a GET that follows no redirects, and return whether it is true. Raises: FactUnavailable."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=external.timeout.total_seconds())) as session,
            session.get(external.url, allow_redirects=False, proxy=proxy_of(external.url)) as response,
        ):
            if response.status != 200:
                raise FactUnavailable(f"the server answered with status {response.status}, not 200")
            body = b""
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _MAX_RESPONSE_BYTES:
                    raise FactUnavailable(f"the answer is larger than {_MAX_RESPONSE_BYTES // 1024} KiB")
    except TimeoutError:
        raise FactUnavailable(f"no answer within {format_duration(external.timeout)}") from None
    except aiohttp.ClientSSLError:
        raise FactUnavailable("the certificate of the server is not trusted") from None
    except aiohttp.ClientConnectorError as error:
        raise FactUnavailable(f"cannot connect to {error.host}:{error.port}") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FactUnavailable(f"the connection failed ({type(error).__name__})") from None
    return body.decode(errors="replace").strip() == external.expect.strip()
