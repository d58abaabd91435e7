"""Which objects of sources a pass may look at alone, resting on the last whole pass for all else, and what proves to be too narrow. Pure.

A part never deletes, grants, issues revisions or takes over what another set wants: whatever looks like that makes the pass a whole one, which reads
everything anew. So what a part rests on may be old without harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from applier.causes import Reason
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.read.observe import FEW
from applier.state.observed import label
from gitops.decisions.plain_objects import SourceRequests
from gitops.reconcile.context import Context, ReconcileResult
from gitops.reconcile.incremental.cluster_state import ClusterState, Place
from gitops.reconcile.incremental.interests import is_for_all
from gitops.reconcile.sources import SourceState
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject, declared_key
from renderer.frozen import dataclass
from renderer.graph.implied_edges import edge_inputs
from renderer.identity import ObjectKey, applyset_id, source_parent
from renderer.render.model import RenderedApplySet, Rendering
from renderer.render.order import uses_of

SHARE: Final = 40
"""What a commit changes is looked at in parts of FEW, one after the other, up to this fraction of all objects: beyond it a pass over everything,
whose writes go side by side, is done sooner.
"""


@dataclass(frozen=True, slots=True)
class WidenScope:
    """A pass over a part is not enough, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class PartialScope:
    """Objects that sources declare (`roots`), with what is nested in those that are instances `instances`; `around` are, by source, the objects
    that it renders: the roots and what they depend on.
    """

    roots: frozenset[ObjectKey]
    instances: frozenset[ObjectKey]
    around: Mapping[str, frozenset[ObjectKey]]

    @property
    def plain(self) -> frozenset[ObjectKey]:
        return self.roots - self.instances

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(map(applyset_id, self.instances))


def changed_objects(whole: ClusterState, sources: Sequence[SourceState]) -> Mapping[Place, DeclaredObject] | WidenScope:
    """What the sources declare otherwise than before, if these are objects that were there, each where it was and with the edges that it had."""
    found: dict[Place, DeclaredObject] = {}
    if len(sources) != len(whole.sources):
        return WidenScope("other sources than before")
    for before, after in zip(whole.sources, sources, strict=True):
        if replace(before, catalog=_NOTHING) != replace(after, catalog=_NOTHING):
            return WidenScope(f"the configuration of source {after.catalog.source} changed")
        if before.catalog is after.catalog:
            continue
        pairs = after.catalog.changed_objects(before.catalog)
        if pairs is None:
            if why := _differs(before.catalog, after.catalog):
                return WidenScope(f"commit {after.catalog.commit[:7]} changes {why}")
            pairs = zip(before.catalog.objects, after.catalog.objects, strict=True)
        for old, new in pairs:
            if old is not new:
                key = whole.place_of(after.catalog.source, old)
                if key is None or declared_key(new, namespaced=bool(key.namespace)) != key:
                    return WidenScope(f"commit {after.catalog.commit[:7]} changes which objects there are")
                if is_for_all(key.group_kind) or edge_inputs(old.manifest, key) != edge_inputs(new.manifest, key):
                    return WidenScope(f"commit {after.catalog.commit[:7]} changes {key}, and the order of others by it")
                found[after.catalog.source, key] = new
    return found


def is_bulk_change(due: int, sources: Sequence[SourceState]) -> bool:
    """Are so many objects that are to be brought about less work all at once?"""
    return due > max(2 * FEW, sum(len(state.catalog.objects) for state in sources) // SHARE)


_NOTHING = Catalog()


def _differs(before: Catalog, after: Catalog) -> str:
    """What a commit changes beside the content of instances; empty where that is all."""
    if any(one.unreadable for catalog in (before, after) for one in catalog.contents.values()):
        return "files that cannot be read"
    if before.source != after.source or before.broken != after.broken or before.problems != after.problems:
        return "what is wrong"
    if before.definitions.keys() != after.definitions.keys() or any(
        one is not after.definitions[kind] for kind, one in before.definitions.items()
    ):
        return "definitions"
    if before.rules != after.rules or before.calendars != after.calendars:
        return "windows or policies"
    if before.destinations != after.destinations:
        return "clusters or placements"
    return "which objects there are" if len(before.objects) != len(after.objects) else ""


def admit_scope(whole: ClusterState, roots: Collection[ObjectKey]) -> PartialScope | WidenScope:
    """These objects with all that belongs to them, if everything is as it should be with them."""
    instances = whole.family(roots)
    for key in frozenset(roots) - instances:
        if why := _unsure(whole, key):
            return WidenScope(f"{key} {why}")
    for key in instances:
        one = whole.plans.get(key)
        why = _unsettled(one, let_move=key in whole.granted) if one else "was not planned"
        if why or (key in whole.known.gated and key not in whole.granted):
            return WidenScope(f"{key} {why or 'waits at a gate'}")
    around: dict[str, set[ObjectKey]] = {}
    for key in roots:
        source = whole.instances[key].source if key in instances else whole.source_of(key)
        around.setdefault(source, set()).add(key)
    for source, mine in around.items():
        mine |= {node.key for node in whole.ancestors(source, tuple(mine)) if node.key}
    return PartialScope(frozenset(roots), instances, {source: frozenset(mine) for source, mine in around.items()})


def _unsure(whole: ClusterState, key: ObjectKey) -> str:
    """Why a plain object is not one of which a part can be sure; empty where it is. One that is not due and not as it was wanted waits."""
    source = whole.source_of(key)
    if not source or is_for_all(key.group_kind):
        return "concerns others as well" if source else "was not known"
    one = whole.plans[source_parent(source)]
    node = whole.plan_of(one.rendered.parent, str(key))
    if node is None or one.error or one.parent_error:
        return "was not planned"
    return "" if node.is_applied or (key in whole.changed_roots and node.live) else "waits"


def _unsettled(one: ApplySetPlan, *, let_move: bool = False) -> str:
    """Why a set is not one of which a part can be sure; empty where it is. One that was `let_move` since it was planned had to wait for that."""
    rendered = one.rendered
    if (
        rendered.error
        or rendered.held_reason
        or rendered.incompatible_reason
        or one.error
        or one.parent_error
        or one.deadlock
    ):
        return "waits"
    if one.not_moved and one.not_moved.reason is not Reason.BAKING and not let_move:
        return "waits"
    if (
        one.parent is None
        or not label(one.parent, well_known.PARENT_ID)
        or "deletionTimestamp" in one.parent["metadata"]
    ):
        return "has no live set"
    elsewhere = rendered.revision != rendered.target_revision and not let_move
    return "is not at its target revision" if elsewhere else ""


def scope_exceeded(whole: ClusterState, part: PartialScope, bundle: Rendering, plan: Plan, known: Context) -> str:
    """What this decision over a part cannot be sure of; empty where it may be carried out."""
    if known.propagation.stopped or bundle.issued or bundle.instances.keys() != part.instances:
        return "other instances, or other revisions, than before"
    before, now = whole.observed.unreadable.keys(), known.observed
    if now.unreadable.keys() - before or now.listed & before:
        return "other kinds can be read than before"
    if known.gated or known.propagation.frozen:
        return "an instance waits at a gate"
    if known.propagation.has_overrides:
        return "break-glass is in force"
    before_requests = whole.propagation.source_requests
    for name, requests in known.propagation.source_requests.items():
        if requests.of_objects(part.plain) != before_requests.get(name, SourceRequests()).of_objects(part.plain):
            return "a person asks something else of a plain object"
    return next((why for one in plan.sets if (why := _too_much(whole, part, one, bundle.instances, known))), "")


def _too_much(
    whole: ClusterState,
    part: PartialScope,
    one: ApplySetPlan,
    instances: Mapping[ObjectKey, RenderedApplySet],
    known: Context,
) -> str:
    key, nodes = one.rendered.parent, one.nodes
    if one.rendered.is_source:
        others = [node for node in nodes if node.node.key not in part.roots]
        if one.error or one.parent_error or one.superset_scope or any(not _is_done(node) for node in others):
            return f"{key} has more to do"
        if any(node.health_reference for node in nodes):  # whether others use a claim is for all of its set to tell
            return f"{key} has claims that are not bound"
        if any(node.is_held or node.node.error for node in nodes if node.node.key in part.plain):
            return f"{key} has objects that are held"
        if any(change.key in known.propagation.draining for change in one.changes):
            return f"{key} continues although its windows have closed"
        wanted = whole.instances
        if uses_of(part.roots, instances) != uses_of(part.roots, wanted):
            return f"{key} has instances that use other kinds or namespaces than before"
    elif why := _unsettled(one):
        return f"{key} {why}"
    if (
        one.candidates_to_remove
        or one.repairs
        or one.exact_scope
        or one.detach
        or one.finish_deletion
        or one.is_unknown
    ):
        return f"{key} has prune candidates"
    mine = part.ids | {one.rendered.id}
    for node in nodes:
        name = node.node.key
        if name is None or node.node.external:
            continue
        if node.action in {NodeAction.REPLACE, NodeAction.ADOPT}:
            return f"{name} is replaced or adopted"
        if not whole.wanted.get(name, mine) <= mine or node.live_set_id not in {"", *mine}:
            return f"{name} concerns another set as well"
    return ""


def _is_done(node: NodePlan) -> bool:
    return node.action is NodeAction.NONE and node.is_applied_and_ready


def affects_others(whole: ClusterState, found: ReconcileResult) -> str:
    """Why others have to be decided anew after this pass over a part; empty where they need not. Call it before the whole takes the part in."""
    for one in found.plan.sets:
        for node in one.nodes if one.rendered.is_source else ():
            before = whole.plan_of(one.rendered.parent, node.node.id)
            if whole.is_used(node.node.id) and (
                before is None
                or (before.is_applied_and_ready, before.healthy) != (node.is_applied_and_ready, node.healthy)
            ):
                return f"others depend on {node.node.key}"
    for key, counted in found.propagation.counted.items():
        if not whole.counts(counted):
            return f"{key} is new in wave {counted.wave} of the rollout {counted.rollout}"
    return ""
