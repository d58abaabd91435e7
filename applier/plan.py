"""What one pass should do, decided from the rendering and from what was observed. Pure.

A node is written only when all its ancestors are written at this revision and ready, on fresh observations (design rule 1 and 2); unrelated
branches go on. What is not written says why. Pruning is decided in `applier.prune`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from applier import inventory, member, prune, status
from applier.cluster import CONTENT, Object
from applier.inventory import ForeignSet, Scope
from applier.observed import Observed, annotation, is_terminating, label
from applier.ownership import holds
from applier.prune import Orphan
from applier.reasons import Blocked, Reason
from renderer import keys
from renderer.identity import GroupKind, ObjectKey, digest
from renderer.model import Bundle, RenderedNode, RenderedSet
from renderer.render import member_dependencies

MOST_DELETIONS, MOST_PERCENT = 5, 20
"""The brake: deletions of one commit beyond both are held for approval."""


class Verb(StrEnum):
    """What it takes to bring one object to its manifest. `record` renews bookkeeping only; `look` reads before the first write."""

    CREATE = "create"
    UPDATE = "update"
    HEAL = "heal"
    RECORD = "record"
    LOOK = "look"
    NONE = "unchanged"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: what it takes, whether that may happen now, and if not, why. `ready` and `healthy` speak of what is live."""

    node: RenderedNode
    verb: Verb
    live: Object | None
    allowed: bool = False
    ready: bool = False
    healthy: bool = False
    blocked: Blocked | None = None
    deps: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        return self.verb in {Verb.NONE, Verb.RECORD} and self.live is not None

    @property
    def is_held(self) -> bool:
        """A person has decided that it waits."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def settled(self) -> bool:
        """Its dependents may start."""
        return self.is_current and self.ready


@dataclass(frozen=True, slots=True)
class SetPlan:
    """One ApplySet: its nodes, its orphans, and what is due for its parent.

    `error` says why nothing of it may be touched, `stuck` why its parent could not be written in this pass.
    """

    rendered: RenderedSet
    parent: Object | None
    current: Scope
    nodes: tuple[NodePlan, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    superset: Scope | None = None
    exact: Scope | None = None
    detach: bool = False
    finish: bool = False
    error: Blocked | None = None
    stuck: Blocked | None = None

    @property
    def writes(self) -> tuple[NodePlan, ...]:
        return tuple(plan for plan in self.nodes if plan.allowed and plan.verb not in {Verb.NONE, Verb.LOOK})

    @property
    def unknown(self) -> tuple[ObjectKey, ...]:
        """Keys to be read before anything can be said of them."""
        return self._to_read(external=False)

    @property
    def references(self) -> tuple[ObjectKey, ...]:
        """Keys of external objects that have not been read yet."""
        return self._to_read(external=True)

    def _to_read(self, *, external: bool) -> tuple[ObjectKey, ...]:
        looks = (plan.node for plan in self.nodes if plan.verb is Verb.LOOK)
        return tuple(node.key for node in looks if node.key and node.external is external)

    @property
    def is_idle(self) -> bool:
        """Nothing of this set may be done now."""
        return not (
            self.writes
            or self.superset
            or self.exact
            or self.detach
            or self.finish
            or any(orphan.allowed for orphan in self.orphans)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    sets: tuple[SetPlan, ...]

    @property
    def is_idle(self) -> bool:
        return all(plan.is_idle for plan in self.sets)


@dataclass(frozen=True, slots=True)
class Records:
    """What our own records say beyond what is live: scopes of instances whose object may be gone, unreadable files, held pruning, and the
    sources whose deletions a person approved for this commit.
    """

    scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    unreadable: Mapping[str, prune.Unreadable] = field(default_factory=dict)
    hold_pruning: Mapping[str, str] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()


def plan(bundle: Bundle, observed: Observed, records: Records | None = None) -> Plan:
    """Decide everything that is due, allowed or not, for all sets of the bundle and for live instances that nothing wants any more."""
    records = records or Records()
    decided = _Planner(bundle, observed, records).plan()
    held = {
        source: why
        for source in bundle.sources
        if source not in records.approved and (why := brake(decided, observed, source))
    }
    if not held:
        return decided
    return _Planner(bundle, observed, replace(records, hold_pruning={**held, **records.hold_pruning})).plan()


def brake(decided: Plan, observed: Observed, source: str) -> str:
    """Why a source's deletions wait for a person: more than 5 and more than 20 % of its members would go; empty where they need not.

    Counted are members of the source's set and of instances that go with it, against all live members; one instance alone is exempt.
    """
    sets = {one.rendered.parent: one for one in decided.sets}
    own = next(one for one in decided.sets if one.rendered.is_source and one.rendered.source == source)
    first = [orphan.member.key for orphan in own.orphans if orphan.is_leaving]
    if len(first) == 1 and first[0] in sets:
        return ""
    leaving, pending = set(first), list(first)
    while pending:
        if one := sets.get(pending.pop()):
            below = {orphan.member.key for orphan in one.orphans if orphan.is_leaving} - leaving
            leaving |= below
            pending += below
    mine = [one.rendered.id for one in decided.sets if one.rendered.source == source or one.rendered.parent in leaving]
    live = sum(len(observed.members.get(set_id, ())) for set_id in mine)
    if len(leaving) <= MOST_DELETIONS or len(leaving) * 100 <= live * MOST_PERCENT:
        return ""
    return (
        f"{len(leaving)} of {live} objects would be deleted; bring them back in Git, or approve the commit with the annotation "
        f"{keys.APPROVED}: COMMIT on {own.rendered.parent}"
    )


@dataclass
class _Planner:
    bundle: Bundle
    observed: Observed
    records: Records

    def __post_init__(self) -> None:
        self.wanted: dict[ObjectKey, list[str]] = {}
        for rendered in self.bundle.sets:
            for node in rendered.nodes:
                if node.key and not node.external:
                    self.wanted.setdefault(node.key, []).append(rendered.id)
        self.sets = {rendered.id: rendered for rendered in (*self.bundle.sets, *self._unwanted_instances())}
        self.instance_kinds = {key.group_kind for key in self.bundle.instances}
        self.dependents = prune.dependents(self.observed, self.sets)

    def plan(self) -> Plan:
        """Sets from owner to member, so that an instance's set knows whether its owner is about to delete it."""
        leaving: set[ObjectKey] = set()
        sets = []
        for rendered in self.sets.values():
            decided = self._unless_stuck(self._set(rendered, leaving=rendered.parent in leaving))
            leaving |= {orphan.member.key for orphan in decided.orphans if orphan.is_leaving}
            sets.append(decided)
        return Plan(tuple(sets))

    def _unless_stuck(self, plan: SetPlan) -> SetPlan:
        """A parent that could not be written is not written again in the same pass, and nothing that its scope must cover."""
        failure = self.observed.failures.get(plan.rendered.parent)
        if failure is None:
            return plan
        stuck = Blocked.by_failure(failure)
        return replace(plan, superset=None, exact=None, detach=False, finish=False, stuck=stuck)

    def _unwanted_instances(self) -> Iterator[RenderedSet]:
        """Live instances of our sets that Git or their parent no longer want, as sets with nothing desired; found from parent to child."""
        pending = [rendered.id for rendered in self.bundle.sets]
        while pending:
            for key in self.observed.members.get(pending.pop(), ()):
                if label(self.observed.objects[key], keys.PARENT_ID) and key not in self.bundle.instances:
                    unwanted = RenderedSet(parent=key)
                    pending.append(unwanted.id)
                    yield unwanted

    def _set(self, rendered: RenderedSet, *, leaving: bool) -> SetPlan:
        parent = self.observed.objects.get(rendered.parent)
        try:
            current = inventory.read_scope(parent) if parent else Scope()
        except ForeignSet as error:
            return SetPlan(rendered, parent, Scope(), error=Blocked(Reason.CONFLICT, str(error)))
        if not current.kinds:
            current = current | self.records.scopes.get(rendered.parent, Scope())
        desired = rendered.parent in self.bundle.instances or rendered.is_source
        if not rendered.is_source and parent and is_terminating(parent):
            return self._detaching(rendered, parent, current) if desired else self._deleting(rendered, parent, current)
        if leaving and parent:
            return self._leaving(rendered, parent, current)
        if rendered.error or not desired:
            unrendered = Blocked(Reason.RENDER_FAILED, rendered.error) if rendered.error else None
            return SetPlan(rendered, parent, current, error=unrendered)
        return self._working(rendered, parent, current)

    def _detaching(self, rendered: RenderedSet, parent: Object, current: Scope) -> SetPlan:
        """Deleted by hand, still wanted: children stay, the finalizer goes once the scope is on record, the object is created again."""
        recorded = self.records.scopes.get(rendered.parent, Scope()) >= current
        return SetPlan(rendered, parent, current, detach=recorded and _has_finalizer(parent))

    def _leaving(self, rendered: RenderedSet, parent: Object, current: Scope) -> SetPlan:
        """An instance that its owner is about to delete: its members follow once it is deleted, if it may be."""
        found = self._orphans(rendered, (), current, release=annotation(parent, keys.DELETION_POLICY) == "orphan")
        return SetPlan(
            rendered, parent, current, orphans=tuple(orphan.held_back("goes with its instance") for orphan in found)
        )

    def _deleting(self, rendered: RenderedSet, parent: Object, current: Scope) -> SetPlan:
        """Nobody wants the instance any more: prune with nothing desired, then let it go (S0-17)."""
        found = self._orphans(rendered, (), current, release=annotation(parent, keys.DELETION_POLICY) == "orphan")
        finish = not found and self._is_listed(current) and _has_finalizer(parent)
        return SetPlan(rendered, parent, current, orphans=found, finish=finish)

    def _working(self, rendered: RenderedSet, parent: Object | None, current: Scope) -> SetPlan:
        desired = inventory.scope_of(
            (node.key for node in rendered.nodes if node.key and not node.external), rendered.parent
        )
        covered = current >= desired and parent is not None and bool(label(parent, keys.PARENT_ID))
        if not rendered.is_source and parent is not None:
            covered = covered and _has_finalizer(parent)
        nodes = self._nodes(rendered, ready_to_write=covered)
        superset = current | desired if not covered and (parent is not None or rendered.is_source) else None
        busy = superset is not None or any(node.allowed and node.verb is not Verb.NONE for node in nodes)
        orphans = self._orphans(rendered, nodes, current)
        if busy:
            orphans = tuple(orphan.held_back("pruned after everything is applied") for orphan in orphans)
        exact = None
        if parent is not None and not busy and not orphans and self._is_listed(current):
            live = inventory.scope_of(self.observed.members.get(rendered.id, ()), rendered.parent)
            unplaced = Scope(frozenset(node.group_kind for node in rendered.nodes if node.key is None))
            wanted = desired | live | unplaced
            exact = wanted if wanted != current else None
        return SetPlan(rendered, parent, current, nodes, orphans, superset, exact)

    def _is_listed(self, scope: Scope) -> bool:
        return all(kind in self.observed.listed or self._is_unserved(kind) for kind in scope.kinds)

    def _is_unserved(self, kind: GroupKind) -> bool:
        """Certainly no object of this kind exists: the kind is not served, and its group was asked."""
        return kind not in self.observed.discovery.resources and kind.group not in self.observed.discovery.stale

    def _orphans(
        self, rendered: RenderedSet, nodes: tuple[NodePlan, ...], current: Scope, *, release: bool = False
    ) -> tuple[Orphan, ...]:
        unsettled = [
            prune.Unsettled(plan.node.id, plan.node.group_kind, plan.node.key) for plan in nodes if not plan.is_current
        ]
        held = self.records.hold_pruning.get(rendered.source, "") if rendered.is_source else ""
        scopes = [current] if not rendered.is_source else [self._current_of(other) for other in self.sets.values()]
        if not held and not all(map(self._is_listed, scopes)):
            held = "not every kind of the inventory could be listed; nothing is deleted on an incomplete view"
        found = prune.orphans(
            rendered,
            self.observed,
            wanted=self.wanted,
            unsettled=unsettled,
            dependents=self.dependents,
            unreadable=self.records.unreadable.get(rendered.source) if rendered.is_source else None,
            hold=held,
            release=release,
        )
        return tuple(map(self._unless_failed, found))

    def _unless_failed(self, orphan: Orphan) -> Orphan:
        failure = self.observed.failures.get(orphan.member.key)
        return replace(orphan, allowed=False, blocked=Blocked.by_failure(failure)) if failure else orphan

    def _current_of(self, rendered: RenderedSet) -> Scope:
        parent = self.observed.objects.get(rendered.parent)
        try:
            return inventory.read_scope(parent) if parent else Scope()
        except ForeignSet:
            return Scope()

    def _nodes(self, rendered: RenderedSet, *, ready_to_write: bool) -> tuple[NodePlan, ...]:
        done: dict[str, NodePlan] = {}
        clear: dict[str, Blocked | None] = {}
        for node in rendered.nodes:
            above = next((found for name in node.depends_on if (found := clear.get(name))), None)
            plan = self._node(rendered, node, done, above, ready_to_write=ready_to_write)
            done[node.id] = plan
            clear[node.id] = above or self._holds_up(plan)
        return tuple(done.values())

    def _holds_up(self, plan: NodePlan) -> Blocked | None:
        """Why dependents of this node may not start; None when they may."""
        if plan.settled or annotation({"metadata": plan.node.manifest.get("metadata") or {}}, keys.WAIT_FOR) == "none":
            return None
        why = plan.blocked.message if plan.blocked else f"{plan.verb} to be done"
        return Blocked(Reason.DEPENDENCY_NOT_READY, f"{plan.node.id}: {why}", by=plan.node.id)

    def _node(
        self,
        rendered: RenderedSet,
        node: RenderedNode,
        done: Mapping[str, NodePlan],
        above: Blocked | None,
        *,
        ready_to_write: bool,
    ) -> NodePlan:
        live = self.observed.objects.get(node.key) if node.key else None
        if node.external:
            return self._external(node, live, above)
        if node.error:
            return NodePlan(node, Verb.NONE, None, blocked=Blocked(Reason.RENDER_FAILED, node.error))
        if node.waiting:
            return NodePlan(node, Verb.NONE, None, blocked=Blocked(Reason.WAITING_FOR_DATA, ", ".join(node.waiting)))
        assert node.key is not None
        if live is None and not self.observed.is_known(node.key) and not self._is_unserved(node.group_kind):
            return NodePlan(node, Verb.LOOK, None, blocked=Blocked(Reason.PROGRESSING, "not looked at yet"))
        healthy = live is not None and self._is_healthy(node, live)
        proven = (
            healthy
            and live is not None
            and annotation(live, keys.HASH) == digest(node.manifest)
            and status.is_fresh(live)
        )
        deps = tuple(member.recorded_deps(live, member_dependencies(rendered, node), healthy=proven))
        verb = self._verb(rendered, node, live, deps)
        blocked = self._blocked(rendered, node, live, above, verb)
        ready, why = self._may_dependents_start(node, live, healthy) if live is not None else (False, None)
        for name in node.healthy_first:
            if name in done and not done[name].healthy and blocked is None and verb in {Verb.CREATE, Verb.UPDATE}:
                blocked = Blocked(Reason.DEPENDENCY_NOT_READY, f"{name} is not healthy yet", by=name)
        allowed = verb is not Verb.NONE and blocked is None and ready_to_write
        return NodePlan(node, verb, live, allowed, ready, healthy, blocked or why, deps)

    def _external(self, node: RenderedNode, live: Object | None, above: Blocked | None) -> NodePlan:
        if live is None:
            verb = Verb.LOOK if node.key and not self.observed.is_known(node.key) else Verb.NONE
            awaited = ", ".join(node.waiting) or f"{node.key} to exist"
            return NodePlan(node, verb, None, blocked=Blocked(Reason.WAITING_FOR_DATA, awaited))
        ready, why = self._may_dependents_start(node, live, self._is_healthy(node, live))
        return NodePlan(node, Verb.NONE, live, ready=ready, healthy=True, blocked=above or why)

    def _verb(self, rendered: RenderedSet, node: RenderedNode, live: Object | None, deps: tuple[str, ...]) -> Verb:
        if live is None:
            return Verb.CREATE
        if label(live, keys.PART_OF) != rendered.id or annotation(live, keys.HASH) != digest(node.manifest):
            return Verb.UPDATE
        intent = member.body(rendered, node, deps=deps, live=None, parent_uid="", revision="")
        if not holds(live, intent, CONTENT):
            return Verb.HEAL
        return Verb.NONE if annotation(live, keys.DEPS) == ",".join(deps) else Verb.RECORD

    def _blocked(
        self, rendered: RenderedSet, node: RenderedNode, live: Object | None, above: Blocked | None, verb: Verb
    ) -> Blocked | None:
        """Why this write may not happen now; None when it may."""
        assert node.key is not None
        if failure := self.observed.failures.get(node.key):
            return Blocked.by_failure(failure)
        if owner := self._owned_elsewhere(rendered, node.key, live):
            return owner
        if live is not None:
            if is_terminating(live):
                return Blocked(
                    Reason.PROGRESSING, f"{node.key} is being deleted; it is created again once it is gone", at=node.key
                )
            if "disabled" in {
                annotation(live, keys.RECONCILE),
                annotation({"metadata": node.manifest["metadata"]}, keys.RECONCILE),
            }:
                return (
                    Blocked(Reason.SUSPENDED, f"{keys.RECONCILE}: disabled on {node.key}")
                    if verb is not Verb.NONE
                    else None
                )
        return above if verb in {Verb.CREATE, Verb.UPDATE} else None

    def _owned_elsewhere(self, rendered: RenderedSet, key: ObjectKey, live: Object | None) -> Blocked | None:
        """Does another set come first? The one that holds the object, as long as it still wants it; else the first that wants it.

        An object outside our sets is taken only if we wrote it ourselves and released it.
        """
        wanting = self.wanted[key]
        holder = label(live, keys.PART_OF) if live else ""
        owner = holder if holder in wanting else wanting[0]
        if owner != rendered.id:
            return Blocked(
                Reason.OWNED_ELSEWHERE,
                f"{key} belongs to {self.sets[owner].parent}, which wants it too; keep it in one of the two",
            )
        if live is None or holder == rendered.id:
            return None
        if holder:
            known = self.sets.get(holder)
            if known and not known.error:
                return None
            return Blocked(
                Reason.OWNED_ELSEWHERE,
                f"{key} is part of {known.parent if known else 'the set ' + holder}; remove it there first",
            )
        if _is_written_by_us(live):
            return None
        return Blocked(
            Reason.CONFLICT, f"{key} exists and is not managed by Levelgate; delete it, or take it out of Git"
        )

    def _is_healthy(self, node: RenderedNode, live: Object) -> bool:
        if annotation(live, keys.HEALTH) == "ignore":
            return True
        if node.ready.verdict is False:
            return False
        return status.health(live, is_instance=node.group_kind in self.instance_kinds).status is status.Status.CURRENT

    def _may_dependents_start(self, node: RenderedNode, live: Object, healthy: bool) -> tuple[bool, Blocked | None]:
        """Design rule 2, first question; the annotation `wait-for` on the object replaces the rule."""
        wait_for = annotation(live, keys.WAIT_FOR) or "ready"
        if is_terminating(live):
            return False, Blocked(Reason.PROGRESSING, f"{node.key} is being deleted", at=node.key)
        if wait_for in {"none", "exists"}:
            return True, None
        if wait_for == "healthy":
            return healthy and status.is_fresh(live), None if healthy else Blocked(
                Reason.PROGRESSING, "not healthy yet", at=node.key
            )
        if node.ready.verdict is not None:
            if node.ready.verdict and not status.is_fresh(live):
                return False, Blocked(
                    Reason.PROGRESSING, "its status does not speak of the newest generation yet", at=node.key
                )
            return node.ready.verdict, None if node.ready.verdict else Blocked(
                Reason.PROGRESSING, node.ready.why, at=node.key
            )
        ready = status.exists_ready(live)
        return ready, None if ready else Blocked(
            Reason.PROGRESSING, status.health(live).message or "not established yet", at=node.key
        )


def _is_written_by_us(live: Object) -> bool:
    return any(
        entry.get("manager") == CONTENT and entry.get("operation") == "Apply"
        for entry in live["metadata"].get("managedFields") or ()
    )


def _has_finalizer(parent: Object) -> bool:
    return keys.FINALIZER in (parent["metadata"].get("finalizers") or ())
