"""Who cares about which object: an index from events in the cluster to what has to be worked on, at a cost that unrelated objects do not add to.

Each key (a set, by its parent) says what it owns, what it reads by name and what it selects by labels; references to what does not exist yet stand in
the same index, so that its creation is an event like any other. Only these forward references count: nothing on an object says who reads it
(S4-4, S4-8). An event carries no decision; it only selects keys (S2-10, S4-5).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from typing import TypeVar

from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.label_selector import Operator, Selection

Nodes = frozenset[str]
"""Ids of nodes; the empty text is the parent of a set itself."""

Labels = Mapping[str, str]

At = TypeVar("At", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What one key owns, reads and selects, each with the ids of the nodes that it is for."""

    owns: Mapping[ObjectKey, str] = field(default_factory=dict)
    reads: Mapping[ObjectKey, Nodes] = field(default_factory=dict)
    selects: Mapping[Selection, Nodes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DependencyMatch:
    """Why a key is woken: it owns, reads or selects the object, for these nodes."""

    owned: Nodes = frozenset()
    read: Nodes = frozenset()
    selected: Nodes = frozenset()

    @property
    def nodes(self) -> Nodes:
        return self.owned | self.read | self.selected


@dataclass
class DependencyIndex:
    """All interests, by object. `put` and `remove` cost as much as the interests that change, `find_dependents` as much as what it answers."""

    _interests: dict[ObjectKey, Dependencies] = field(default_factory=dict)
    _owners: dict[ObjectKey, dict[ObjectKey, str]] = field(default_factory=dict)
    _readers: dict[ObjectKey, dict[ObjectKey, Nodes]] = field(default_factory=dict)
    _selectors: dict[GroupKind, dict[str, dict[Selection, dict[ObjectKey, Nodes]]]] = field(default_factory=dict)
    _labels: dict[ObjectKey, Labels] = field(default_factory=dict)

    def set_dependencies(self, key: ObjectKey, interests: Dependencies) -> None:
        """These are the interests of a key, instead of those before."""
        before = self._interests.get(key)
        if before == interests:
            return
        self.remove(key)
        self._interests[key] = interests
        for obj, node in interests.owns.items():
            self._owners.setdefault(obj, {})[key] = node
        for obj, nodes in interests.reads.items():
            self._readers.setdefault(obj, {})[key] = nodes
        for selection, nodes in interests.selects.items():
            by_requirement = self._selectors.setdefault(selection.group_kind, {})
            by_requirement.setdefault(_narrowest(selection), {}).setdefault(selection, {})[key] = nodes

    def remove(self, key: ObjectKey) -> None:
        """A key has no interests any more."""
        interests = self._interests.pop(key, Dependencies())
        for obj in interests.owns:
            _remove(self._owners, obj, key)
        for obj in interests.reads:
            _remove(self._readers, obj, key)
        for selection in interests.selects:
            kinds = self._selectors[selection.group_kind]
            _remove(kinds[_narrowest(selection)], selection, key)
            if not kinds[_narrowest(selection)]:
                del kinds[_narrowest(selection)]
            if not kinds:
                del self._selectors[selection.group_kind]

    def find_dependents(
        self, obj: ObjectKey, labels: Labels, *, deleted: bool = False
    ) -> dict[ObjectKey, DependencyMatch]:
        """Which keys an event on an object wakes: who owns it, who reads it, and whose selection it matches or did so before."""
        owned = {key: frozenset({node}) for key, node in self._owners.get(obj, {}).items()}
        read = self._readers.get(obj, {})
        selected: dict[ObjectKey, Nodes] = {}
        if obj.group_kind in self._selectors:
            before = self._labels.pop(obj, None) if deleted else self._labels.get(obj)
            if not deleted:
                self._labels[obj] = labels
            for known in (labels,) if before is None else (labels, before):
                for key, nodes in self._matching(obj, known):
                    selected[key] = selected.get(key, frozenset()) | nodes
        none: Nodes = frozenset()
        return {
            key: DependencyMatch(owned.get(key, none), read.get(key, none), selected.get(key, none))
            for key in sorted({*owned, *read, *selected})
        }

    def _matching(self, obj: ObjectKey, labels: Labels) -> Iterable[tuple[ObjectKey, Nodes]]:
        by_requirement = self._selectors[obj.group_kind]
        for requirement in ("", *(f"{name}={value}" for name, value in labels.items())):
            for selection, keys in by_requirement.get(requirement, {}).items():
                if selection.selects(obj.namespace, labels):
                    yield from keys.items()


def _narrowest(selection: Selection) -> str:
    """A requirement that everything it selects must carry as a label; empty where it has none of that form."""
    labels = (one for one in selection.labels.requirements if one.operator is Operator.IN and len(one.values) == 1)
    return next((f"{label.key}={value}" for label in labels for value in label.values), "")


def _remove(index: dict[At, dict[ObjectKey, T]], at: At, key: ObjectKey) -> None:
    keys = index[at]
    del keys[key]
    if not keys:
        del index[at]
