"""Members of a parent by level, from the cluster alone. A member that is also a parent has members too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from applier.applyset import inventory
from applier.applyset.inventory import ForeignSet
from applier.applyset.member import Member
from applier.cluster import Cluster, Object, list_if_served
from applier.read.observe import read_references
from applier.state.health import health_of, health_reference
from applier.state.observed import Observed, label
from gitops.records.cause_rows import parse_row
from gitops.records.instance_state import InstanceState
from gitops.records.source_record import causes_of
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, group_kind
from renderer.kinds import CRD, is_built_in


@dataclass(frozen=True, slots=True)
class TreeNode:
    """Object with its health and the tree of its members."""

    key: ObjectKey
    level: int | None
    node: str
    health: str
    """Health of the object in the words of kstatus, also for a terminating object."""
    message: str
    children: tuple[TreeNode, ...]
    """Members, sorted by level, node and key."""
    cause: str = ""
    """Cause of the difference between the object and Git, as the parent of the object reports it."""


async def read_tree(cluster: Cluster, parent: Object, now: datetime) -> TreeNode:
    """Return the tree below `parent`, with the health of each object at the time `now`. Raises: ClusterError."""
    members_by_parent: dict[ObjectKey, list[Object]] = {}
    await _collect_members(cluster, parent, members_by_parent)
    objects = [parent, *(obj for member_objects in members_by_parent.values() for obj in member_objects)]
    observed = Observed(await cluster.discover(), now=now).with_objects(objects)
    return _build_node(
        parent, members_by_parent, await read_references(cluster, observed, _health_references(objects, observed))
    )


async def _collect_members(cluster: Cluster, parent: Object, members_by_parent: dict[ObjectKey, list[Object]]) -> None:
    """Fill `members_by_parent` with the members of each object below `parent`."""
    members_by_parent[ObjectKey.from_manifest(parent)] = member_objects = await list_members(cluster, parent)
    await asyncio.gather(*(_collect_members(cluster, obj, members_by_parent) for obj in member_objects))


def _health_references(objects: Iterable[Object], observed: Observed) -> set[ObjectKey]:
    """Return the objects on which the health of `objects` depends.

    The health of a PersistentVolumeClaim depends on its StorageClass. The health of an object without status depends on
    its CRD.
    """
    kinds = {group_kind(obj) for obj in objects if not obj.get("status")}
    custom = [observed.discovery.resources.get(kind) for kind in kinds if not is_built_in(kind)]
    crds = {ObjectKey(*CRD, "", f"{resource.plural}.{resource.group}") for resource in custom if resource}
    return crds.union(filter(None, map(health_reference, objects))) - observed.objects.keys()


def _build_node(obj: Object, members_by_parent: Mapping[ObjectKey, Iterable[Object]], observed: Observed) -> TreeNode:
    member = Member.from_object(obj)
    is_instance = bool(label(obj, well_known.PARENT_ID)) and not is_built_in(member.key.group_kind)
    health = health_of(obj, observed, is_instance=is_instance)
    causes = _causes_by_object(obj)
    children = sorted(
        (
            replace(
                _build_node(child, members_by_parent, observed),
                cause=causes.get(ObjectKey.from_manifest(child), ""),
            )
            for child in members_by_parent[member.key]
        ),
        key=lambda branch: (branch.level if branch.level is not None else -1, branch.node, branch.key),
    )
    return TreeNode(member.key, member.level, member.node_id, health.status.value, health.message, tuple(children))


def _causes_by_object(parent: Object) -> Mapping[ObjectKey, str]:
    """Return the worst cause of each member, from the report of `parent`, which is a source or an instance."""
    if not label(parent, well_known.PARENT_ID):
        return {}
    rows = [*map(parse_row, causes_of(parent)), *InstanceState.from_object(parent).causes]
    return {row.object_key: f"{row.reason}: {row.message}" for row in reversed(rows) if row.object_key}


async def list_members(cluster: Cluster, parent: Object) -> list[Object]:
    """Return the live members of the parent's ApplySet, of the kinds in its inventory. Raises: ClusterError."""
    set_id = label(parent, well_known.PARENT_ID)
    if not set_id:
        return []
    try:
        kinds = sorted(inventory.read_scope(parent).kinds)
    except ForeignSet:
        return []
    selector = f"{well_known.PART_OF}={set_id}"
    lists = await asyncio.gather(*(list_if_served(cluster, kind, selector=selector) for kind in kinds))
    return [obj for objects in lists for obj in objects]


def walk(branch: TreeNode, depth: int = 0) -> Iterator[tuple[int, TreeNode]]:
    """Yield each object with its depth in the tree, a parent before its members.

    Args:
        depth: depth of `branch`.
    """
    yield depth, branch
    for child in branch.children:
        yield from walk(child, depth + 1)
