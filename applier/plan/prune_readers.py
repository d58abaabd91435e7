"""Who reads by `externalRef` what is to go, and which readers have to go before it. Pure; from cluster state alone.

Only readers that go too are waited for. Readers that stay hold nothing: they are named, and the deletion goes on. Readers in a circle do not wait for
one another, so that no deletion waits for ever.
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
"""A reader, and what waits for it."""


class _Step(NamedTuple):
    """The request to delete an object, or (`is_over`) that it is gone."""

    key: ObjectKey
    is_over: bool


@dataclass(frozen=True)
class Leaving:
    """The live members that go: no set wants them, and nothing keeps them for good.

    `members` has them by key, `instances` the instance in whose set each is; the members of a source are in none.
    """

    members: Mapping[ObjectKey, Member]
    instances: Mapping[ObjectKey, ObjectKey]

    def instances_around(self, key: ObjectKey) -> Iterator[ObjectKey]:
        """Yield the instances around a member that go too, from inside to outside."""
        while (instance := self.instances.get(key)) and instance in self.members:
            yield instance
            key = instance


@dataclass(frozen=True)
class ReadOrder:
    """The order that reading asks of deletions.

    `recorded` are live members that no planned set wants, by the hash of what they read; `wanted` is by hash what is wanted, and
    is rendered to read it.
    """

    leaving: Leaving
    recorded: MembersByHash
    wanted: Mapping[str, Collection[ObjectKey]]

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return who reads this object and stays."""
        hashed = key_hash(key)
        kept = (reader.key for reader in self.recorded.get(hashed, ()) if reader.key not in self.leaving.members)
        return tuple(sorted({*self.wanted.get(hashed, ()), *kept} - {key}))

    @cached_property
    def going_first(self) -> MembersByHash:
        """Return, by the hash of what waits for them, the members that have to be gone before: readers, and their instances.

        What waits is what is read, and the instances around it: they are there for it. These instances, and those of
        readers, are left out where they would close a circle; so are readers that close one themselves.
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
        """Return the pairs that are in no circle of deletions that wait for one another."""
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
        """Return what each step waits for without any reading: members for the deletion of their instance, that for its last member to be gone."""
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
    """What becomes of the live members of one set, as far as they matter here.

    `instance` is the parent, None for the set of a source and for one that is not planned here. No set wants those `leaving`.
    Those `staying` are kept all the same, or are wanted by another set. A set that `is_unwanted` loses its members only with
    its instance.
    """

    instance: ObjectKey | None
    is_unwanted: bool
    leaving: tuple[Member, ...]
    staying: tuple[Member, ...]


def find_leaving(sets: Iterable[MemberSet]) -> Leaving:
    """Return the members that go, of sets that come from owner to member.

    What stays keeps what it depends on, and an instance is not gone before its last member is.
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
