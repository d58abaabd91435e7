"""Assumed objects of a cluster after a commit, with Levelgate's records on these objects.

A plan of another commit against the assumed objects reports the changes between both commits, without a cluster. The
assumed objects do not include other objects of the cluster. If an object waits for values of a cluster, and its name
is known, its unresolved expressions stay in the assumed object as text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from applier.applyset import inventory, member
from applier.cluster import CONTENT_MANAGER, Object
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from gitops.records.rollout_records import rollout_body
from gitops.records.source_record import SourceRecord
from gitops.rollouts.policy import Policy, select_policy
from gitops.rollouts.policy_reader import read_policies
from gitops.rollouts.source_rules import resolve_rules
from gitops.rollouts.state import RolloutState, TargetRevision
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, key_hash, source_parent
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering

_ASSUMED_CREATION_TIME = "2000-01-01T00:00:00Z"
"""Creation time of all assumed objects. The time is fixed, so that a commit always has the same assumed objects."""


def assume_applied(
    catalog: Catalog, rendering: Rendering, version: str, rollouts: Iterable[Object]
) -> Mapping[ObjectKey, Object]:
    """Return the assumed objects by key.

    Args:
        rendering: rendering of `catalog` without any other source.
        version: version of Levelgate that the records name.
        rollouts: records from `completed_rollouts`.
    """
    records = RevisionArchive().with_pending_revisions(rendering.issued).records.values()
    rules = RevisionArchive().new_rules({catalog.source: resolve_rules(catalog, {}).accepted})
    packs = AppliedPacks()
    for applyset in rendering.instances.values():
        if applyset.revision:  # 0 for an instance without a revision, such as an instance of a broken definition
            packs.note_applied(applyset)
    objects = list(map(_with_server_metadata, (*rollouts, *records, *rules, *packs.compose((), ()))))
    for applyset in rendering.sets:
        objects += [_member_object(applyset, node, deps, rendering, version) for node, deps in _present_nodes(applyset)]
    parent = source_parent(catalog.source)
    scope = inventory.scope_of(_member_keys(rendering.sources[catalog.source]), parent)
    record = inventory.parent_body(parent, "v1", scope, version=version)
    # The record lists no scopes of instances, because each assumed instance has its own scope in its annotations.
    data = SourceRecord(target=catalog.commit, applied=catalog.commit, own_objects_commit=catalog.commit).data()
    objects.append(_with_server_metadata({**record, "data": data}))
    return {ObjectKey.from_manifest(obj): obj for obj in objects}


def completed_rollouts(catalog: Catalog, rendering: Rendering) -> Sequence[Object]:
    """Return records in which each rollout is completed: every instance is at the only revision of its definition.

    If two policies select an instance equally specifically, the instance adds no record.

    Args:
        catalog: whole commit. A part of the commit may lack instances, and the result then lacks their rollouts.
        rendering: rendering of `catalog` without any other source.
    """
    policies = tuple(read_policies(catalog).rules.values())
    numbers = {new_revision.kind: new_revision.number for new_revision in rendering.issued}
    records: dict[str, Object] = {}
    for key, rendered in rendering.instances.items():
        definition, number = rendering.definitions.get(key.group_kind), numbers.get(key.group_kind)
        if definition and number:
            policy = select_policy(policies, definition.name, rendered.manifest["metadata"].get("labels") or {})
            if isinstance(policy, Policy):
                name = policy.rollout_of(definition.name)
                records[name] = rollout_body(name, RolloutState(completed=TargetRevision(number, catalog.commit)))
    return [records[name] for name in sorted(records)]


def _present_nodes(applyset: RenderedApplySet) -> Iterator[tuple[RenderedNode, Collection[str]]]:
    """Yield each node that is assumed to exist, with the hashes of the keys of its dependencies.

    A node that waits for values is assumed to exist if its key is known.
    """
    dependencies = applyset.member_dependencies
    present = (node for node in applyset.nodes if node.key and (node.writable or (node.waiting and not node.external)))
    return ((node, dependencies[node.id]) for node in present)


def _member_keys(applyset: RenderedApplySet) -> Iterator[ObjectKey]:
    return (node.key for node in applyset.nodes if node.key and not node.external)


def _member_object(
    applyset: RenderedApplySet, node: RenderedNode, deps: Collection[str], rendering: Rendering, version: str
) -> Object:
    # The diffs of a plan ignore the annotations with the uid of the parent and the commit, so both stay empty.
    body = member.member_body(applyset, node, dependencies=deps, live=None, parent_uid="", commit="")
    live = _with_server_metadata(body)
    live["metadata"]["managedFields"] = [_managed_fields_entry(body)]
    if node.key and (nested := rendering.instances.get(node.key)) and not nested.error:
        scope = inventory.scope_of(_member_keys(nested), node.key)
        parent = inventory.parent_body(node.key, body["apiVersion"], scope, version=version)
        for name in ("labels", "annotations"):
            live["metadata"][name] = {**live["metadata"][name], **parent["metadata"][name]}
    return live


def _with_server_metadata(body: Object) -> Object:
    server_metadata = {
        "uid": key_hash(ObjectKey.from_manifest(body)),
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": _ASSUMED_CREATION_TIME,
    }
    return {**body, "metadata": {**body["metadata"], **server_metadata}}


def _managed_fields_entry(body: Object) -> Object:
    """Return the `managedFields` entry of a field manager that applied the whole object.

    The entry lists labels and annotations one by one. Of all other fields, the entry lists only the top level, because
    `managed_fields` reads an empty mapping as the field with all its subfields.
    """
    metadata: Object = {
        f"f:{name}": {f"f:{key}": {} for key in value} if name in {"labels", "annotations"} else {}
        for name, value in body["metadata"].items()
        if name not in {"name", "namespace"}
    }
    content: Object = {f"f:{name}": {} for name in body if name not in {"apiVersion", "kind", "metadata"}}
    return {
        "manager": CONTENT_MANAGER,
        "operation": "Apply",
        "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": metadata, **content},
    }
