"""Rows of `bench.beside_kro`: changes of a fleet, and their cost for a system.

A row starts with the declaration of a change. The row ends when the system has been at rest for a while and the cluster
has the wanted state. The audit log gives the seconds to the last write of the system. If a row does not reach the
wanted state, the bench ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from bench._proc import cpu, memory, reset_peak
from bench.kro.bare import RecordedRequest, record
from bench.kro.fleet import CONFIG_MAPS, INSTANCES, NAMESPACE, PLURAL, Change, Fleet, differences
from bench.kro.systems import Levelgate, System, written
from bench.kro.watching import Rest, StuckError, Tail, longest
from tests.support.cluster.audit import AuditEvent

ROWS: Final = {
    "first": "first deployment",
    "changed": "definition changed, default pace",
    "at-once": "definition changed, all at once",
    "instance": "one instance changed",
    "drift": "drift of one object",
    "deleted": "an instance deleted",
    "restart": "restart until idle",
    "idle": "idle for 60 s",
}
"""Rows in their order, which is also the order of the fleet's history."""

TIMES: Final = 3
"""Number of runs of a short row."""

FEWEST: Final = 4
"""Minimum number of instances of a fleet, so that some instances remain."""

IDLE: Final = 60.0
READER: Final = "person"


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a row. A figure that the row does not give is None."""

    requests: int
    writes: int
    cpu: float
    seconds: float | None = None
    """Seconds to the last write that changed an instance, its status or its objects.

    For a restart, seconds to the last request.
    """

    object_seconds: float | None = None
    """Seconds to the last write that changed an object of an instance."""

    all_seconds: float | None = None
    """Seconds to the last write of any kind, including records, revisions, Events and writes without a change."""

    peak: float | None = None
    """Largest memory during the row, in MiB."""


@dataclass
class Taken:
    """Results of one system: figures by row, and notes."""

    figures: dict[str, list[Figures]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    recorded: dict[str, list[RecordedRequest]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """Request without its bodies, which would take memory. If a write changed nothing, `is_change` is false."""

    resource: str
    namespace: str
    answered: datetime
    is_write: bool
    is_change: bool

    @property
    def is_of_object(self) -> bool:
        return self.is_change and (self.resource, self.namespace) == ("configmaps", NAMESPACE)

    @property
    def is_of_fleet(self) -> bool:
        return self.is_of_object or (self.is_change and self.resource == PLURAL)


@dataclass
class Versions:
    """Versions of all objects after the writes so far, by any writer.

    A write that changes nothing keeps the version. Source: API conventions, `resourceVersion`.
    """

    known: dict[tuple[str, str, str, str], str] = field(default_factory=dict)

    def is_change(self, event: AuditEvent) -> bool:
        """Record a request, and return whether the request changed its object."""
        if not event.is_write or event.code >= 300:
            return False
        key = (event.group, event.resource, event.namespace, event.name)
        response = event.response if isinstance(event.response, dict) else {}
        version = response.get("metadata", {}).get("resourceVersion")
        if event.verb == "delete" or not version:
            self.known.pop(key, None)
            return True
        before, self.known[key] = self.known.get(key), version
        return bool(before != version)


@dataclass
class History:
    """Fleet that one system takes through the rows. `recorded` names the rows whose requests the bench keeps."""

    system: System
    fleet: Fleet
    recorded: Collection[str] = ()
    taken: Taken = field(default_factory=Taken)
    versions: Versions = field(default_factory=Versions)

    def play(self, rows: Collection[str]) -> Taken:
        """Play the rows, and return the results. Raises: StuckError; AssertionError or RuntimeError for a failure."""
        self.system.start()
        try:
            self.system.ready()
            self._rest("start", list)
            for row in ROWS:
                if row in rows:
                    print(f"{self.system.name}: {ROWS[row]}", file=sys.stderr, flush=True)
                    getattr(self, f"_{row.replace('-', '_')}")()
            self._note("at the end")
        finally:
            self.system.stop()
        return self.taken

    def _first(self) -> None:
        self._declare("first", None, self.fleet)
        self._note("after the first deployment")

    def _changed(self) -> None:
        """Play a row of Levelgate alone, because kro has no pace."""
        if isinstance(self.system, Levelgate):
            self._declare("changed", self.fleet, self.fleet.with_release("two"))

    def _at_once(self) -> None:
        if isinstance(self.system, Levelgate):
            since, tail = self.system.audit.mark(), self._tail()
            self.system.roll_out_at_once()
            self._rest("policy", self._missing, tail)
            self._seen(since)
        self._declare("at-once", self.fleet, self.fleet.with_release("three"))

    def _instance(self) -> None:
        for name in self.fleet.names[:TIMES]:
            self._declare("instance", self.fleet, self.fleet.with_text(name, f"another text of {name}"))

    def _drift(self) -> None:
        for name in self.fleet.names[-TIMES:]:
            path = f"{CONFIG_MAPS}/{self.fleet.config_map(name, 0)}?fieldManager=kubectl-edit"
            body = {"data": {"text": "edited by hand"}}

            def edit(path: str = path, body: object = body) -> None:
                written(self.system.server, "PATCH", path, body, "application/merge-patch+json")

            self._measure("drift", edit, self.system.first_write)

    def _deleted(self) -> None:
        for name in self.fleet.names[-TIMES:]:
            self._declare("deleted", self.fleet, self.fleet.without(name))

    def _restart(self) -> None:
        self._note("before the restart")
        self.system.stop()
        since, tail, begun = self.system.audit.mark(), self._tail(), datetime.now(UTC)
        self.system.start()
        self._rest("restart", self._missing, tail)
        pid, seen = self.system.process.pid, self._seen(since)
        seconds = (max(one.answered for one in seen) - begun).total_seconds()
        writes = sum(one.is_write for one in seen)
        self._add("restart", Figures(len(seen), writes, cpu(pid), seconds=seconds, peak=memory(pid)[1]))

    def _idle(self) -> None:
        since, pid = self.system.audit.mark(), self.system.process.pid
        before = cpu(pid)
        time.sleep(IDLE)
        spent, seen = cpu(pid) - before, self._seen(since, leases=True)
        self.system.check()
        self._add("idle", Figures(len(seen), sum(one.is_write for one in seen), spent))

    def _declare(self, row: str, before: Fleet | None, after: Fleet) -> None:
        change, self.fleet = Change.between(before, after), after
        self._measure(row, lambda: self.system.declare(change), self.system.declared)

    def _measure(self, row: str, act: Callable[[], None], begun: Callable[[int], datetime]) -> None:
        pid, since, tail = self.system.process.pid, self.system.audit.mark(), self._tail()
        reset_peak(pid)
        before = cpu(pid)
        act()
        self._rest(row, self._missing, tail)
        spent, peak = cpu(pid) - before, memory(pid)[1]
        seen, start = self._seen(since, recorded=row), begun(since)

        def until(times: Iterable[datetime]) -> float:
            return (max(times) - start).total_seconds()

        if not any(one.is_of_object for one in seen):
            raise StuckError(f"{self.system.name}: {ROWS[row]}: it has changed no object, and yet all is as wanted")
        self._add(
            row,
            Figures(
                requests=len(seen),
                writes=sum(one.is_write for one in seen),
                cpu=spent,
                seconds=until(one.answered for one in seen if one.is_of_fleet),
                object_seconds=until(one.answered for one in seen if one.is_of_object),
                all_seconds=until(one.answered for one in seen if one.is_write),
                peak=peak,
            ),
        )

    def _add(self, row: str, figures: Figures) -> None:
        self.taken.figures.setdefault(row, []).append(figures)
        print(f"{self.system.name}: {ROWS[row]}: {figures}", file=sys.stderr, flush=True)

    def _tail(self) -> Tail:
        return Tail(self.system.server.audit_log, self.system.user)

    def _rest(self, row: str, missing: Callable[[], list[str]], tail: Tail | None = None) -> None:
        what = f"{self.system.name}: {ROWS.get(row, row)}"
        most = longest(len(self.fleet.names) * (self.fleet.resources + 1))
        Rest(what, tail or self._tail(), self.system.check, missing, most).wait()

    def _missing(self) -> list[str]:
        items = self._listed(CONFIG_MAPS)
        config_maps = {item["metadata"]["name"]: item.get("data", {}) for item in items}
        config_maps.pop("kube-root-ca.crt", None)
        states = {item["metadata"]["name"]: item.get("status", {}).get("state") for item in self._listed(INSTANCES)}
        return differences(self.fleet, config_maps, states)

    def _listed(self, path: str) -> list[dict[str, Any]]:
        answer = self.system.server.request("GET", path, user=READER)
        if answer.code == 404:  # The kind is not served yet.
            return []
        assert answer.code == 200, f"GET {path}: {answer.body}"
        items: list[dict[str, Any]] = answer.body["items"]
        return items

    def _seen(self, since: int, *, leases: bool = False, recorded: str = "") -> list[Seen]:
        """Return the requests of the system. If `recorded` is one of the recorded rows, keep the requests."""
        self.system.audit.settle(user=self.system.user, since=since)
        found: list[Seen] = []
        for event in self.system.audit.stream(since=since):
            is_change = self.versions.is_change(event)
            if event.user == self.system.user and (leases or event.resource != "leases"):
                found.append(Seen(event.resource, event.namespace, event.answered, event.is_write, is_change))
                if recorded in self.recorded and (request := record(event)):
                    self.taken.recorded.setdefault(recorded, []).append(request)
        return found

    def _note(self, when: str) -> None:
        self.taken.notes += [f"{note} {when}" for note in self.system.notes()]
