"""A commit as if it had been brought about: the objects that a cluster would hold, with all that Levelgate records on them.

Whatever the commit says is there and nothing else; what waits for values that only a cluster gives as far as they are known, and not at all where not
even its name is. So a plan against it says what the next commit changes, and no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from applier.applyset import inventory, member
from applier.cluster import CONTENT, Object
from applier.plan.model import Plan
from gitops.records.revisions import RevisionArchive, applied_body
from gitops.records.rollout_records import rollout_body
from gitops.records.source_record import SourceRecord
from gitops.rollouts.policy import Policy, governing
from gitops.rollouts.policy_reader import policies_of
from gitops.rollouts.source_rules import in_force
from gitops.rollouts.state import RolloutState, TargetRevision
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, key_hash, source_parent
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering

_LONG_AGO = "2000-01-01T00:00:00Z"


def assume_applied(
    catalog: Catalog, bundle: Rendering, version: str, rollouts: Iterable[Object] = ()
) -> Mapping[ObjectKey, Object]:
    """Objects by key; `bundle` is the rendering of the catalog alone, `rollouts` are records of these."""
    records = RevisionArchive().foreseen(bundle.issued).records.values()
    rules = RevisionArchive().due(Plan(()), {catalog.source: in_force(catalog, {}).accepted})
    found = [*rollouts, *records, *rules, *(applied_body(one) for one in bundle.instances.values() if one.revision)]
    objects = list(map(_live, found))
    for one in bundle.sets:
        objects += [_member(one, node, deps, bundle, version) for node, deps in _nodes(one)]
    parent = source_parent(catalog.source)
    scope = inventory.scope_of(_keys(bundle.sources[catalog.source]), parent)
    record = inventory.parent_body(parent, "v1", scope, version=version)
    data = SourceRecord(target=catalog.revision, applied=catalog.revision, own=catalog.revision).data()
    objects.append(_live({**record, "data": data}))
    return {ObjectKey.of(obj): obj for obj in objects}


def completed_rollouts(catalog: Catalog, bundle: Rendering) -> Sequence[Object]:
    """Records of rollouts that are over: every instance is at the one revision that there is."""
    policies = policies_of(catalog).policies
    numbers = {one.kind: one.number for one in bundle.issued}
    found: dict[str, Object] = {}
    for key, rendered in bundle.instances.items():
        definition, number = bundle.definitions.get(key.group_kind), numbers.get(key.group_kind)
        if definition and number:
            policy = governing(policies, definition.name, rendered.manifest["metadata"].get("labels") or {})
            if isinstance(policy, Policy):
                name = policy.rollout_of(definition.name)
                found[name] = rollout_body(name, RolloutState(completed=TargetRevision(number, catalog.revision)))
    return [found[name] for name in sorted(found)]


def _nodes(one: RenderedApplySet) -> Iterator[tuple[RenderedNode, Collection[str]]]:
    needs = one.member_dependencies
    there = (node for node in one.nodes if node.key and (node.writable or (node.waiting and not node.external)))
    return ((node, needs[node.id]) for node in there)


def _keys(one: RenderedApplySet) -> Iterator[ObjectKey]:
    return (node.key for node in one.nodes if node.key and not node.external)


def _member(
    one: RenderedApplySet, node: RenderedNode, deps: Collection[str], bundle: Rendering, version: str
) -> Object:
    body = member.body(one, node, deps=deps, live=None, parent_uid="", revision="")
    live = _live(body)
    live["metadata"]["managedFields"] = [_owned(body)]
    if node.key and (below := bundle.instances.get(node.key)) and not below.error:
        scope = inventory.scope_of(_keys(below), node.key)
        parent = inventory.parent_body(node.key, body["apiVersion"], scope, version=version)
        for name in ("labels", "annotations"):
            live["metadata"][name] = {**live["metadata"][name], **parent["metadata"][name]}
    return live


def _live(body: Object) -> Object:
    key = ObjectKey.of(body)
    server = {
        "uid": key_hash(key),
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": _LONG_AGO,
    }
    return {**body, "metadata": {**body["metadata"], **server}}


def _owned(body: Object) -> Object:
    """The managed fields of one who applied all of it; what is owned whole is owned with all its parts."""
    metadata: Object = {
        f"f:{name}": {f"f:{key}": {} for key in value} if name in {"labels", "annotations"} else {}
        for name, value in body["metadata"].items()
        if name not in {"name", "namespace"}
    }
    content: Object = {f"f:{name}": {} for name in body if name not in {"apiVersion", "kind", "metadata"}}
    return {
        "manager": CONTENT,
        "operation": "Apply",
        "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": metadata, **content},
    }
