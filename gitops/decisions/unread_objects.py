"""Objects of sets that have to be read before a plan of their set can say more than that.

The shell reads these objects first, so that no set is planned only to ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from applier.plan.model import NodeAction
from gitops.decisions.definitions import planned_source_names
from gitops.decisions.node_states import SetPlace, node_state
from gitops.decisions.rollout_members import all_instances
from gitops.decisions.source_sets import source_set
from gitops.decisions.wanted import wanted_set
from gitops.queries import QueryGraph, Roots, query
from renderer.identity import ObjectKey
from renderer.render.model import RenderedNode


@query
def unread_objects(graph: QueryGraph, instance: ObjectKey) -> frozenset[ObjectKey]:
    """Return the objects of the nodes of an instance that nobody has read."""
    rendered = wanted_set(graph, instance)
    if rendered is None or rendered.error:
        return frozenset()
    return _unread_nodes(graph, SetPlace.of_instance(instance), rendered.nodes)


@query
def unread_source_objects(graph: QueryGraph, source: str) -> frozenset[ObjectKey]:
    """Return the objects of the nodes of a source that nobody has read."""
    rendered = source_set(graph, source)
    return frozenset() if rendered.error else _unread_nodes(graph, SetPlace.of_source(source), rendered.nodes)


def _unread_nodes(graph: QueryGraph, place: SetPlace, nodes: Iterable[RenderedNode]) -> frozenset[ObjectKey]:
    states = (node_state(graph, place, node.id) for node in nodes if node.key and not node.external)
    plans = (state.plan for state in states if state and state.plan.action is NodeAction.READ)
    return frozenset(plan.node.key for plan in plans if plan.node.key)


UNREAD_OBJECTS: Final = Roots("unread_objects", order=8, members=all_instances, result=unread_objects)
"""Objects that nobody has read, by instance."""

UNREAD_SOURCE_OBJECTS: Final = Roots(
    "unread_source_objects", order=8, members=planned_source_names, result=unread_source_objects
)
"""Objects that nobody has read, by source."""
