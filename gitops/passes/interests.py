"""What a set of a plan cares about in the cluster: as entries of the index, and as subjects to watch."""

from __future__ import annotations

from collections.abc import Iterator

from applier.cluster import Subject
from applier.observed import Observed, label
from applier.plan import SetPlan
from gitops.passes.topology import Interests, Nodes
from renderer import keys
from renderer.identity import GroupKind, ObjectKey
from renderer.model import Bundle
from renderer.render import OWN_NAMESPACE
from renderer.selection import Selection


def interests(one: SetPlan) -> Interests:
    """Its parent, its members, those included that it no longer wants, and what its templates refer to and select."""
    owns = {orphan.member.key: orphan.member.node for orphan in one.orphans} | {one.rendered.parent: ""}
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
    return Interests(owns, reads, selects)


def root_in(bundle: Bundle, parent: ObjectKey) -> ObjectKey | None:
    """The instance of a source that this one is, or is nested in; None for the set of a source, and for what is not rendered."""
    while (rendered := bundle.instances.get(parent)) and rendered.owner:
        if rendered.owner not in bundle.instances:
            return parent
        parent = rendered.owner
    return None


def subjects(observed: Observed) -> Iterator[Subject]:
    """What a whole pass rested on: members of our sets, instances, what selections found, and our records."""
    yield Subject(GroupKind("", "ConfigMap"), OWN_NAMESPACE)
    for kind in observed.listed:
        yield Subject(kind, selector="" if kind in observed.whole else keys.PART_OF)


def members(one: SetPlan) -> Iterator[GroupKind]:
    """The kinds of what one set owns."""
    return (node.node.group_kind for node in one.nodes if not node.node.external)


def references(one: SetPlan) -> Iterator[Subject]:
    """What one set rests on beside its members: what its templates refer to and select, and what stands in the way."""
    for selection in one.rendered.selections.values():
        yield Subject(selection.group_kind, selection.namespace or "", selection.labels)
    for node in one.nodes:
        key, live = node.node.key, node.live
        if key and (node.node.external or (live is not None and not label(live, keys.PART_OF))):
            yield Subject(key.group_kind, key.namespace, name=key.name)
