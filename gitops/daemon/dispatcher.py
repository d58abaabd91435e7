"""What each kind of work is, and when what is worked on is due again."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field
from datetime import datetime
from typing import TypeVar

from applier.cluster import Object
from applier.errors import ClusterError, StaleWrite
from applier.execute.results import Result
from applier.plan.model import SetPlan
from gitops.clock import Clock
from gitops.daemon.event_router import Attention
from gitops.daemon.workers import Key, Work
from gitops.daemon.workqueue import CHANGE, RESYNC, WorkQueue
from gitops.reconcile.context import Pass
from gitops.reconcile.incremental.interests import Roots, root_in
from gitops.reconcile.incremental.scope import Wider, admitted
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import LAST_LOOK, LAST_LOOK_WATCHED, Looks, due_by_time, failing, in_flight, of_itself
from gitops.reconcile.sources import SourceState, revisions_of
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent

T = TypeVar("T")

LONGEST_REST = 5.0
"""Seconds between two passes that change nothing, however long they take."""

SHORTEST_SLEEP = 0.001
"""Seconds; a clock may be coarser than what is due."""

TOLD_AFTER = 1.0
"""Seconds after which the records of sources and rollouts follow passes over parts, so that many are told at once."""

SURVEYED_AFTER = 5.0
"""Seconds after which those that wait in a rollout hear how far it has come, where passes over some instances moved it on: by a whole pass, at least
`SURVEY_SHARE` times as long as one takes after the last one.
"""

SURVEY_SHARE = 10


@dataclass
class Dispatcher:
    """The work on one cluster, which `queue` holds. `states` gives what was read last of the sources, `attention` who watches what passes rest on, if
    anybody does; `told` hears of every pass, `notice` of what went wrong. `elapsed` gives the seconds of a clock that never goes back.
    """

    reconciler: Reconciler
    clock: Clock
    elapsed: Callable[[], float]
    queue: WorkQueue[Key]
    states: Callable[[], Sequence[SourceState]]
    attention: Callable[[], Attention | None]
    told: Callable[[Pass], None]
    notice: Callable[[str, str], None]
    _looks: Looks = field(default_factory=Looks)
    _trouble: float = 0.0
    _rests_until: float = 0.0
    _surveyed_after: float = SURVEYED_AFTER

    def __post_init__(self) -> None:
        self._everything = Key(self.reconciler.cluster.name, Work.EVERYTHING)
        self._rollouts = Key(self.reconciler.cluster.name, Work.ROLLOUTS)
        self._records = Key(self.reconciler.cluster.name, Work.RECORDS)

    def wake(self, roots: Roots, priority: int = CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything: at most half of the time goes into whole passes that change nothing."""
        if roots is None:
            self.queue.add_after(self._everything, self._rests_until - self.elapsed(), priority)
        for root in sorted(roots or ()):
            self.queue.add(self._key(root), priority)

    def moved(self) -> None:
        """Something was read of the sources."""
        touched = self.reconciler.accept(self.states())
        if isinstance(touched, Wider):
            self.wake(None)
        else:
            self.wake(touched)
            self._tell_soon()

    async def do(self, keys: Sequence[Key]) -> None:
        """Whatever goes wrong with the cluster is tried again; only what ends the process is raised."""
        try:
            match keys[0].work:
                case Work.EVERYTHING:
                    await self._whole()
                case Work.ROLLOUTS:
                    await self._grant()
                case Work.RECORDS:
                    await self._tell()
                case Work.PART:
                    await self._part(keys)
        except ClusterError as error:
            self.notice("cluster", f"{error}; trying again")
            for key in keys:
                self.queue.add_rate_limited(key)
        for result, seconds in self.reconciler.pending:  # an earlier look has taken the place of the one in its time
            self.again(result, seconds)

    async def _whole(self) -> None:
        begun = self.elapsed()
        try:
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
        on_its_way = in_flight if self._is_blind else of_itself(found.bundle.instances)
        refused = self.reconciler.refused
        waiting = {
            self._key_of(found, one)
            for one in due
            if on_its_way(one) or failing(one) - refused.get(one.rendered.parent, {}).keys()
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

    async def _part(self, keys: Sequence[Key]) -> None:
        roots = [key.root for key in keys if key.root]
        found = await self._watched(self.reconciler.part(roots), roots)
        if isinstance(found, Wider):
            self.wake(None)
            return
        refused = self.reconciler.refused
        failed = {
            key
            for one in found.sets
            if failing(one) - refused.get(one.rendered.parent, {}).keys()
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
        if self.reconciler.whole and self.reconciler.whole.moved:
            self.queue.add(self._rollouts)
        self._tell_soon()

    async def _grant(self) -> None:
        """Who may move is worked on at once."""
        found = await self._attended(self.reconciler.grant(), None)
        self.wake(None if isinstance(found, Wider) else found)
        if self.reconciler.whole and self.reconciler.whole.is_outdated:
            self.queue.add_after(self._everything, self._surveyed_after, RESYNC)

    async def _tell(self) -> None:
        """What a person wrote meanwhile is for a whole pass to hear."""
        try:
            await self._attended(self.reconciler.tell(), None)
        except StaleWrite:
            self.wake(None)

    async def _attended(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """Do it, while attention is paid to what is its own doing."""
        found: T | None = None
        attention = self.attention()
        if attention is not None:
            attention.before(roots)
        try:
            found = await work
        finally:
            if attention is not None:
                await attention.after(found if isinstance(found, Pass) else None, roots)
        return found

    async def _watched(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """A pass, and what is told of it."""
        found = await self._attended(work, roots)
        if isinstance(found, Pass):
            self.told(found)
        return found

    def _look_again(self, key: Key, *, changed: bool, waiting: bool) -> None:
        longest = LAST_LOOK if self._is_blind else LAST_LOOK_WATCHED
        delay = self._looks.next(key, changed=changed, waiting=waiting, longest=longest)
        if delay is not None:
            self.queue.add_after(key, delay)

    def _add_at(self, key: Key, moment: datetime) -> None:
        self.queue.add_after(key, seconds_until(moment, self.clock.now()))

    def _tell_soon(self) -> None:
        whole = self.reconciler.whole
        if whole is not None and whole.is_untold and not whole.due:
            self.queue.add_after(self._records, TOLD_AFTER)

    def again(self, result: Result, seconds: float) -> None:
        """A write was answered after its pass was over, or may be tried again then; a pass over everything is asked for that at its end. Where
        it only put something on record there is time to look at others with it.
        """
        whole = self.reconciler.whole
        if seconds and whole is None and self._everything in self.queue.held:
            return
        if result.is_concluding:
            seconds = max(seconds, TOLD_AFTER)
        if whole and result.is_concluding and result.key in map(source_parent, revisions_of(whole.sources)):
            whole.is_untold = True
            self.queue.add_after(self._records, seconds)
            return
        key = self._key(whole.root_of(result.set) or result.key) if whole else self._everything
        self.queue.add_after(key, seconds)

    def answered(self, obj: Object) -> bool:
        """A record was written after its pass was over; whoever cares about it hears of it like this."""
        attention = self.attention()
        return attention is not None and attention.answered(obj)

    def _key(self, root: ObjectKey) -> Key:
        return Key(self.reconciler.cluster.name, Work.PART, root)

    def _keys_in(self, found: Pass, one: SetPlan, keys: Sequence[Key]) -> Sequence[Key]:
        """Whose keys a set is that a part has looked at: that of its instance; of a source, those of its plain objects."""
        if one.rendered.is_source:
            return [key for key in keys if key.root not in found.bundle.instances]
        return [self._key_of(found, one)]

    def _key_of(self, found: Pass, one: SetPlan) -> Key:
        """Who looks at a set of a whole pass again: its instance, if a pass over that may be enough."""
        root, whole = root_in(found.bundle, one.rendered.parent), self.reconciler.whole
        if root is None or whole is None or isinstance(admitted(whole, [root]), Wider):
            return self._everything
        return self._key(root)

    @property
    def _is_blind(self) -> bool:
        attention = self.attention()
        return attention is None or attention.is_blind


def seconds_until(moment: datetime | None, now: datetime) -> float:
    """How long to sleep until then."""
    return max(SHORTEST_SLEEP, (moment - now).total_seconds()) if moment else math.inf
