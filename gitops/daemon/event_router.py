"""What passes rested on is watched, so that who cares about it is worked on as soon as it has changed, and nobody is when nothing has.

A watch only selects what to work on: what is decided is read anew, consistently. What a pass itself wrote wakes nobody, nor does what it has seen
already, nor a status that was written late and says what was to be said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Final, Self

from applier.cluster import Cluster, Object, WatchEvent, WatchTarget
from applier.errors import ClusterError, KindNotServed
from applier.plan.model import ApplySetPlan
from applier.read.watches import Watches
from applier.state.managed_fields import metadata_without_status_writes
from applier.state.observed import Observed
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import (
    Roots,
    affected_sets,
    dependencies_of,
    expected_watch_targets,
    members,
    references,
    roots_to_reconcile,
    watch_targets,
)
from gitops.reconcile.incremental.topology import DependencyIndex
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.render.model import Rendering

REQUEST_PREFIX: Final = "levelgate.dev/"
"""Prefix of the annotations by which people ask something of an object."""

BEGINNING: Final = 2.0
"""Seconds that the first pass waits for watches to begin."""

Begin = Callable[
    [Cluster, Callable[[WatchEvent], None], Callable[[WatchTarget], None], Callable[[WatchTarget, ClusterError], None]],
    Watches,
]


@dataclass
class EventRouter:
    """Paid to what the passes of `reconciler` rest on; use with `async with`. `wake` is called when it is worth to look at these instances again, or
    at everything; `notice` hears what cannot be watched. `watches` begins what tells of changes.
    """

    reconciler: Reconciler
    wake: Callable[[Roots], None]
    notice: Callable[[str], None]
    watches: Begin = Watches
    topology: DependencyIndex = field(default_factory=DependencyIndex)
    _bundle: Rendering | None = None
    _observed: Observed | None = None
    _heard: dict[ObjectKey, tuple[WatchEvent, Roots]] = field(default_factory=dict)
    _under_way: set[ObjectKey | None] = field(default_factory=set)
    _subjects: frozenset[WatchTarget] = frozenset()
    _blind: set[WatchTarget] = field(default_factory=set)
    _beginning: set[WatchTarget] = field(default_factory=set)
    _all_begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._watches = self.watches(self.reconciler.cluster, self._changed, self._begun, self._failed)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._watches.set_targets((), ())

    @property
    def is_blind(self) -> bool:
        """Return whether Levelgate cannot watch a target, so that it reads the target at every interval."""
        return bool(self._blind)

    async def expect(self, sources: Collection[SourceState]) -> None:
        """Watch what the first pass over these will rest on, before it reads: a watch that begins later has missed something, and all has to be
        read again. What cannot be foreseen, or does not begin soon, is watched after the pass.
        """
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(BEGINNING):
                parents = [self.reconciler.cluster.get(source_parent(state.catalog.source)) for state in sources]
                found = [one for one in await asyncio.gather(*parents) if one]
                self._subjects = frozenset(expected_watch_targets(sources, found))
                self._beginning = set(self._subjects)
                await self._watches.set_targets(self._subjects, ())
                await self._all_begun.wait()

    def begin_pass(self, roots: Roots = None) -> None:
        """A pass over these begins: what is heard of them from now on may be its own doing."""
        self._under_way |= {None} if roots is None else set(roots)

    async def end_pass(self, found: ReconcileResult | None, roots: Roots = None) -> None:
        """That pass is over; `found` is None where it failed, or looked at nothing. Wakes for what has changed meanwhile and has not been seen."""
        self._under_way -= {None} if roots is None else set(roots)
        if found is not None:
            self._observed = found.observed
            if found.touched is None:
                self._bundle = found.bundle
                self.topology = DependencyIndex()
                self._subjects = frozenset(watch_targets(found.observed))
            for one in found.sets:
                if found.touched is None or not one.rendered.is_source:
                    self.topology.set_dependencies(one.rendered.parent, dependencies_of(one))
                    self._subjects |= {*references(one), *self._members(one)}
            self._blind &= self._subjects
            await self._watches.set_targets(self._subjects, found.observed.discovery.resources)
            for others in self._reading(found, roots or ()):
                self.wake(others)
        waiting, self._heard = self._heard, {}
        for change, whom in waiting.values():
            self._told(change, whom if change.deleted else self._roots(change))

    def on_late_write(self, obj: Object) -> bool:
        """What is told of an instance was written when no pass waited for that any more: who reads it is woken, and itself if that is news to it.
        False where it is none that is known here.
        """
        key = ObjectKey.from_manifest(obj)
        if self._bundle is None or key not in self._bundle.instances:
            return False
        later = self._heard.pop(key, None)
        if later and later[0].object["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            self._told(*later)
        self._changed(WatchEvent(obj))
        return True

    def _reading(self, found: ReconcileResult, roots: Collection[ObjectKey]) -> Iterator[Roots]:
        """Who else reads what a pass over a part wrote. A pass over everything has rendered them anew itself, and its own writes are no news."""
        bundle = self._bundle
        if bundle is None or found.touched is None:
            return
        for result in found.results:
            obj = found.observed.objects.get(result.key)
            whom = affected_sets(bundle, self.topology, obj) if obj and not result.error else ()
            readers = roots_to_reconcile(bundle, result.key, whom) if whom else ()
            others = None if readers is None else frozenset(readers) - frozenset(roots)
            if others is None or others:
                yield others

    def _members(self, one: ApplySetPlan) -> Iterator[WatchTarget]:
        """Members of kinds that are not watched whole."""
        wanted = (WatchTarget(kind, selector=well_known.PART_OF) for kind in members(one))
        return (subject for subject in wanted if WatchTarget(subject.kind) not in self._subjects)

    def _changed(self, change: WatchEvent) -> None:
        self._told(change, self._roots(change))

    def _told(self, change: WatchEvent, roots: Roots) -> None:
        """It is kept while a pass is under way that may have seen or done it, or a status is being written that it may be."""
        is_seen = None in self._under_way or not self._under_way.isdisjoint({None} if roots is None else roots)
        if is_seen or self._may_be_ours(change):
            self._heard[ObjectKey.from_manifest(change.object)] = without_content(change), roots
        elif self._observed is None or is_new_version(change, self._observed) or self._is_unplanned(change):
            self.wake(roots)

    def _is_unplanned(self, change: WatchEvent) -> bool:
        """Return whether the last plan of a set has not seen what people ask in annotations of its parent.

        The answer to a write of a record or a status is as new as the event, and has what a person asked meanwhile.
        """
        whole = self.reconciler.whole
        planned = whole.plans.get(ObjectKey.from_manifest(change.object)) if whole else None
        if change.deleted or planned is None or planned.parent is None or not _is_newer(change.object, planned.parent):
            return False
        return _requests_on(planned.parent) != _requests_on(change.object)

    def _may_be_ours(self, change: WatchEvent) -> bool:
        key = ObjectKey.from_manifest(change.object)
        if change.deleted or self._observed is None or not self.reconciler.is_writing(key):
            return False
        known = self._observed.objects.get(key)
        return known is not None and metadata_without_status_writes(known) == metadata_without_status_writes(
            change.object
        )

    def _roots(self, change: WatchEvent) -> Roots:
        """Whom it concerns; everything where nobody says so, and where a source does."""
        if (bundle := self._bundle) is None:
            return None
        key = ObjectKey.from_manifest(change.object)
        whom = affected_sets(bundle, self.topology, change.object, deleted=change.deleted)
        if key in whom and self.reconciler.expects(change.object):
            whom = {one: why for one, why in whom.items() if one != key}
            if not whom:
                return frozenset()
        return roots_to_reconcile(bundle, key, whom)

    def _begun(self, subject: WatchTarget) -> None:
        """What happened before it began is not told."""
        self._blind.discard(subject)
        self.wake(None)
        self._has_answered(subject)

    def _has_answered(self, subject: WatchTarget) -> None:
        self._beginning.discard(subject)
        if not self._beginning:
            self._all_begun.set()

    def _failed(self, subject: WatchTarget, error: ClusterError) -> None:
        self._has_answered(subject)
        if not isinstance(error, KindNotServed):
            self._blind.add(subject)
            self.notice(f"{subject.kind} cannot be watched, and is polled: {error}")


def _requests_on(obj: Object) -> Mapping[str, str]:
    """Return the annotations by which people ask something. Levelgate's own annotations have other prefixes."""
    annotations = obj["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name.startswith(REQUEST_PREFIX)}


def _is_newer(obj: Object, other: Object) -> bool:
    """Return whether `obj` is a later version of the same object. Versions that are no numbers tell nothing."""
    versions = [one["metadata"].get("resourceVersion", "") for one in (obj, other)]
    is_same_object = obj["metadata"].get("uid") == other["metadata"].get("uid")
    return is_same_object and all(map(str.isdecimal, versions)) and int(versions[0]) > int(versions[1])


def without_content(change: WatchEvent) -> WatchEvent:
    """Return `change` with only the metadata of its object that selects work.

    A reconciliation keeps an event for each of its writes, so whole objects would need as much memory as the deployment.
    The router also compares parents of sets and records of Levelgate with a status in flight, so these stay whole.
    """
    metadata = change.object["metadata"]
    labels = metadata.get("labels") or {}
    if well_known.PART_OF not in labels or well_known.PARENT_ID in labels:
        return change
    kept = {name: metadata[name] for name in _SELECTING_METADATA if name in metadata}
    return replace(change, object={**{name: change.object[name] for name in ("apiVersion", "kind")}, "metadata": kept})


_SELECTING_METADATA: Final = ("name", "namespace", "labels", "resourceVersion")


def is_new_version(change: WatchEvent, observed: Observed) -> bool:
    """Does the change say something that was not observed yet?"""
    known = observed.objects.get(ObjectKey.from_manifest(change.object))
    if known is None or change.deleted:
        return (known is None) is not change.deleted
    return bool(known["metadata"].get("resourceVersion") != change.object["metadata"]["resourceVersion"])
