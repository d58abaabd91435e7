"""States of nodes as queries: action, readiness and health of each node by itself.

If an object changes, the graph decides the state of its node again, and of no other node whose manifest stays.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from applier.applyset.completed_jobs import JOB, TTL_TOLERANCE, Completion, completions
from applier.plan.comparison import compare_with_live
from applier.plan.model import is_same_node_plan
from applier.plan.node_state import NodeInputs, NodeState, NodeStateReader, SetFacts
from gitops.decisions import live
from gitops.decisions.declarations import is_instance_kind
from gitops.decisions.live_view import Contained, LiveView
from gitops.decisions.plan_inputs import source_settings
from gitops.decisions.planned import planned_set
from gitops.decisions.source_sets import is_node, keys_by_id, placed_node
from gitops.queries import QueryGraph, query, recompute_at
from renderer.identity import GroupKind, ObjectKey, applyset_id, key_hash, source_parent
from renderer.render.model import RenderedApplySet, RenderedNode, is_same_node


class SetRendering(Enum):
    """Rendering of an instance, of a source's own objects, or of what was last applied of them."""

    # Renderings are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    WANTED = "wanted"
    """What Git wants, or nothing for an unwanted instance."""
    APPLIED = "applied"


class SetPlace(NamedTuple):
    """Set of a source or of an instance, in one of its renderings."""

    source: str
    """Name of the source, or an empty text for the set of an instance."""
    parent: ObjectKey
    rendering: SetRendering

    @classmethod
    def of_source(cls, source: str) -> SetPlace:
        return cls(source, source_parent(source), SetRendering.WANTED)

    @classmethod
    def of_instance(cls, instance: ObjectKey) -> SetPlace:
        return cls("", instance, SetRendering.WANTED)


class SetRecord(NamedTuple):
    """Facts of a set that its members record. Implements `applier.applyset.member.RecordedSet`."""

    parent: ObjectKey
    is_source: bool
    revision: int

    @property
    def id(self) -> str:
        return applyset_id(self.parent)


def set_at(graph: QueryGraph, place: SetPlace) -> RenderedApplySet | None:
    """Return a set, or None if there is nothing to plan for it or its snapshot is not rendered."""
    found = planned_set(graph, place.parent)
    return found.applied_rendering if found and place.rendering is SetRendering.APPLIED else found


@query
def _set_facts(graph: QueryGraph, place: SetPlace) -> SetFacts | None:
    """Return the facts of a set. Those of a source depend on none of its nodes."""
    if place.source:
        source, record = place.source, SetRecord(place.parent, is_source=True, revision=0)
    elif found := set_at(graph, place):
        source, record = found.source, SetRecord(place.parent, is_source=False, revision=found.revision)
    else:
        return None
    settings = source_settings(graph, source)
    return SetFacts(record, settings.conflict_policy, settings.adoption)


def _is_same_input(before: NodeInputs | None, after: NodeInputs | None) -> bool:
    """Return whether two inputs are equal. Python's `==` alone treats `1` and `True` in manifests as equal."""
    if before is None or after is None:
        return before is after
    return (
        is_same_node(before.node, after.node)
        and is_same_node(before.applied_node, after.applied_node)
        and (before.dependencies, before.completion) == (after.dependencies, after.completion)
    )


@query(same=_is_same_input)
def _node_inputs(graph: QueryGraph, place: SetPlace, node_id: str) -> NodeInputs | None:
    """Return the facts of a node, or None if its set does not have the node."""
    is_own_object = place.source and place.rendering is SetRendering.WANTED
    node, dependencies = (_source_node if is_own_object else _node)(graph, place, node_id)
    if node is None:
        return None
    is_job = node.group_kind == JOB
    completion = _completion(graph, place.parent, node.key) if is_job and node.key else None
    applied = _applied_node(graph, place, node.key) if is_job and node.key else None
    return NodeInputs(node, dependencies, completion, applied)


def _node(graph: QueryGraph, place: SetPlace, node_id: str) -> tuple[RenderedNode | None, tuple[str, ...]]:
    found = set_at(graph, place)
    node = found and found.nodes_by_id.get(node_id)
    return (node, tuple(found.member_dependencies.get(node_id, ()))) if found and node else (None, ())


def _source_node(graph: QueryGraph, place: SetPlace, node_id: str) -> tuple[RenderedNode | None, tuple[str, ...]]:
    """Return a node of a source with its dependencies, without the other nodes of the source."""
    key = _source_key(graph, place.source, node_id)
    node = placed_node(graph, place.source, key) if key else None
    names = node.depends_on if node else ()
    keys = (_source_key(graph, place.source, name) for name in names)
    return node, tuple(sorted(key_hash(key) for key in keys if key))


def _source_key(graph: QueryGraph, source: str, node_id: str) -> ObjectKey | None:
    """Return the key of a node of a source, or None if the source has no such node.

    A key that no API server accepts, such as one with a slash in its name, does not follow from its text.
    """
    key = ObjectKey.parse(node_id)
    return key if key and is_node(graph, source, key) else keys_by_id(graph, source).get(node_id)


@query
def _completion(graph: QueryGraph, parent: ObjectKey, job: ObjectKey) -> Completion | None:
    """Return the completion of a Job that the parent of its set records, or None."""
    return completions(live.live(graph, parent)).get(key_hash(job))


def _applied_node(graph: QueryGraph, place: SetPlace, key: ObjectKey) -> RenderedNode | None:
    if place.rendering is SetRendering.APPLIED:
        return None
    applied = set_at(graph, place._replace(rendering=SetRendering.APPLIED))
    return next((node for node in applied.nodes if node.key == key), None) if applied else None


def _is_same_state(before: NodeState | None, after: NodeState | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.is_final == after.is_final and is_same_node_plan(before.plan, after.plan)


@query(same=_is_same_state)
def node_state(graph: QueryGraph, place: SetPlace, node_id: str) -> NodeState | None:
    """Return the state of a node, or None if its set does not have the node."""
    inputs = _node_inputs(graph, place, node_id)
    facts = _set_facts(graph, place)
    if inputs is None or facts is None:
        return None
    kinds = Contained[GroupKind](lambda kind: is_instance_kind(graph, kind))
    # The state rests on ages only up to the moments that it is asked for again.
    state = NodeStateReader(LiveView(graph, graph.now), kinds, compare_with_live).state_of(facts, inputs)
    if inputs.completion:
        recompute_at(graph, inputs.completion.until - TTL_TOLERANCE)
    recompute_at(graph, state.plan.recheck_at)
    return state
