"""Progress of sets toward their targets, read from live objects alone.

The module is pure. The progress survives restarts and crashes. A set begins to move with the first write from a new
manifest, or with the first deletion of a dropped member. If no set wants an instance, the instance begins to move with
its own deletion. A nested instance begins to move together with its enclosing instance.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from datetime import datetime

from applier.applyset import member
from applier.cluster import CONTENT_MANAGER, PARENT_MANAGER, Object
from applier.plan.model import DrainProgress
from applier.state.managed_fields import applied_at
from applier.state.observed import annotation, is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id
from renderer.levelgate_status import LevelgateStatus
from renderer.manifest_hash import is_written_from
from renderer.render.model import RenderedApplySet

TargetFilter = Callable[[Object, datetime], bool]
"""Function that takes a member and the time of its last write, and returns whether that write was for a target."""


@dataclass(frozen=True)
class DrainProgressFinder:
    """Finder of the progress of sets toward their targets."""

    observed: ObservedView
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    """Ids of the sets that want each object, in rendering order, by key of the object."""
    sets: Mapping[str, RenderedApplySet]
    """All sets of the plan, by id."""
    commits: Mapping[str, str]
    """Id of the commit of each source, by name of the source."""

    def find_progress(self, rendered: RenderedApplySet) -> DrainProgress | None:
        """Return the progress of `rendered` toward its target.

        If no object has moved, or if the target is unknown, return None. When an enclosing instance begins to move, its
        nested instances count as begun too, even before a node of a nested instance moves.
        """
        progress = self._own_progress(rendered)
        owner = None if rendered.is_applied else self._owner_of(rendered)
        around = self.find_progress(owner) if owner else None
        if around is None:
            return progress
        if progress is None:
            return DrainProgress.without_level(around.since)
        return progress._replace(since=min(progress.since, around.since))

    def _own_progress(self, rendered: RenderedApplySet) -> DrainProgress | None:
        parent = self.observed.objects.get(rendered.parent)
        if not rendered.is_source and rendered.parent not in self.wanting_sets:
            return DrainProgress.without_level(deleted_at) if parent and (deleted_at := _deleted_at(parent)) else None
        steps = list(self._deletions(rendered, parent))
        if not rendered.is_applied and not (rendered.applied and rendered.applied_rendering is None):
            before = _manifests(rendered.applied_rendering) if rendered.applied_rendering else {}
            steps += self._moved_nodes(rendered, before, self._target_filter(rendered))
            steps += self._dropped_nodes(rendered, parent)
        if not steps:
            return self._progress_of_earlier_commit(rendered)
        return _joined(steps, None)

    def _progress_of_earlier_commit(self, rendered: RenderedApplySet) -> DrainProgress | None:
        """Return the progress of a source's own objects toward the last commit that began before the present commit.

        The progress covers the objects that the earlier commit changes and that the present commit wants in the same
        form. If no earlier commit has begun, return None.
        """
        if rendered.begun is None or rendered.applied_rendering is None:
            return None
        before, wanted = _manifests(rendered.applied_rendering), _manifests(rendered)
        begun = _manifests(rendered.begun.rendering)
        changed = {key for key in before.keys() | begun.keys() if before.get(key) != begun.get(key)}
        steps = tuple(self._moved_nodes(rendered.begun.rendering, before, self._commit_filter(rendered.begun.commit)))
        return _joined(steps, {key for key in changed if begun.get(key) == wanted.get(key)}) if steps else None

    def _deletions(self, rendered: RenderedApplySet, parent: Object | None) -> Iterator[DrainProgress]:
        """Yield the progress that the recorded start of an instance shows, and that each deletion in progress shows."""
        written_at = _written_at(rendered, parent)
        if parent is None or written_at is None:
            return
        recorded = LevelgateStatus.from_instance(parent).begun
        unwanted = (key for key in self.observed.members.get(rendered.id, ()) if key not in self.wanting_sets)
        deleted = [_deleted_at(self.observed.objects[key]) for key in unwanted]
        for since in (_time(recorded) if recorded else None, *deleted):
            # A nested instance may have begun with its enclosing instance, before its own object was written.
            if since and (rendered.is_nested or since >= written_at):
                yield DrainProgress.without_level(since)

    def _moved_nodes(
        self, rendered: RenderedApplySet, before: Mapping[ObjectKey, Manifest], is_for_target: TargetFilter
    ) -> Iterator[DrainProgress]:
        """Yield the progress for each member with a changed manifest whose last write was for the target.

        Args:
            before: manifests of the applied snapshot, by key.
            is_for_target: function that distinguishes writes for the target from earlier writes.
        """
        for node in rendered.nodes:
            if (
                node.key
                and node.writable
                and before.get(node.key) != node.manifest
                and (live := self.observed.objects.get(node.key))
                and is_written_from(live, node.manifest, node.hash)
                and (written_at := applied_at(live, CONTENT_MANAGER))
                and is_for_target(live, written_at)
            ):
                yield DrainProgress(node.level, written_at, None)

    def _dropped_nodes(self, rendered: RenderedApplySet, parent: Object | None) -> Iterator[DrainProgress]:
        """Yield the progress that a deletion shows: a member of the applied snapshot is gone, and no set wants it.

        A missing object does not show the time of its deletion. Deletions follow the write that records the target on
        the instance, so the progress has the time of that write.
        """
        written_at = _written_at(rendered, parent)
        if rendered.applied_rendering is None or parent is None or written_at is None:
            return
        if any(
            node.key and node.writable and node.key not in self.wanting_sets and self._is_deleted(node.key)
            for node in rendered.applied_rendering.nodes
        ):
            yield DrainProgress.without_level(max(written_at, applied_at(parent, PARENT_MANAGER) or written_at))

    def _is_deleted(self, key: ObjectKey) -> bool:
        """Return whether the object `key` is gone, or is being deleted."""
        live = self.observed.objects.get(key)
        return is_terminating(live) if live else self.observed.is_known(key)

    def _owner_of(self, rendered: RenderedApplySet) -> RenderedApplySet | None:
        """Return the set of the enclosing instance, or None if a source declares the instance."""
        parent = self.observed.objects.get(rendered.parent)
        owner_id = (
            applyset_id(rendered.owner) if rendered.owner else label(parent, well_known.PART_OF) if parent else ""
        )
        owner = self.sets.get(owner_id)
        return None if owner is None or owner.is_source or rendered.is_source else owner

    def _commit_filter(self, commit: str) -> TargetFilter:
        recorded = member.short_commit(commit)
        return lambda live, _: bool(recorded) and annotation(live, well_known.COMMIT) == recorded

    def _target_filter(self, rendered: RenderedApplySet) -> TargetFilter:
        """Return a function that distinguishes writes for the present target from writes for an earlier target.

        An earlier target may have wanted the same manifest, so the manifest alone does not decide. For a source, the
        recorded commit decides. For an instance, the revision decides, together with the time of the last write of the
        instance's own manifest.
        """
        if rendered.is_source:
            return self._commit_filter(self.commits.get(rendered.source, ""))
        instance_written_at = _written_at(rendered, self.observed.objects.get(rendered.parent))
        revision = str(rendered.revision)
        return lambda live, written_at: (
            instance_written_at is not None
            and written_at >= instance_written_at
            and annotation(live, well_known.REVISION) == revision
        )


def find_begun_commit(applied: RenderedApplySet, observed: ObservedView, ignored_kinds: Container[GroupKind]) -> str:
    """Return the commit of the last write to a source's own objects, which the objects themselves record.

    If an object still equals `applied`, or is of one of the `ignored_kinds`, the object does not count. If no object
    counts, return an empty string.

    Args:
        applied: the source's own objects after the last complete apply.
    """
    before = {node.key: node for node in applied.nodes}
    found = ""
    latest: datetime | None = None
    for key in observed.members.get(applied.id, ()):
        live, node = observed.objects[key], before.get(key)
        if key.group_kind in ignored_kinds or (node and is_written_from(live, node.manifest, node.hash)):
            continue
        written_at = applied_at(live, CONTENT_MANAGER)
        if written_at and (latest is None or written_at > latest):
            found, latest = annotation(live, well_known.COMMIT), written_at
    return found


def _manifests(rendered: RenderedApplySet) -> dict[ObjectKey, Manifest]:
    return {node.key: node.manifest for node in rendered.nodes if node.key}


def _joined(steps: Sequence[DrainProgress], keys: Set[ObjectKey] | None) -> DrainProgress:
    return DrainProgress(max(step.level for step in steps), min(step.since for step in steps), keys)


def _written_at(rendered: RenderedApplySet, parent: Object | None) -> datetime | None:
    """Return the time at which the present manifest of an instance was written to its object.

    If the last write to the object had another manifest, or if `rendered` is the set of a source, return None.
    """
    is_written = parent is not None and not rendered.is_source and is_written_from(parent, rendered.manifest)
    return applied_at(parent, CONTENT_MANAGER) if parent and is_written else None


def _deleted_at(obj: Object) -> datetime | None:
    """Return the time at which a client requested the deletion of `obj`, or None if no deletion is in progress."""
    time = obj["metadata"].get("deletionTimestamp")
    return datetime.fromisoformat(time) if time else None


def _time(text: str) -> datetime | None:
    """Return the time in `text`, a field of a status, or None if the text is malformed or has no time zone.

    Other clients can write the status, so the text may be malformed.
    """
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None
