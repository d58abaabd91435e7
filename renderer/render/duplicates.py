"""Objects that two places of one source declare: nobody can tell which of them is right, so none is obeyed.

What is applied stays as it is: the object of a node in error is not written and not pruned, and an instance is rendered from its applied pair.
Two instances may want one object: who has it keeps it. Definitions are in `renderer.catalog.duplicate_definitions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet, RenderedNode

_ADVICE = "it stays as it is until only one of them is left"


@dataclass(frozen=True, slots=True)
class DeclaredNodes:
    """The nodes of all objects that a source declares, in order; by key, of several the first; and the keys of `refused` ones, which are in error."""

    nodes: tuple[RenderedNode, ...]
    by_key: Mapping[ObjectKey, RenderedNode]
    refused: frozenset[ObjectKey]

    @property
    def problems(self) -> list[Problem]:
        """One at each place of what is refused."""
        return [
            Problem(node.origin.file, node.origin.line, "", node.error)
            for node in (self.nodes if self.refused else ())
            if node.key in self.refused
        ]

    def without_made(self, made_twice: Mapping[ObjectKey, MadeTwice]) -> DeclaredNodes:
        """The same with those refused, too, that an instance makes as well."""
        if not made_twice:
            return self
        nodes = tuple(
            replace(node, error=found.describe(node.key))
            if node.key and node.key not in self.refused and (found := made_twice.get(node.key))
            else node
            for node in self.nodes
        )
        return DeclaredNodes(nodes, _by_key(nodes), self.refused | made_twice.keys())


@dataclass(frozen=True, slots=True)
class MadeTwice:
    """An object that a source declares at `origin` and the instance `maker` of it makes as well, by what stands at `made_at`."""

    origin: SourceLocation
    maker: ObjectKey
    made_at: SourceLocation

    def describe(self, key: ObjectKey) -> str:
        """What is wrong with both."""
        return f"{key} is declared at {self.origin}, and {self.maker} makes it as well ({self.made_at}); {_ADVICE}"


def refuse_duplicates(nodes: Sequence[RenderedNode]) -> DeclaredNodes:
    """Put all nodes of one key in error, which names all their places."""
    groups: dict[ObjectKey, list[RenderedNode]] = {}
    for node in nodes:
        assert node.key is not None
        groups.setdefault(node.key, []).append(node)
    duplicates = frozenset(key for key, group in groups.items() if len(group) > 1)
    if duplicates:
        nodes = [
            refused_node(node, [other.origin for other in groups[node.key]]) if node.key in duplicates else node
            for node in nodes
        ]
    return DeclaredNodes(tuple(nodes), _by_key(nodes), duplicates)


def _by_key(nodes: Sequence[RenderedNode]) -> Mapping[ObjectKey, RenderedNode]:
    return {node.key: node for node in reversed(nodes) if node.key}


def refused_node(node: RenderedNode, origins: Iterable[SourceLocation]) -> RenderedNode:
    """Return a node in error, because a source declares the object in several places."""
    places = join_names(origins, separator=" and ")
    return replace(node, error=f"{node.key} is declared at {places}; {_ADVICE}")


def find_made_twice(
    declared: Mapping[ObjectKey, RenderedNode], sets: Iterable[RenderedApplySet]
) -> dict[ObjectKey, MadeTwice]:
    """What a source declares and these sets of its instances want as well. Of a set that is held, or not at its target revision, nobody knows
    whether it goes on to want it: there, who has an object keeps it.
    """
    return {
        node.key: MadeTwice(declared[node.key].origin, rendered.parent, node.origin)
        for rendered in sets
        if not (rendered.error or rendered.held_reason) and rendered.revision == rendered.target_revision
        for node in rendered.nodes
        if node.key in declared and not node.external and node.key
    }


def refuse_made(rendered: RenderedApplySet, made_twice: Mapping[ObjectKey, MadeTwice]) -> RenderedApplySet:
    """The set of an instance whose nodes are in error where its source declares them, too; itself where it has none."""
    nodes = tuple(_refused_resource(node, made_twice) for node in rendered.nodes)
    return (
        rendered
        if all(new is old for new, old in zip(nodes, rendered.nodes, strict=True))
        else replace(rendered, nodes=nodes)
    )


def _refused_resource(node: RenderedNode, made_twice: Mapping[ObjectKey, MadeTwice]) -> RenderedNode:
    if node.key is None or node.external or not (found := made_twice.get(node.key)):
        return node
    return replace(node, error=node.error or found.describe(node.key))
