"""What the API server was asked, by whom, in which order: its audit log.

The server writes a line when it receives a request and one when it is done with it, each before it goes on. Usually
both are on disk when the client has the answer. Not so when a request runs out of time: its 504 is sent while it is
still worked on, and a client that gives up has no answer at all. Hence reading starts with `settle`, which waits for
the second line of every first one.

A server-side apply must be sent as JSON (which is YAML): the API server fails to log one written otherwise, and
`settle` says that it was never answered.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.support.cluster.waiting import eventually

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_LONG_RUNNING = frozenset({"watch", "proxy", "attach", "exec", "log", "portforward"})  # Verbs and subresources.

_Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One request that was answered; a watch counts as answered when it starts.

    `request` is the JSON body of a write: an object, or a list for a JSON patch; None where there was none. `response` is
    the object as stored, or a Status; None for reads.
    `impersonated` is in whose name the user asked, if not in its own.
    `time` is when the server received the request, `answered` when it was done with it, both in microseconds.
    """

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str
    time: datetime
    answered: datetime
    request: Any = field(repr=False)
    response: Any = field(repr=False)
    impersonated: str = ""

    @property
    def is_write(self) -> bool:
        """Return whether the request asked for a change, granted or refused. A dry run does not."""
        return self.verb in _WRITES and not self.is_dry_run

    @property
    def is_dry_run(self) -> bool:
        """Said in the URI, or for a deletion perhaps in its body."""
        if "dryRun" in parse_qs(urlsplit(self.uri).query):
            return True
        return self.verb.startswith("delete") and isinstance(self.request, dict) and bool(self.request.get("dryRun"))


class AuditLog:
    """Reads the audit log of a running API server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._open: dict[str, tuple[str, str, int]] = {}  # By audit id: user, URI and place of what is being worked on.

    def mark(self) -> int:
        """The end of the last line that is complete by now, for `events(since=...)`. Settle first to leave nothing before it open."""
        self._advance()
        return self._read

    def settle(self, *, user: str | None = None, since: int = 0, within: float = 120.0) -> None:
        """Waits until every request (of `user`) that the server had received after `since` and by now is in the log as answered.

        Some never are, such as one whose body was too large: the mark leaves out those of tests before.

        Raises AssertionError with the URIs of those that after `within` seconds are not.
        """
        self._advance()
        awaited = {id_ for id_, (who, _, place) in self._open.items() if user in (None, who) and place >= since}

        def all_answered() -> bool:
            self._advance()
            missing = [self._open[id_][1] for id_ in awaited if id_ in self._open]
            assert not missing, f"not answered: {missing}"
            return True

        eventually(all_answered, within=within, every=0.005)

    def events(
        self,
        *,
        since: int = 0,
        user: str | None = None,
        verbs: Collection[str] | None = None,
        namespace: str | None = None,
        settle: bool = True,
    ) -> list[AuditEvent]:
        """Requests answered after the mark `since`, in the order of their answers; None asks for all.

        Settles first (for `user`, from the mark on), so that nothing that any client has an answer to is missing.
        """
        if settle:
            self.settle(user=user, since=since)
        return [
            event
            for event in self.stream(since=since)
            if (user is None or event.user == user)
            and (verbs is None or event.verb in verbs)
            and (namespace is None or event.namespace == namespace)
        ]

    def stream(self, *, since: int) -> Iterator[AuditEvent]:
        """Requests answered after the mark `since`, as far as they are on disk, one at a time: bodies of many would take memory."""
        for line in _lines(self._path, since):
            if _is_answer(entry := orjson.loads(line)):
                yield _event(entry)

    def _advance(self) -> None:
        for line in _lines(self._path, self._read):
            place, self._read = self._read, self._read + len(line)
            entry = orjson.loads(line)
            if entry["stage"] == "RequestReceived":
                self._open[entry["auditID"]] = entry["user"].get("username", ""), entry["requestURI"], place
            else:
                self._open.pop(entry["auditID"], None)


def _lines(path: Path, start: int) -> Iterator[bytes]:
    """The complete lines from the offset `start` on; the server may be writing the next one."""
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return  # what follows would be the rest of this line, if it has been written meanwhile
            yield line


def _is_answer(entry: _Entry) -> bool:
    """Return whether the line is the final one of the two or three of its request."""
    reference = entry.get("objectRef", {})
    if entry["verb"] in _LONG_RUNNING or reference.get("subresource") in _LONG_RUNNING:
        return bool(entry["stage"] == "ResponseStarted")
    return bool(entry["stage"] != "RequestReceived")


def _event(entry: _Entry) -> AuditEvent:
    reference = entry.get("objectRef", {})
    return AuditEvent(
        user=entry["user"].get("username", ""),
        verb=entry["verb"],
        group=reference.get("apiGroup", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        uri=entry["requestURI"],
        time=datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        answered=datetime.fromisoformat(entry["stageTimestamp"]),
        request=entry.get("requestObject"),
        response=entry.get("responseObject"),
        impersonated=entry.get("impersonatedUser", {}).get("username", ""),
    )
