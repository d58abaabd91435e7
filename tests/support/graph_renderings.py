"""Renderings of instances in a graph, compared with renderings from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from applier.cluster import Discovery
from gitops.decisions import live, resources
from gitops.decisions.resources import InstanceRendering
from gitops.queries import Input, QueryGraph, Roots, query
from renderer.definition.compile import Definition
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same
from renderer.label_selector import Selection
from renderer.render.model import Live, RenderedApplySet, Selected
from renderer.render.resolve import resolve
from tests.support.graph_inputs import new_graph

wanted: Input[[], frozenset[InstanceRendering]] = Input("wanted", initial=frozenset(), starts_unread=False)


@query
def _wanted(graph: QueryGraph) -> frozenset[InstanceRendering]:
    return wanted(graph)


RENDERINGS = Roots("renderings", members=_wanted, result=resources.rendered_set)
"""Roots that keep the renderings of instances, so that a test sees what a change computes again."""


@dataclass
class ComparingRenderer:
    """Renderer that renders each instance from scratch and in one graph, and compares the results."""

    graph: QueryGraph = field(default_factory=new_graph)
    _objects: dict[ObjectKey, Any] = field(default_factory=dict)
    _numbers: dict[Definition, int] = field(default_factory=dict)
    _kinds: set[GroupKind] = field(default_factory=set)
    _selections: set[Selection] = field(default_factory=set)
    _renderings: frozenset[InstanceRendering] = frozenset()

    def resolve(
        self,
        definition: Definition,
        instance: Manifest,
        *,
        observed: Live,
        definitions: Mapping[GroupKind, Definition],
        scopes: Mapping[GroupKind, bool],
        selected: Selected | None = None,
        source: str = "",
        owner: ObjectKey | None = None,
    ) -> RenderedApplySet:
        expected = resolve(
            definition,
            instance,
            observed=observed,
            definitions=definitions,
            scopes=scopes,
            selected=selected,
            source=source,
            owner=owner,
        )
        key = ObjectKey.from_manifest(instance)
        rendering = InstanceRendering(key, self._number(definition), source, owner or key)
        objects: dict[ObjectKey, Any] = dict(getattr(observed, "_live", observed))
        with self.graph.transaction() as transaction:
            for place, obj in objects.items():
                transaction.set(live.live.at(place), obj)
            live.set_absent(transaction, self._objects.keys() - objects.keys())
            transaction.set(live.discovery.at(), Discovery({}))
            for kind in self._kinds | definitions.keys() | scopes.keys():
                transaction.set(
                    resources.current_revision.at(kind), self._number(definitions[kind]) if kind in definitions else 0
                )
                transaction.set(resources.namespaced.at(kind), scopes.get(kind))
            for used, number in self._numbers.items():
                transaction.set(resources.definition_at.at(used.group_kind, number), used)
            for selection in {*self._selections, *(selected or {})}:
                keys = (selected or {}).get(selection)
                listed = keys if keys is None or isinstance(keys, str) else tuple(keys)
                transaction.set(resources.selected.at(selection), listed)
            transaction.set(resources.content.at(rendering), instance)
            self._renderings |= {rendering}
            transaction.set(wanted.at(), self._renderings)
        self._objects = objects
        self._selections |= (selected or {}).keys()
        self._kinds |= definitions.keys() | scopes.keys()
        assert all(answer.fault is None for answer in self.graph.changed(RENDERINGS))
        found = resources.rendered_set(self.graph, rendering)
        assert found == expected
        assert [node.id for node in found.nodes] == [node.id for node in expected.nodes]
        assert all(is_same(a.manifest, b.manifest) for a, b in zip(found.nodes, expected.nodes, strict=True))
        assert is_same(found.status, expected.status)
        return expected

    def _number(self, definition: Definition) -> int:
        return self._numbers.setdefault(definition, len(self._numbers) + 1)
