"""What a set of a plan cares about in the cluster: as entries of the index, and as subjects to watch; and what an event comes to by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from applier.applyset.inventory import ForeignSet, read_scope
from applier.cluster import Object, WatchTarget
from applier.plan.model import ApplySetPlan
from applier.state.observed import Observed, label
from gitops.reconcile.incremental.topology import Dependencies, DependencyIndex, DependencyMatch, Nodes
from gitops.reconcile.sources import SourceState
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, source_parent
from renderer.kinds import CRD, NAMESPACE
from renderer.label_selector import LabelSelector, Selection
from renderer.render.model import Rendering

Roots = Collection[ObjectKey] | None
"""Objects that sources declare, instances and plain ones; None for everything."""

_FOR_ALL: Final = frozenset({CRD, NAMESPACE})
_CALLED: Final = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})


def dependencies_of(one: ApplySetPlan) -> Dependencies:
    """Its parent, its members, those included that it no longer wants, and what its templates refer to and select."""
    owns = {orphan.member.key: orphan.member.node_id for orphan in one.prune_candidates} | {one.rendered.parent: ""}
    reads: dict[ObjectKey, Nodes] = {}
    for plan in one.nodes:
        node = plan.node
        if node.key and node.external:
            reads[node.key] = reads.get(node.key, frozenset()) | {node.id}
        elif node.key:
            owns[node.key] = node.id
    selects: dict[Selection, Nodes] = {}
    for name, selection in one.rendered.selections.items():
        selects[selection] = selects.get(selection, frozenset()) | {name}
    return Dependencies(owns, reads, selects)


def root_instance(bundle: Rendering, parent: ObjectKey) -> ObjectKey | None:
    """The instance of a source that this one is, or is nested in; None for the set of a source, and for what is not rendered."""
    while (rendered := bundle.instances.get(parent)) and rendered.owner:
        if rendered.owner not in bundle.instances:
            return parent
        parent = rendered.owner
    return None


def affected_sets(
    bundle: Rendering, topology: DependencyIndex, obj: Object, *, deleted: bool = False
) -> Mapping[ObjectKey, DependencyMatch]:
    """Which sets an event on this object wakes, and why."""
    key = ObjectKey.from_manifest(obj)
    found = topology.find_dependents(key, obj["metadata"].get("labels") or {}, deleted=deleted)
    if key in bundle.instances:  # who owns it cares about what it says of itself, which is worked out there
        found = {one: why for one, why in found.items() if one == key or why.nodes != why.owned}
    return found


def roots_to_reconcile(bundle: Rendering, key: ObjectKey, whom: Iterable[ObjectKey]) -> Roots:
    """What a pass has to look at for the sets that an event on the object of this `key` wakes; everything where it wakes none."""
    roots = [root_of(bundle, key, one) for one in whom]
    found = frozenset(root for root in roots if root is not None)
    return found if roots and None not in roots else None


def root_of(bundle: Rendering, key: ObjectKey, one: ObjectKey) -> ObjectKey | None:
    """What is looked at when an event on `key` wakes the set with the parent `one`: its instance, of a source the object, or (None) everything."""
    if one != key and one in map(source_parent, bundle.sources):
        return None if is_for_all(key.group_kind) else key
    return root_instance(bundle, one)


def is_for_all(kind: GroupKind) -> bool:
    """Does an object of this kind say how all others are read, or whether they can be written?"""
    return kind in _FOR_ALL or kind.group in _CALLED


def is_watched(subject: WatchTarget, obj: Object) -> bool:
    """Does an event on this object arrive by this watch?"""
    key, labels = ObjectKey.from_manifest(obj), obj["metadata"].get("labels") or {}
    return (
        key.group_kind == subject.kind
        and subject.namespace in {"", key.namespace}
        and subject.name in {"", key.name}
        and LabelSelector.parse(subject.selector).matches(labels)
    )


def watch_targets(observed: Observed) -> Iterator[WatchTarget]:
    """What a whole pass rested on: members of our sets, instances, what selections found, and our records."""
    return _subjects(observed.listed, observed.whole)


def expected_watch_targets(sources: Iterable[SourceState], parents: Iterable[Object]) -> Iterator[WatchTarget]:
    """What the first pass of a process will rest on, as far as the sources and the `parents` of their sets tell it: see `subjects`."""
    whole = {kind for state in sources for kind in (*state.catalog.definitions, *state.catalog.broken)}
    kinds = {CRD, *whole}
    for parent in parents:
        with suppress(ForeignSet):
            scopes = (read_scope(parent), *SourceRecord.from_object(parent).scopes.values())
            kinds = kinds.union(*(scope.kinds for scope in scopes))
    return _subjects(kinds, whole)


def _subjects(kinds: Iterable[GroupKind], whole: Collection[GroupKind]) -> Iterator[WatchTarget]:
    yield WatchTarget(GroupKind("", "ConfigMap"), OWN_NAMESPACE)
    for kind in kinds:
        yield WatchTarget(kind, selector="" if kind in whole else well_known.PART_OF)


def members(one: ApplySetPlan) -> Iterator[GroupKind]:
    """The kinds of what one set owns."""
    return (node.node.group_kind for node in one.nodes if not node.node.external)


def references(one: ApplySetPlan) -> Iterator[WatchTarget]:
    """What one set rests on beside its members: what its templates refer to and select, and what stands in the way."""
    for selection in one.rendered.selections.values():
        yield WatchTarget(selection.group_kind, selection.namespace or "", str(selection.labels))
    for node in one.nodes:
        key, live = node.node.key, node.live
        if key and (node.node.external or (live is not None and not label(live, well_known.PART_OF))):
            yield WatchTarget(key.group_kind, key.namespace, name=key.name)
