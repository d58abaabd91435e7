"""What rendering produces: sets of nodes in levels, and what cannot be written yet or at all, with the reason.

Held, waiting, excluded and failed are values with reasons. Nothing here knows a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from renderer.definition.conditions import ReadyVerdict
from renderer.definition.custom_conditions import CustomConditions
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id, is_same, key_hash
from renderer.label_selector import Selection
from renderer.manifest_hash import render_hash

if TYPE_CHECKING:
    from renderer.definition.compile import Definition
    from renderer.definition.gates import Gate

Live = Mapping[ObjectKey, Mapping[str, Any]]
"""Objects as observed in the cluster, by key."""

Selected = Mapping[Selection, Collection[ObjectKey] | str]
"""Which objects a selection found, or why they may not be listed; one that is not here has not been looked for, or could not be."""


READ_SUFFIX = "^"
"""Suffix of a recorded dependency that is only read, by `externalRef`: it orders deletions, and keeps nothing that others want to delete."""


def id_in_definition(node: str) -> str:
    """The id that a node has in its definition: items of a collection are called `workers/2`."""
    return node.partition("/")[0]


@dataclass(frozen=True)
class RenderedNode:
    """One desired object of a set. An item of a collection has the id of its node and its index: `workers/2`.

    `key` is None while name or namespace wait for data. A node with `waiting` (what it waits for, as paths) or `error` is not written, and
    `manifest` then keeps its unresolved expressions as written. `healthy_first` are the dependencies that must be healthy, not only ready.
    `external` nodes are read, never written; `selection` is set while the objects that such a node selects are not known. `iterators` are the values
    that the item of a collection was made from.
    """

    id: str
    level: int
    depends_on: tuple[str, ...]
    group_kind: GroupKind
    manifest: Manifest
    key: ObjectKey | None
    waiting: tuple[str, ...] = ()
    error: str = ""
    ready: ReadyVerdict = ReadyVerdict()
    healthy_first: frozenset[str] = frozenset()
    external: bool = False
    selection: Selection | None = None
    iterators: Mapping[str, Any] = field(default_factory=dict)
    origin: SourceLocation = SourceLocation()

    @property
    def writable(self) -> bool:
        return not (self.waiting or self.error or self.external)

    @property
    def mistake(self) -> str:
        """What is wrong with it, and where that stands in Git."""
        return self.origin.prefixed(self.error)

    @cached_property
    def hash(self) -> str:
        """`stored.render_hash` of the manifest."""
        return render_hash(self.manifest)

    def placed(
        self, level: int, depends_on: tuple[str, ...], healthy_first: frozenset[str], error: str = ""
    ) -> RenderedNode:
        """The node at its place in an order; itself where it stands there already, as most do. `error`: what is wrong with the place."""
        if (level, depends_on, healthy_first) == (self.level, self.depends_on, self.healthy_first) and not error:
            return self
        return replace(self, level=level, depends_on=depends_on, healthy_first=healthy_first, error=self.error or error)


@dataclass(frozen=True, slots=True)
class ExcludedNode:
    """A node that `includeWhen` took out, and why."""

    id: str
    because: str


@dataclass(frozen=True)
class RenderedApplySet:
    """All nodes that one ApplySet parent owns, in levels. With `error` the set could not be rendered: nothing of it is written or pruned.

    `manifest` is the instance itself, its spec defaulted; empty for the set of a source. `conditions` are those that its definition makes. `owner`
    is the parent of the set that the instance is in.
    `revision` is the number of the definition revision that the nodes are rendered from, `aim` the one that the instance is to move to: the same
    unless it waits for its turn; `unfit`: why what Git wants of it does not fit there. `applied` is the one that it was last brought to, 0 where
    there is none. `is_applied`: all of this was brought about before, so that whatever differs is drift. `before` is the instance at its applied
    pair, where somebody asked for it.

    `gates` are those of its nodes, by the id that a node has in the definition; a node that says nothing of gates is not there.

    A `held` set (with the reason) is rendered from its applied pair, because what Git wants of it cannot be rendered: it is healed, never moved.
    `begun` is what a source's own objects have moved to in part, where that is not what is wanted now.
    `problems` are those of a source's definitions, `selections` what its nodes select by labels, by the id that a node has in the definition.
    """

    parent: ObjectKey
    manifest: Manifest = field(default_factory=dict)
    nodes: tuple[RenderedNode, ...] = ()
    excluded: tuple[ExcludedNode, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    conditions: CustomConditions | None = None
    error: str = ""
    source: str = ""
    definition: str = ""
    owner: ObjectKey | None = None
    revision: int = 0
    target_revision: int = 0
    incompatible_reason: str = ""
    applied: int = 0
    is_applied: bool = False
    applied_rendering: RenderedApplySet | None = None
    begun: BegunCommit | None = None
    gates: Mapping[str, tuple[Gate, ...]] = field(default_factory=dict)
    held_reason: str = ""
    problems: tuple[Problem, ...] = ()
    selections: Mapping[str, Selection] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        return applyset_id(self.parent)

    @cached_property
    def is_source(self) -> bool:
        """Is this the set of a source, and not of an instance?"""
        return _is_source(self.parent)

    @property
    def is_nested(self) -> bool:
        """Return whether this is the set of an instance that another instance wants."""
        return self.owner is not None and not _is_source(self.owner)

    @cached_property
    def nodes_by_id(self) -> Mapping[str, RenderedNode]:
        return {node.id: node for node in self.nodes}

    @property
    def levels(self) -> list[list[RenderedNode]]:
        found: list[list[RenderedNode]] = [[] for _ in range(1 + max((node.level for node in self.nodes), default=-1))]
        for node in self.nodes:
            found[node.level].append(node)
        return found

    @cached_property
    def member_dependencies(self) -> dict[str, list[str]]:
        """Return, of each node, the sorted hashes of the keys of its dependencies, as recorded on the member.

        What it reads by a reference is marked, and so is what that reference was made from. What only the instance itself
        reads, for its status or a gate, is recorded on the members that are deleted last: those that depend on no other.
        """
        by_id = self.nodes_by_id
        found = {node.id: self._dependencies_of(node, by_id) for node in self.nodes if not node.external}
        if external := {node.id for node in self.nodes if node.external}:
            unread = external.difference(*(names for names in found.values()))
            for node_id, names in found.items():
                if names <= external:
                    found[node_id] = names | unread
        return {
            node_id: sorted(
                key_hash(dependency.key) + (READ_SUFFIX if dependency.external else "")
                for name in names
                if (dependency := by_id[name]).key
            )
            for node_id, names in found.items()
        }

    @cached_property
    def member_reads(self) -> Mapping[ObjectKey, frozenset[str]]:
        """Return, of each object that it wants, the hashes of what that reads by a reference."""
        keys = {node.id: node.key for node in self.nodes}
        return {
            key: frozenset(name.removesuffix(READ_SUFFIX) for name in names if name.endswith(READ_SUFFIX))
            for node_id, names in self.member_dependencies.items()
            if (key := keys[node_id])
        }

    def _dependencies_of(self, node: RenderedNode, by_id: Mapping[str, RenderedNode]) -> set[str]:
        """Return the ids of the direct dependencies of a node, and of those of the references among them."""
        found: set[str] = set()
        pending = list(node.depends_on)
        while pending:
            name = pending.pop()
            if name in by_id and name not in found:
                found.add(name)
                if by_id[name].external:
                    pending.extend(by_id[name].depends_on)
        return found


def is_same_node(before: RenderedNode | None, after: RenderedNode | None) -> bool:
    """Return whether two nodes are equal. Python's `==` alone treats `1` and `True` in manifests as equal."""
    return before is after or (
        before is not None and after is not None and before == after and is_same(before.manifest, after.manifest)
    )


def is_same_set(before: RenderedApplySet | None, after: RenderedApplySet | None) -> bool:
    """Return whether two sets are equal. Python's `==` alone treats `1` and `True` in JSON as equal."""
    return before is after or (
        before is not None
        and after is not None
        and before == after
        and is_same([before.manifest, before.status], [after.manifest, after.status])
        and all(map(is_same_node, before.nodes, after.nodes))
        and is_same_set(before.applied_rendering, after.applied_rendering)
        and is_same_begun(before.begun, after.begun)
    )


def is_same_begun(before: BegunCommit | None, after: BegunCommit | None) -> bool:
    """Return whether two begun commits are equal. Python's `==` alone treats `1` and `True` in JSON as equal."""
    if before is None or after is None:
        return before is after
    return before.commit == after.commit and is_same_set(before.rendering, after.rendering)


def _is_source(parent: ObjectKey) -> bool:
    """Return whether the parent of a set is the record of a source."""
    return (parent.group, parent.kind) == ("", "ConfigMap")


@dataclass(frozen=True, slots=True)
class BegunCommit:
    """An earlier commit to which a source's own objects have moved in part, and these objects as it says them.

    `commit` is the short form that members record.
    """

    commit: str
    rendering: RenderedApplySet


@dataclass(frozen=True, slots=True)
class NewRevision:
    """A new revision of a definition: its number, its digest, the definition as it is stored, and the commit that brings it."""

    kind: GroupKind
    number: int
    digest: str
    manifest: Manifest
    source: str
    commit: str
    author: str
    message: str


@dataclass(frozen=True, slots=True)
class Rendering:
    """One rendering of everything that a cluster's sources want: the set of each source, and the set of each instance (nested ones too).

    `leaving` are instances that nothing wants any more and that may not go yet, as they were applied. `former` are, of all that
    nothing wants any more, those that read by `externalRef`, as they were applied.
    `definitions` are those that kinds are rendered from, and `owners` the sources that they come from. `issued` are the definition revisions that
    are to be stored before anything of them is written. With `unread` the rendering is not final: these records have to be read first. `commits` are
    those that the sources were read at.
    """

    sources: Mapping[str, RenderedApplySet]
    instances: Mapping[ObjectKey, RenderedApplySet]
    leaving: Mapping[ObjectKey, RenderedApplySet] = field(default_factory=dict)
    former: Mapping[ObjectKey, RenderedApplySet] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    issued: tuple[NewRevision, ...] = ()
    unread: frozenset[str] = frozenset()
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    owners: Mapping[GroupKind, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)

    @property
    def sets(self) -> tuple[RenderedApplySet, ...]:
        return (*self.sources.values(), *self.instances.values())
