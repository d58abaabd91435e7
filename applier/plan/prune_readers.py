"""Order of deletions among members that read each other by `externalRef`. Pure, from cluster state alone.

If the readers of a member are deleted too, the member is deleted after its readers. Readers that stay do not delay the
deletion, but the plan reports the readers. Readers in a cycle do not wait for each other, so that no deletion waits
forever.
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
"""A reader, and the object whose deletion waits until the reader is deleted."""


class _Step(NamedTuple):
    """A step of the deletion of the object `key`.

    If `is_over` is false, the step is the request to delete the object. If `is_over` is true, the step is the
    disappearance of the object.
    """

    key: ObjectKey
    is_over: bool


@dataclass(frozen=True)
class Leaving:
    """Live members that are to be deleted: no set wants them, and nothing keeps them for good.

    `members` maps keys to these members. `instances` maps a member to the instance in whose set it is. A member of a
    source is not in `instances`.
    """

    members: Mapping[ObjectKey, Member]
    instances: Mapping[ObjectKey, ObjectKey]

    def instances_around(self, key: ObjectKey) -> Iterator[ObjectKey]:
        """Yield the enclosing instances of the member `key` that are deleted too, innermost first."""
        while (instance := self.instances.get(key)) and instance in self.members:
            yield instance
            key = instance


@dataclass(frozen=True)
class ReadOrder:
    """Constraints that reading imposes on the order of deletions.

    `leaving` are the members to be deleted. `recorded` are live members that no planned set wants, by the hash of each
    key that they read. `wanted` are the keys of rendered nodes, by the hash of each key that they read.
    """

    leaving: Leaving
    recorded: MembersByHash
    wanted: Mapping[str, Collection[ObjectKey]]

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the readers of the object `key` that stay."""
        hashed = key_hash(key)
        kept = (reader.key for reader in self.recorded.get(hashed, ()) if reader.key not in self.leaving.members)
        return tuple(sorted({*self.wanted.get(hashed, ()), *kept} - {key}))

    @cached_property
    def going_first(self) -> MembersByHash:
        """Return the members to delete before each waiting object, by the hash of that object.

        The object that is read waits for its readers and their instances. The enclosing instances of this object wait
        too, because an instance exists as long as its members. A reader, or an enclosing instance, is left out if it
        would close a cycle.
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
        """Return the pairs in `pairs` that are in no cycle of deletions that wait for each other."""
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
        """Return the steps of deletions, each with the steps that it waits for regardless of reading.

        A member waits for the request to delete its instance. An instance disappears after its last member. An object
        is deleted after the objects that depend on it.
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
    """Live members of one set: members that the set may lose, and members that the set keeps.

    `instance` is the parent. For a source, and for a set that is not planned here, `instance` is None. `leaving` are
    members that no set wants. `staying` are members that are kept although no set wants them, or that another set
    wants. If `is_unwanted` is true, the set loses its members only together with its instance.
    """

    instance: ObjectKey | None
    is_unwanted: bool
    leaving: tuple[Member, ...]
    staying: tuple[Member, ...]


def find_leaving(sets: Iterable[MemberSet]) -> Leaving:
    """Return the members of `sets` to delete. In `sets` an owner comes before the sets of its members.

    A member that stays keeps its dependencies, and an instance exists as long as its last member.
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
