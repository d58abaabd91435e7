"""What is below a parent, from the cluster alone: members by level, and the members of those that are parents themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from applier import inventory, status
from applier.cluster import Cluster, Object
from applier.errors import KindNotServed
from applier.inventory import ForeignSet
from applier.member import Member
from applier.observed import label
from renderer import keys
from renderer.identity import GroupKind, ObjectKey


@dataclass(frozen=True, slots=True)
class Branch:
    """One object; `below` are its members in order of level, node and name. `health` is a word of kstatus, for a terminating one too."""

    key: ObjectKey
    level: int | None
    node: str
    health: str
    message: str
    obj: Object
    below: tuple[Branch, ...] = ()


async def tree(cluster: Cluster, parent: Object) -> Branch:
    """Everything below this parent, one list for each kind and set. Raises ClusterError."""
    member, found = Member.of(parent), status.health(parent, is_instance=bool(label(parent, keys.PARENT_ID)))
    below = sorted(
        await asyncio.gather(*(tree(cluster, obj) for obj in await _members(cluster, parent))),
        key=lambda branch: (branch.level if branch.level is not None else -1, branch.node, branch.key),
    )
    return Branch(member.key, member.level, member.node, found.status.value, found.message, parent, tuple(below))


async def _members(cluster: Cluster, parent: Object) -> list[Object]:
    set_id = label(parent, keys.PARENT_ID)
    if not set_id:
        return []
    try:
        kinds = sorted(inventory.read_scope(parent).kinds)
    except ForeignSet:
        return []
    listed = await asyncio.gather(*(_list(cluster, kind, set_id) for kind in kinds))
    return [obj for objects in listed for obj in objects]


async def _list(cluster: Cluster, kind: GroupKind, set_id: str) -> list[Object]:
    try:
        return await cluster.list(kind, selector=f"{keys.PART_OF}={set_id}")
    except KindNotServed:
        return []


def walk(branch: Branch, depth: int = 0) -> Iterator[tuple[int, Branch]]:
    """Each object with its depth, a parent before its members."""
    yield depth, branch
    for one in branch.below:
        yield from walk(one, depth + 1)
