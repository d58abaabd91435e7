"""Order of deletions among members that read each other by `externalRef`.

The module is pure, and uses cluster state alone. If Levelgate also deletes the readers of a member, the member comes
after its readers. A reader that stays does not delay the deletion, but the plan reports the reader. Readers in a cycle
do not wait for each other, so that no deletion waits forever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import NamedTuple

from applier.applyset.member import Member, MembersByHash
from renderer.frozen import dataclass
from renderer.graph.levels import find_circles
from renderer.identity import ObjectKey, key_hash

_ReadPair = tuple[ObjectKey, ObjectKey]
"""A reader, and the object whose deletion waits until the reader is gone."""


class _Step(NamedTuple):
    """A step of the deletion of the object `key`."""

    key: ObjectKey
    is_over: bool
    """True for the disappearance of the object, false for the request to delete the object."""


@dataclass(frozen=True)
class Leaving:
    """Live members to be deleted: no set wants the members, and nothing keeps the members for good."""

    members: Mapping[ObjectKey, Member]
    """Members to be deleted, by key."""
    instances: Mapping[ObjectKey, ObjectKey]
    """Instance that owns the set of a member, by key of the member. The mapping omits members of the set of a source.
    """

    def instances_around(self, key: ObjectKey) -> Iterator[ObjectKey]:
        """Yield the instances around the member `key` that are also to be deleted, innermost first."""
        while (instance := self.instances.get(key)) and instance in self.members:
            yield instance
            key = instance


@dataclass(frozen=True)
class ReadOrder:
    """Constraints that reads impose on the order of deletions."""

    leaving: Leaving
    """Members to be deleted."""
    recorded: MembersByHash
    """Live members that no planned set wants, by the hash of each key that the members read."""
    wanted: Mapping[str, Collection[ObjectKey]]
    """Keys of rendered nodes, by the hash of each key that the nodes read."""

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the keys of the objects that stay and read the object `key`."""
        hashed = key_hash(key)
        kept = (reader.key for reader in self.recorded.get(hashed, ()) if reader.key not in self.leaving.members)
        return tuple(sorted({*self.wanted.get(hashed, ()), *kept} - {key}))

    @cached_property
    def going_first(self) -> MembersByHash:
        """Return the members to delete before each waiting object, by the hash of that object.

        An object waits for its readers and their instances. The instances around the object wait too, because an
        instance exists as long as its members. If a reader, or an instance around the object, would close a cycle, the
        result omits it.
        """
        members = self.leaving.members
        read = [
            (reader.key, key)
            for key in members
            for reader in self.recorded.get(key_hash(key), ())
            if reader.key != key and reader.key in members
        ]
        if not read:
            return {}
        direct = self._without_circles(read)
        around = [
            pair
            for reader, key in direct
            for pair in product(
                (reader, *list(self.leaving.instances_around(reader))[:1]), (key, *self.leaving.instances_around(key))
            )
            if pair[0] != pair[1]
        ]
        first: dict[str, list[Member]] = {}
        for reader, key in dict.fromkeys((*direct, *self._without_circles([*direct, *around]))):
            first.setdefault(key_hash(key), []).append(members[reader])
        return {hashed: tuple(found) for hashed, found in first.items()}

    def _without_circles(self, pairs: Collection[_ReadPair]) -> list[_ReadPair]:
        """Return the pairs in `pairs` that are not part of a cycle of deletions that wait for each other."""
        waits = {step: list(found) for step, found in self._lifecycles.items()}
        asked = [pair for pair in dict.fromkeys(pairs) if not self.leaving.members[pair[1]].is_terminating]
        for reader, key in asked:
            waits[_Step(key, is_over=False)].append(_Step(reader, is_over=True))
        circles = find_circles(waits)
        return [
            (reader, key)
            for reader, key in asked
            if circles[_Step(reader, is_over=True)] != circles[_Step(key, is_over=False)]
        ]

    @cached_property
    def _lifecycles(self) -> Mapping[_Step, list[_Step]]:
        """Return, for each step of the deletions, the steps that precede it for reasons other than reads.

        A member waits for the request to delete its instance. An instance disappears after its last member. The
        request to delete an object follows the disappearance of the object's dependents.
        """
        members = self.leaving.members
        by_hash = {key_hash(key): key for key in members}
        waits: dict[_Step, list[_Step]] = {_Step(key, is_over): [] for key in members for is_over in (False, True)}
        for key, member in members.items():
            waits[_Step(key, is_over=True)].append(_Step(key, is_over=False))
            for instance in list(self.leaving.instances_around(key))[:1]:
                waits[_Step(key, is_over=False)].append(_Step(instance, is_over=False))
                waits[_Step(instance, is_over=True)].append(_Step(key, is_over=True))
            for dependency in member.dependencies:
                if (used := by_hash.get(dependency)) and used != key:
                    waits[_Step(used, is_over=False)].append(_Step(key, is_over=True))
        return {
            step: [] if members[step.key].is_terminating and not step.is_over else found
            for step, found in waits.items()
        }


class MemberSet(NamedTuple):
    """Live members of one set: members that the set may lose, and members that the set keeps."""

    instance: ObjectKey | None
    """Parent of the set, or None for a source, and for a set that the plan does not cover."""
    is_unwanted: bool
    """True if the set loses its members only together with its instance."""
    leaving: tuple[Member, ...]
    """Members that no set wants."""
    staying: tuple[Member, ...]
    """Members that another set wants, or that stay although no set wants them."""


def find_leaving(sets: Iterable[MemberSet]) -> Leaving:
    """Return the members to be deleted, among all members of `sets`.

    A member that stays keeps its dependencies, and an instance exists as long as its last member.

    Args:
        sets: sets in an order in which an owner comes before the sets of its members.
    """
    members: dict[ObjectKey, Member] = {}
    instances: dict[ObjectKey, ObjectKey] = {}
    staying: list[Member] = []
    for one in sets:
        if one.instance:
            instances |= {member.key: one.instance for member in (*one.leaving, *one.staying)}
        staying += one.staying
        if one.is_unwanted and one.instance not in members:
            staying += one.leaving
        else:
            members |= {member.key: member for member in one.leaving}
    by_hash = {key_hash(key): key for key in members}
    while staying:
        member = staying.pop()
        needed = [instances.get(member.key), *map(by_hash.get, member.dependencies)]
        staying += [members.pop(key) for key in needed if key and key in members]
    return Leaving(members, instances)
