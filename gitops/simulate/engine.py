"""Runs the reconciler in virtual time: passes, then a jump to the next moment at which anything can be different.

Nothing is decided here but when to look at what, as the daemon does: at whom an event concerns, such as a workload that gets ready or the end of its
bake; at everything when a commit arrives or another time has come that a pass named (`wake_at`), and where a pass over a part says so. Who waits is
told why at once, which the daemon does some seconds later, and when a window begins or ends, which it does within minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final

from applier.cluster import Object
from applier.execute.results import Result
from applier.plan.set_causes import set_causes
from applier.read.observe import FEW
from gitops.daemon.event_router import EventRouter
from gitops.decisions.decision import earliest
from gitops.gates.evaluate import ExternalFact
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.incremental.scope import WidenScope, is_bulk_change
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.set_summaries import SetSummary
from gitops.reconcile.sources import SourceState
from gitops.records.instance_status import is_waiting
from gitops.rollouts.source_rules import resolve_rules
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.recorder import Recorder, instance_state
from gitops.simulate.timeline import Timeline
from gitops.simulate.world import SimulatedCluster, VirtualClock, open_windows
from gitops.text import parent_title
from gitops.windows.window import Window
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names

BEFORE: Final = timedelta(days=30)
"""So long before the first commit the base is brought about."""

AT_ONCE: Final = 200
"""Passes at one moment; more means that something is never as it is written."""

IN_TURN: Final = 10
"""So often, and more often than any policy lets workloads lose their health, everything has to stand as it stood, with nothing written in
between, to be taken for what workloads do by themselves for ever.
"""


@dataclass(frozen=True, slots=True)
class CommitPush:
    """A commit that arrives at a time."""

    at: datetime
    state: SourceState
    subject: str

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog


@dataclass
class Simulation:
    """One source on a cluster of its own, in which the base runs and is healthy when the first commit arrives."""

    begins: datetime
    assumptions: Assumptions
    version: str
    cluster_name: str
    recorder: Recorder = field(init=False)
    warnings: list[str] = field(default_factory=list)
    _facts: dict[str, ExternalFact] = field(default_factory=dict)
    _windows: tuple[Window, ...] = ()
    _in_turn: int = IN_TURN

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.begins - BEFORE)
        self.world = SimulatedCluster(self.clock, self.assumptions.seed)
        self.reconciler = Reconciler(
            self.world.cluster,
            self.version,
            self.clock,
            self.cluster_name,
            report=self._wrote,
            facts=lambda _: self._facts,
        )
        self._is_recording = self._has_written = self._was_whole = False
        self._due: frozenset[ObjectKey] | None = frozenset()

    async def run(self, base: SourceState, pushes: Sequence[CommitPush], until: datetime) -> None:
        """Bring about the base, then let the commits arrive; ends when nothing can happen any more, or at `until`."""
        self.recorder = Recorder(base.catalog.source, self.clock, self.begins)
        attention = EventRouter(self.reconciler, self._wake, lambda _: None, watches=self.world.create_watches)
        async with attention as self._attention:
            await self._found(base)
            self.world.assume(self.assumptions)
            self._is_recording = True
            for push, following in zip(pushes, [*pushes[1:], None], strict=True):
                self.clock.moment = max(self.clock.moment, push.at)
                self._heed(push.catalog)
                self.recorder.record_commit(push.catalog.commit, push.subject)
                self._wake(None)
                self.ended = await self._until(push.state, following.at if following else until)
        self.warnings += [f"{pattern} names no workload that was changed" for pattern in self.world.unmatched_patterns]

    def timeline(self, ended: str = "") -> Timeline:
        """What has happened so far."""
        return self.recorder.build_timeline(self._windows, ended or self.ended, self.warnings)

    async def _found(self, base: SourceState) -> None:
        """The base, brought about with all windows open and everything ready at once; then its own rules."""
        self._heed(base.catalog)
        for state in (replace(base, catalog=open_windows(base.catalog)), base):
            found = await self._looked(state)
            while found.plan.recheck_at and found.plan.recheck_at < self.begins:
                self.clock.moment = found.plan.recheck_at
                found = await self._looked(state)
        self.clock.moment = self.begins
        found = await self._looked(base)
        self.recorder.record_pass(found)
        if late := [parent_title(one.rendered.parent) for one in found.plan.sets if set_causes(one) or is_waiting(one)]:
            self.warnings.append(f"at the beginning not all of the base matches Git: {join_names(late)}")

    def _heed(self, catalog: Catalog) -> None:
        self.world.serve(catalog)
        gates = (gate for definition in catalog.definitions.values() for gate in definition.gates)
        self._facts |= {name: ExternalFact(True) for gate in gates for name in gate.externals}
        rules = resolve_rules(catalog, {})
        self._windows = tuple(rules.windows.values())
        self._in_turn = max([IN_TURN, *(one.max_flaps + 2 for one in rules.policies)])

    def _wake(self, roots: Roots) -> None:
        self._due = None if roots is None or self._due is None else self._due | frozenset(roots)

    async def _looked(self, state: SourceState) -> ReconcileResult:
        """At everything, and as `_settle`."""
        self._wake(None)
        return await self._settle(state)

    async def _settle(self, state: SourceState) -> ReconcileResult:
        """Passes at one moment over what is due, until nothing is; everything as it is known then."""
        for _ in range(AT_ONCE):
            due, self._due = self._due, frozenset()
            whole = self.reconciler.whole
            if due is None or is_bulk_change(len(due), [state]):
                await self._look(self.reconciler.reconcile([state]), None)
            elif due:
                roots = sorted(due)[:FEW]
                self._wake(due.difference(roots))
                await self._look(self.reconciler.reconcile_roots(roots), roots)
            elif whole and whole.rollouts_to_recompute:
                granted = await self.reconciler.reconcile_grants()
                self._wake(None if isinstance(granted, WidenScope) else granted)
            elif whole and whole.has_stale_causes:
                self._tell_again(whole)
            else:
                break
        return self._last.latest() if self._last.latest else self._last

    async def _look(self, work: Coroutine[None, None, ReconcileResult | WidenScope], roots: Roots) -> None:
        self._attention.begin_pass(roots)
        found = await work
        await self._attention.end_pass(found if isinstance(found, ReconcileResult) else None, roots)
        self.world.settle()
        if isinstance(found, WidenScope):
            self._wake(None)
            return
        self._last, self._was_whole = found, roots is None
        if self._was_whole and self._is_due(found.propagation.wake_at):
            self._wake(None)  # another target may follow at once
        elif not self._is_known(found):
            self._wake(roots)

    def _is_due(self, moment: datetime | None) -> bool:
        return moment is not None and moment <= self.clock.now()

    def _tell_again(self, whole: ClusterState) -> None:
        """Why those wait that have not moved. Where they wait for something else a pass over everything tells it."""
        found = self.reconciler.changed_move_causes()
        before = (instance_state(whole.ledger.accounts[one.rendered.parent], None) for one in found)
        if not all(
            instance_state(SetSummary.of(one), None).continues(was) for one, was in zip(found, before, strict=True)
        ):
            self._wake(None)
        whole.update_move_causes(found)

    def _is_known(self, found: ReconcileResult) -> bool:
        """Has the pass seen all that the next one reads? It went on until nothing more was allowed by what was answered to its own writes, and what
        it wrote at its end are records of what it knows; but others may read the status of an instance.
        """
        if not found.is_complete:
            return not found.changed
        read = _read(found)
        written = (result.key for result in found.results if result.key in read)
        return all(_seen(read[key]) == _seen(self.world.get(key)) for key in written)

    async def _until(self, state: SourceState, limit: datetime) -> str:
        """Follow one commit until the next one, or the end, at `limit`; why it ended."""
        stood = Counter[object]()
        while True:
            found = await self._settle(state)
            self.recorder.record_pass(found)
            if self._has_written:
                stood.clear()
            self._has_written = False
            stands = self.recorder.states()
            stood[stands] += 1
            if self.recorder.is_settled() and self.world.next_workload_change is None:
                return "all matches Git"
            due = self.world.next_workload_change if stood[stands] < self._in_turn else None
            upcoming = earliest(found.propagation.wake_at, found.plan.recheck_at, due)
            if upcoming is None and not self._was_whole:
                self._wake(None)
                continue
            if upcoming is None and self.world.next_workload_change:
                return "nothing will change any more, except workloads that flap"
            if upcoming is None:
                return "nothing will change any more by itself"
            if upcoming >= limit:
                self.clock.moment = limit
                return "the time is over"
            edge = self._next_edge()
            self.clock.moment = max(earliest(upcoming, edge) or upcoming, self.clock.moment + timedelta(seconds=1))
            self.world.settle()
            if self._is_due(edge) or self._is_due(found.plan.recheck_at):
                self._wake(None)
            elif self._is_due(found.propagation.wake_at):
                self._wake(self.reconciler.advance_clock())

    def _next_edge(self) -> datetime | None:
        """When a window begins or ends next, or lets nothing new start in what is left of it."""
        now = self.clock.now()
        ends = ((one.cutoff, end) for one in self._windows if (end := one.timeline.span(now).until))
        return earliest(*(moment for cutoff, end in ends for moment in (end - cutoff, end) if moment > now))

    def _wrote(self, result: Result) -> None:
        if self._is_recording:
            self._has_written |= not result.is_bookkeeping
            self.recorder.record_write(result)


def _read(found: ReconcileResult) -> Mapping[ObjectKey, Object | None]:
    """Instances whose status others read, as they were seen. Whether those of a source are healthy is of no interest to it, but to what depends on
    them; in the end, when none of them waits, it is what the source still waits for.
    """
    instances = {one.rendered.parent: one for one in found.sets if not one.rendered.is_source}
    restless = (one for one in found.ledger.restless() if not one.plan.rendered.is_source)
    if not any(one.rows or one.is_waiting for one in restless):
        return {key: one.parent for key, one in instances.items()}
    used = {(one.rendered.parent, name) for one in found.sets for node in one.nodes for name in node.node.depends_on}
    return {
        node.node.key: instances[node.node.key].parent
        for one in found.sets
        for node in one.nodes
        if node.node.key in instances and (not one.rendered.is_source or (one.rendered.parent, node.node.id) in used)
    }


def _seen(instance: Object | None) -> object:
    """What others look at in the status of an instance: all but what is told of its rollout."""
    status: Object = dict((instance or {}).get("status") or {})
    status.pop("levelgate", None)
    conditions = status.pop("conditions", None) or ()
    return status, {one["type"]: one["status"] for one in conditions if one["type"] != "Propagated"}
