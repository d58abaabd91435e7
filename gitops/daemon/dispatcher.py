"""What each kind of work is, and when what is worked on is due again."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import datetime
from typing import TypeVar

from applier.cluster import Object
from applier.errors import ClusterError, StaleWrite
from applier.execute.results import Result
from applier.plan.model import ApplySetPlan
from gitops.clock import Clock
from gitops.daemon.event_router import EventRouter
from gitops.daemon.workers import QueueKey, WorkKind
from gitops.daemon.workqueue import PRIORITY_CHANGE, PRIORITY_RESYNC, WorkQueue
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import Roots, root_instance
from gitops.reconcile.incremental.scope import WidenScope, admit_scope
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import (
    LAST_LOOK,
    LAST_LOOK_WATCHED,
    RequeueBackoff,
    due_by_time,
    in_flight,
    is_in_flight_alone,
    refused_objects,
)
from gitops.reconcile.sources import SourceState, revisions_of
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent

T = TypeVar("T")

LONGEST_REST = 5.0
"""Seconds between two passes that change nothing, however long they take."""

SHORTEST_SLEEP = 0.001
"""Seconds; a clock may be coarser than what is due."""

REPORT_DELAY = 0.1
"""Seconds after which the records of sources and rollouts follow passes over parts, so that what ends together is told
at once.
"""

REPORT_INTERVAL = 1.0
"""Seconds between two reports: under a stream of events a record is written so often, and no oftener."""

SURVEYED_AFTER = 5.0
"""Seconds after which those that wait in a rollout hear how far it has come, where passes over some instances moved it on: by a whole pass, at least
`SURVEY_SHARE` times as long as one takes after the last one.
"""

SURVEY_SHARE = 10


@dataclass
class Dispatcher:
    """The work on one cluster, which `queue` holds. `states` gives what was read last of the sources.

    `attention` gives who watches what passes rest on, if anybody does; `told` hears of every pass, `notice` of what went
    wrong. A whole pass is run within `whole_pass_turn`. `elapsed` gives the seconds of a clock that never goes back.
    """

    reconciler: Reconciler
    clock: Clock
    elapsed: Callable[[], float]
    queue: WorkQueue[QueueKey]
    states: Callable[[], Sequence[SourceState]]
    attention: Callable[[], EventRouter | None]
    told: Callable[[ReconcileResult], None]
    notice: Callable[[str, str], None]
    whole_pass_turn: Callable[[], AbstractAsyncContextManager[None]]
    _looks: RequeueBackoff = field(default_factory=RequeueBackoff)
    _trouble: float = 0.0
    _rests_until: float = 0.0
    _reported_at: float = -math.inf
    _surveyed_after: float = SURVEYED_AFTER

    def __post_init__(self) -> None:
        self._everything = QueueKey(self.reconciler.cluster.name, WorkKind.EVERYTHING)
        self._rollouts = QueueKey(self.reconciler.cluster.name, WorkKind.ROLLOUTS)
        self._records = QueueKey(self.reconciler.cluster.name, WorkKind.RECORDS)

    def wake(self, roots: Roots, priority: int = PRIORITY_CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything: at most half of the time goes into whole passes that change nothing."""
        if roots is None:
            self.queue.add_after(self._everything, self._rests_until - self.elapsed(), priority)
        for root in sorted(roots or ()):
            self.queue.add(self._key(root), priority)

    def sources_changed(self) -> None:
        """Something was read of the sources."""
        touched = self.reconciler.accept(self.states())
        if isinstance(touched, WidenScope):
            self.wake(None)
        else:
            self.wake(touched)
            self._tell_soon()

    async def do(self, keys: Sequence[QueueKey]) -> None:
        """Whatever goes wrong with the cluster is tried again; only what ends the process is raised."""
        try:
            match keys[0].work:
                case WorkKind.EVERYTHING:
                    await self._whole()
                case WorkKind.ROLLOUTS:
                    await self._grant()
                case WorkKind.RECORDS:
                    await self._tell()
                case WorkKind.PART:
                    await self._part(keys)
        except ClusterError as error:
            self.notice("cluster", f"{error}; trying again")
            for key in keys:
                self.queue.add_rate_limited(key)
        for result, seconds in self.reconciler.pending:  # an earlier look has taken the place of the one in its time
            self.requeue_write(result, seconds)

    async def _whole(self) -> None:
        try:
            async with self.whole_pass_turn():
                begun = self.elapsed()
                found = await self._watched(self.reconciler.reconcile(self.states()), None)
        except ClusterError as error:
            self.notice("cluster", f"{error}; trying again")
            self._trouble = min(max(self._trouble * 2, 1.0), 60.0)
            self.queue.add_after(self._everything, self._trouble)
            return
        self._trouble = 0.0
        lasted = self.elapsed() - begun
        self._surveyed_after = max(SURVEYED_AFTER, SURVEY_SHARE * lasted)
        if not found.changed:
            self._rests_until = self.elapsed() + min(lasted, LONGEST_REST)
        due = [one.plan for one in found.ledger.restless()]
        on_its_way = in_flight if self._is_blind else is_in_flight_alone(found.bundle.instances)
        refused = self.reconciler.refused
        waiting = {
            self._key_of(found, one)
            for one in due
            if on_its_way(one) or refused_objects(one) - refused.get(one.rendered.parent, {}).keys()
        }
        self._looks.keep(waiting)
        is_over = not found.changed or found.is_conclusive
        self._look_again(self._everything, changed=not is_over, waiting=self._everything in waiting)
        if is_over:
            for key in sorted(waiting - {self._everything}):
                self._look_again(key, changed=False, waiting=True)
        for one in due:
            if moment := due_by_time(one, refused):
                self._add_at(self._key_of(found, one), moment)
        self._tell_soon()

    async def _part(self, keys: Sequence[QueueKey]) -> None:
        roots = [key.root for key in keys if key.root]
        found = await self._watched(self.reconciler.reconcile_roots(roots), roots)
        if isinstance(found, WidenScope):
            self.wake(None)
            return
        refused = self.reconciler.refused
        failed = {
            key
            for one in found.sets
            if refused_objects(one) - refused.get(one.rendered.parent, {}).keys()
            for key in self._keys_in(found, one, keys)
        }
        waiting = {key for one in found.sets if in_flight(one) for key in self._keys_in(found, one, keys)}
        for key in keys:
            if key in failed and not found.changed:
                self.queue.add_rate_limited(key)
                continue
            self.queue.forget(key)
            self._look_again(key, changed=bool(found.changed), waiting=key in waiting)
        for one in found.sets:
            if moment := due_by_time(one, refused):
                for key in self._keys_in(found, one, keys):
                    self._add_at(key, moment)
        if self.reconciler.whole and self.reconciler.whole.rollouts_to_recompute:
            self.queue.add(self._rollouts)
        self._tell_soon()

    async def _grant(self) -> None:
        """Who may move is worked on at once."""
        found = await self._attended(self.reconciler.reconcile_grants(), None)
        self.wake(None if isinstance(found, WidenScope) else found)
        if self.reconciler.whole and self.reconciler.whole.has_stale_causes:
            self.queue.add_after(self._everything, self._surveyed_after, PRIORITY_RESYNC)

    async def _tell(self) -> None:
        """What a person wrote meanwhile is for a whole pass to hear."""
        self._reported_at = self.elapsed()
        try:
            await self._attended(self.reconciler.report_sources(), None)
        except StaleWrite:
            self.wake(None)

    async def _attended(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """Do it, while attention is paid to what is its own doing."""
        found: T | None = None
        attention = self.attention()
        if attention is not None:
            attention.begin_pass(roots)
        try:
            found = await work
        finally:
            if attention is not None:
                await attention.end_pass(found if isinstance(found, ReconcileResult) else None, roots)
        return found

    async def _watched(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """A pass, and what is told of it."""
        found = await self._attended(work, roots)
        if isinstance(found, ReconcileResult):
            self.told(found)
        return found

    def _look_again(self, key: QueueKey, *, changed: bool, waiting: bool) -> None:
        longest = LAST_LOOK if self._is_blind else LAST_LOOK_WATCHED
        delay = self._looks.next_delay(key, changed=changed, waiting=waiting, longest=longest)
        if delay is not None:
            self.queue.add_after(key, delay)

    def _add_at(self, key: QueueKey, moment: datetime) -> None:
        self.queue.add_after(key, seconds_until(moment, self.clock.now()))

    def _tell_soon(self) -> None:
        whole = self.reconciler.whole
        if whole is not None and whole.has_unreported_changes and not whole.changed_roots:
            next_report = self._reported_at + REPORT_INTERVAL - self.elapsed()
            self.queue.add_after(self._records, max(REPORT_DELAY, next_report))

    def requeue_write(self, result: Result, seconds: float) -> None:
        """A write was answered after its pass was over, or may be tried again then; a pass over everything is asked for that at its end. Where
        it only put something on record there is time to look at others with it.
        """
        whole = self.reconciler.whole
        if seconds and whole is None and self._everything in self.queue.processing:
            return
        if result.is_report:
            seconds = max(seconds, REPORT_INTERVAL)
        if whole and result.is_report and result.key in map(source_parent, revisions_of(whole.sources)):
            whole.has_unreported_changes = True
            self.queue.add_after(self._records, seconds)
            return
        key = self._key(whole.root_of(result.set) or result.key) if whole else self._everything
        self.queue.add_after(key, seconds)

    def answered(self, obj: Object) -> bool:
        """A record was written after its pass was over; whoever cares about it hears of it like this."""
        attention = self.attention()
        return attention is not None and attention.on_late_write(obj)

    def _key(self, root: ObjectKey) -> QueueKey:
        return QueueKey(self.reconciler.cluster.name, WorkKind.PART, root)

    def _keys_in(self, found: ReconcileResult, one: ApplySetPlan, keys: Sequence[QueueKey]) -> Sequence[QueueKey]:
        """Whose keys a set is that a part has looked at: that of its instance; of a source, those of its plain objects."""
        if one.rendered.is_source:
            return [key for key in keys if key.root not in found.bundle.instances]
        return [self._key_of(found, one)]

    def _key_of(self, found: ReconcileResult, one: ApplySetPlan) -> QueueKey:
        """Who looks at a set of a whole pass again: its instance, if a pass over that may be enough."""
        root, whole = root_instance(found.bundle, one.rendered.parent), self.reconciler.whole
        if root is None or whole is None or isinstance(admit_scope(whole, [root]), WidenScope):
            return self._everything
        return self._key(root)

    @property
    def _is_blind(self) -> bool:
        attention = self.attention()
        return attention is None or attention.is_blind


def seconds_until(moment: datetime | None, now: datetime) -> float:
    """How long to sleep until then."""
    return max(SHORTEST_SLEEP, (moment - now).total_seconds()) if moment else math.inf
