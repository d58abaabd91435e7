"""External facts: what the operator's configuration lets gates read of the world, as `external("error-budget")`.

A fact is asked for by HTTP, apart from passes; a pass only reads what was answered last. The last answer counts until it is older than the
operator allows. What was never answered, or is too old, is not known, and a gate that needs it is closed. Only URLs of the configuration are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from applier.proxy import proxy_of
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.gates.evaluate import ExternalFact
from renderer.frozen import dataclass

_LARGEST: Final = 64 * 1024
_OFTEN: Final = 3
"""A fact is asked for so many times while an answer lasts: one that is missed closes nothing."""


class FactUnavailable(GitopsError):
    """The server did not say whether it is so; the text says why, without the URL, which may hold a token."""


@dataclass(frozen=True, slots=True)
class ExternalFactSource:
    """A fact as declared: it is so where a GET of `url` answers 200 and the text `expect`. An answer counts for `max_age`; a server that says
    nothing for `timeout` did not answer.
    """

    name: str
    url: str
    expect: str
    max_age: timedelta
    timeout: timedelta = timedelta(seconds=10)

    @property
    def interval(self) -> timedelta:
        """How often it is asked for."""
        return self.max_age / _OFTEN


@dataclass(frozen=True, slots=True)
class _Heard:
    """The last answer, and when it was asked for; `error` is why later questions had none."""

    answer: bool | None = None
    at: datetime | None = None
    error: str = "not asked yet"


@dataclass
class ExternalFactPoller:
    """The facts that are declared, with what is known of them."""

    clock: Clock
    declared: Mapping[str, ExternalFactSource] = field(default_factory=dict)
    _heard: dict[str, _Heard] = field(default_factory=dict)

    def declare(self, externals: Iterable[ExternalFactSource]) -> None:
        """These instead of those before; what is known of one that is declared as before stays known."""
        fresh = {one.name: one for one in externals}
        self._heard = {name: heard for name, heard in self._heard.items() if fresh.get(name) == self.declared.get(name)}
        self.declared = fresh

    def facts(self, now: datetime) -> Mapping[str, ExternalFact]:
        """All that are declared, as they are known at this time."""
        return {name: _fact(self._heard.get(name, _Heard()), one.max_age, now) for name, one in self.declared.items()}

    async def ask(self, external: ExternalFactSource) -> bool:
        """Ask for one fact and keep the answer. Does what is known of it change by that?"""
        at = self.clock.now()
        before = self._heard.get(external.name, _Heard())
        try:
            heard = _Heard(await ask(external), at, "")
        except FactUnavailable as error:
            heard = _Heard(before.answer, before.at, str(error))
        if self.declared.get(external.name) != external:
            return False
        self._heard[external.name] = heard
        now = self.clock.now()
        return _fact(before, external.max_age, now).answer != _fact(heard, external.max_age, now).answer


def _fact(heard: _Heard, max_age: timedelta, now: datetime) -> ExternalFact:
    """An answer that seems to come from the future is as bad as an old one: the clock was set back."""
    if heard.at is None:
        return ExternalFact(None, heard.error)
    age = now - heard.at
    if abs(age) <= max_age:
        return ExternalFact(heard.answer)
    told = f"the last answer is {age.total_seconds():.0f}s old, more than {max_age.total_seconds():.0f}s"
    return ExternalFact(None, f"{told}; since then: {heard.error}" if heard.error else told)


async def ask(external: ExternalFactSource) -> bool:
    """Whether it is so, by one GET; redirects are not followed. Raises NoAnswer."""
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(total=external.timeout.total_seconds())
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(external.url, allow_redirects=False, proxy=proxy_of(external.url)) as response,
        ):
            if response.status != 200:
                raise FactUnavailable(f"it answered with status {response.status}, not 200")
            body = b""
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _LARGEST:
                    raise FactUnavailable(f"the answer is larger than {_LARGEST // 1024} KiB")
    except TimeoutError:
        raise FactUnavailable(f"no answer within {external.timeout.total_seconds():g}s") from None
    except aiohttp.ClientSSLError:
        raise FactUnavailable("the certificate of the server is not trusted") from None
    except aiohttp.ClientConnectorError as error:
        raise FactUnavailable(f"cannot connect to {error.host}:{error.port}") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FactUnavailable(f"the connection failed ({type(error).__name__})") from None
    return body.decode(errors="replace").strip() == external.expect.strip()
