"""From what a pass foresees to the changes that people review: each with its difference, masked, and with all that holds it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from applier.applyset import adoption
from applier.applyset.member import Member
from applier.causes import Cause
from applier.cluster import Object
from applier.errors import ClusterError, Immutable
from applier.plan.model import ApplySetPlan, Barrier, NodeAction, NodePlan, Operation
from applier.plan.model import CandidateChange as Due
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.observed import annotation, is_terminating, label
from gitops.plan.dependency_waits import add_dependency_waits
from gitops.plan.field_diff import at, differences, made
from gitops.plan.masking import SecretMasks, is_of_snapshot
from gitops.plan.neighbours import ForeignSources
from gitops.plan.report import FieldDiff, Obstacle, PlannedAction, PlannedChange
from gitops.reconcile.context import EventualPlan
from renderer import well_known
from renderer.errors import SourceLocation
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey, key_hash
from renderer.phrasing import listed
from renderer.render.model import RenderedNode

_ACTIONS = {
    NodeAction.CREATE: PlannedAction.CREATE,
    NodeAction.UPDATE: PlannedAction.UPDATE,
    NodeAction.HEAL: PlannedAction.UPDATE,
    NodeAction.REPLACE: PlannedAction.REPLACE,
    NodeAction.ADOPT: PlannedAction.ADOPT,
    NodeAction.LOOK: PlannedAction.UNKNOWN,
    NodeAction.UNKNOWN: PlannedAction.UNKNOWN,
}
_FATES = {
    PruneOutcome.DELETE: PlannedAction.DELETE,
    PruneOutcome.RELEASE: PlannedAction.RELEASE,
    PruneOutcome.KEEP: PlannedAction.KEEP,
}

Turn = Callable[[ApplySetPlan, ObjectKey], Cause | None]

Before = Mapping[tuple[ObjectKey, str], Manifest]
"""What nodes were in the base that could not be rendered to their end there, by set and id."""


@dataclass
class Changes:
    """Of one prospect. `turn` says why something is not done to an object before its instance has its turn; nothing but healing is done to the
    instances in `frozen`. `unresolved`, without a cluster, are nodes of the base whose values nobody knows: what equals them is unchanged. `levels`
    are those of the source's own objects, where the preview has only some of them. `refused` is what the schemas of the commit itself refuse. Data of
    objects in `hidden` are not known. `files` are those of the commit. `unchanged` counts, once all changes are made.
    """

    prospect: EventualPlan
    masks: SecretMasks
    neighbours: ForeignSources
    barriers: Mapping[ObjectKey, Barrier]
    files: Collection[str]
    turn: Turn = lambda _, __: None
    frozen: Collection[ObjectKey] = ()
    unresolved: Before | None = None
    levels: Mapping[ObjectKey, int] = field(default_factory=dict)
    refused: Mapping[ObjectKey, ClusterError] = field(default_factory=dict)
    hidden: Collection[ObjectKey] = ()
    unchanged: int = 0

    def __post_init__(self) -> None:
        self._observed = self.prospect.situation.observed
        own = (node for one in self.prospect.bundle.sources.values() for node in one.nodes)
        self._said = {node.key: node.origin for node in own}
        nodes = (node.node for one in self.prospect.plan.sets for node in one.nodes)
        self._failing = {node.key for node in nodes if node.error}
        self._users: dict[str, list[ObjectKey]] = {}
        for key, live in self._observed.objects.items():
            if label(live, well_known.PART_OF):
                for dep in Member.of(live).deps:
                    self._users.setdefault(dep, []).append(key)

    def all(self) -> tuple[PlannedChange, ...]:
        """The source's own objects, then instances, each with its own object: written before its nodes, deleted after them."""
        known = self.barriers, self.unresolved, self.masks.text
        return tuple(add_dependency_waits(self._listed(), self.prospect.plan, self._users_of, *known))

    def _listed(self) -> list[PlannedChange]:
        own: list[PlannedChange] = []
        of: dict[ObjectKey, tuple[list[PlannedChange], list[PlannedChange], list[PlannedChange]]] = {}
        for one in self.prospect.plan.sets:
            for change in self._of_set(one):
                if not one.rendered.is_source:
                    of.setdefault(one.rendered.parent, ([], [], []))[1].append(change)
                elif change.instance:
                    after = change.action in _FATES.values()
                    of.setdefault(change.instance, ([], [], []))[2 if after else 0].append(change)
                else:
                    own.append(change)
        return [*own, *(change for parts in of.values() for part in parts for change in part)]

    def _of_set(self, one: ApplySetPlan) -> Iterator[PlannedChange]:
        if one.error and one.error.reason.is_failure and not one.nodes:
            key, why = one.rendered.parent, self.masks.text(one.error.message)
            if key.group_kind not in self.neighbours.hides and key not in self._failing:
                yield PlannedChange(
                    PlannedAction.FAILED, key, str(key.group_kind), None if one.rendered.is_source else key, why=why
                )
        is_frozen = one.rendered.parent in self.frozen
        for node in one.nodes:
            if not (node.node.external or (is_frozen and _effect(one, node) is not Operation.HEAL)):
                if change := self._node(one, node):
                    yield change
                else:
                    self.unchanged += 1
        for orphan in () if is_frozen else one.orphans:
            yield self._orphan(one, orphan)
        yield from self._handed_over(one)

    def _node(self, one: ApplySetPlan, node: NodePlan) -> PlannedChange | None:
        if node.verb in {NodeAction.NONE, NodeAction.RECORD} and not (node.live and is_terminating(node.live)):
            return None
        wanted = node.node
        action, why = self._action(one, node)
        if (
            action is PlannedAction.UNKNOWN
            and (self.unresolved or {}).get((one.rendered.parent, wanted.id)) == wanted.manifest
        ):
            return None
        origin = self._place(one, wanted)
        due = (
            Due(one.rendered, wanted.key, _effect(one, node), _id(one, wanted.id), wanted.level, live=node.live)
            if wanted.key
            else None
        )
        failure = self._observed.failures.get(wanted.key) if wanted.key else None
        difference = self._difference(one, node, action)
        if wanted.key in self.hidden:
            difference = tuple(one for one in difference if not one.path.startswith("data"))
        if action is PlannedAction.UPDATE and not (difference or why) and self._is_recorded_only(one, node):
            return None
        return PlannedChange(
            action,
            wanted.key and self.masks.key(wanted.key),
            str(wanted.group_kind),
            self._instance(one, wanted.key),
            _id(one, wanted.id),
            self._level(one, wanted.key, wanted.level),
            origin.file,
            origin.line,
            difference,
            self._gates_of(one, due, node, action) if due and action.is_change else (),
            tuple(cause.field for cause in failure.causes) if isinstance(failure, Immutable) else (),
            why=self.masks.text(why),
        )

    def _place(self, one: ApplySetPlan, node: RenderedNode) -> SourceLocation:
        """Where the commit says it: of what a definition of another source makes, or a revision before, that is the instance."""
        if one.rendered.is_source or node.origin.file in self.files:
            return node.origin
        instance = one.rendered
        while instance.owner and (above := self.prospect.bundle.instances.get(instance.owner)):
            instance = above
        return self._said.get(instance.parent, node.origin)

    def _is_recorded_only(self, one: ApplySetPlan, node: NodePlan) -> bool:
        """Of what does not differ: is it written only to record what it was written from? A member is, if the server was asked, or could not be
        asked as what is there is masked.
        """
        if is_of_snapshot(node.live):
            return True
        return node.node.key in self.prospect.answers and node.holder == one.rendered.id

    def _action(self, one: ApplySetPlan, node: NodePlan) -> tuple[PlannedAction, str]:
        if owner := self.neighbours.hides.get(node.node.group_kind):
            told = f"no revision of it that this version can read is recorded in the cluster; levelgate explain source/{owner} says why"
            return PlannedAction.UNKNOWN, f"its definition is in source {owner}, and {told}"
        if node.node.error:
            return PlannedAction.FAILED, node.node.error
        if node.node.waiting:
            return PlannedAction.UNKNOWN, f"waits for {', '.join(node.node.waiting)}{self._below(node.node)}"
        if node.blocked and node.blocked.reason.is_failure:
            return PlannedAction.FAILED, f"{node.blocked.reason}: {node.blocked.message}"
        if node.node.key and (refused := self.refused.get(node.node.key)):
            failed = Cause.by_failure(refused)
            return PlannedAction.FAILED, f"{failed.reason}: {failed.message}"
        if node.live and is_terminating(node.live):
            return PlannedAction.REPLACE, node.blocked.message if node.blocked else ""
        lost = "; ".join(map(str, node.lost_fields[:3])) if node.verb is NodeAction.HEAL else ""
        if node.verb is NodeAction.UPDATE and node.holder not in {"", one.rendered.id}:
            return (
                PlannedAction.UPDATE,
                f"handed over by {annotation(node.live or {}, well_known.INSTANCE) or 'a source'}",
            )
        return _ACTIONS[node.verb], lost

    def _below(self, node: RenderedNode) -> str:
        """What nobody can count of a nested instance that is not known yet."""
        definition = self.prospect.bundle.definitions.get(node.group_kind)
        if definition is None:
            return ""
        return f"; what becomes of its {listed([one.id for one in definition.nodes], most=5)} is known only then"

    def _difference(self, one: ApplySetPlan, node: NodePlan, action: PlannedAction) -> tuple[FieldDiff, ...]:
        key, manifest = node.node.key, node.node.manifest
        match action:
            case PlannedAction.CREATE:
                return made(self.masks.object(manifest))
            case PlannedAction.UNKNOWN if old := (self.unresolved or {}).get((one.rendered.parent, node.node.id)):
                return differences(self.masks.object(old), self.masks.object(manifest))
            case PlannedAction.REPLACE if node.live:
                return intended(node.live, manifest, self.masks)
        answer = self.prospect.answers.get(key) if key else None
        if answer is None:
            return intended(node.live, manifest, self.masks) if node.live and action is PlannedAction.UPDATE else ()
        live, _ = answer
        found = differences(*map(self.masks.object, answer))
        if action is not PlannedAction.ADOPT:
            return found
        goes = {path.removeprefix(".") for path in adoption.unsaid(live, manifest, node.adoption.managers)}
        shown = self.masks.object(live)
        gone = ((path, at(shown, path)) for path in sorted(goes.difference(one.path for one in found)))
        return (*found, *(FieldDiff(path, "(set by its old owner)" if old is None else old) for path, old in gone))

    def _handed_over(self, one: ApplySetPlan) -> Iterator[PlannedChange]:
        """Members that are no longer wanted here, and that another source waits for."""
        wanted, live = {node.node.key for node in one.nodes}, self._observed.objects
        for key, name in self.neighbours.claims.items():
            if key not in wanted and label(live.get(key, {}), well_known.PART_OF) == one.rendered.id:
                yield self._member(one, Member.of(live[key]), PlannedAction.UPDATE, why=f"handed over to source {name}")

    def _orphan(self, one: ApplySetPlan, orphan: PruneCandidate) -> PlannedChange:
        member = orphan.member
        live = self._observed.objects.get(member.key)
        due = Due(one.rendered, member.key, Operation.PRUNE, _id(one, member.node), member.level, live=live)
        action = _FATES[orphan.fate]
        held = [gate_of(orphan.blocked)] if orphan.blocked and orphan.is_held else []
        if action is PlannedAction.KEEP:
            why = self.masks.text(orphan.blocked.message) if orphan.blocked else ""
            return self._member(one, member, action, gates=tuple(held), why=why)
        held += self._turn(one, member.key)
        if action is PlannedAction.RELEASE:
            return self._member(one, member, action, gates=tuple(held))
        hindrances = () if member.terminating else self.prospect.hindrances(due)  # somebody did it already
        gates = tuple(dict.fromkeys([*held, *map(gate_of, hindrances)]))
        users = tuple(sorted(map(str, self._users_of(member.key))))
        return self._member(one, member, action, gates=gates, users=users, why=self._with(member.key))

    def _with(self, key: ObjectKey) -> str:
        """What goes with an instance of which nobody knows without a cluster what it is made of."""
        definition = self.prospect.bundle.definitions.get(key.group_kind)
        if definition is None or key in self.prospect.situation.plans:
            return ""
        return f"with its {listed([one.id for one in definition.nodes], most=5)}, as far as they are there"

    def _member(
        self,
        one: ApplySetPlan,
        member: Member,
        action: PlannedAction,
        *,
        gates: tuple[Obstacle, ...] = (),
        users: tuple[str, ...] = (),
        why: str = "",
    ) -> PlannedChange:
        """What becomes of a live member that its set no longer wants."""
        key, level = member.key, self._level(one, member.key, member.level)
        file, line = _origin(self._observed.objects.get(key))
        place = (str(key.group_kind), self._instance(one, key), _id(one, member.node), level, file, line)
        return PlannedChange(action, key, *place, gates=gates, users=users, why=why)

    def _users_of(self, key: ObjectKey) -> Sequence[ObjectKey]:
        return self._users.get(key_hash(key), ())

    def _gates_of(self, one: ApplySetPlan, due: Due, node: NodePlan, action: PlannedAction) -> tuple[Obstacle, ...]:
        """What people have said of it, its turn, and the gates. What is replaced is created again, and has to be allowed to."""
        said = [gate_of(node.blocked)] if node.blocked and node.is_held else []
        effects = (due, due._replace(effect=Operation.CREATE)) if action is PlannedAction.REPLACE else (due,)
        hindrances = (gate_of(found) for effect in effects for found in self.prospect.hindrances(effect))
        return tuple(dict.fromkeys([*said, *self._turn(one, due.key), *hindrances]))

    def _turn(self, one: ApplySetPlan, key: ObjectKey) -> list[Obstacle]:
        waits = self.turn(one, key)
        return [gate_of(waits)] if waits else []

    def _level(self, one: ApplySetPlan, key: ObjectKey | None, level: int | None) -> int | None:
        return self.levels.get(key, level) if one.rendered.is_source and key else level

    def _instance(self, one: ApplySetPlan, key: ObjectKey | None) -> ObjectKey | None:
        """The instance that a change is shown with: its own object is one of the source's."""
        if not one.rendered.is_source:
            return one.rendered.parent
        sets = self.prospect.situation.plans
        return key if key in sets else None


def _effect(one: ApplySetPlan, node: NodePlan) -> Operation:
    return node.verb.effect(is_applied=one.rendered.is_applied)


def _id(one: ApplySetPlan, node: str) -> str:
    return "" if one.rendered.is_source else node


def intended(live: Object, manifest: Manifest, masks: SecretMasks) -> tuple[FieldDiff, ...]:
    """Of a change that no server could be asked about: fields of the manifest that are not so; what goes is not known."""
    found = differences(masks.object(live), masks.object(manifest))
    return tuple(one for one in found if one.new is not None)


def gate_of(blocked: Cause) -> Obstacle:
    name = blocked.because[0].name if blocked.because else ""
    is_of_items = not (blocked.details.get("position") or {"wave": "any"})["wave"]
    return Obstacle(blocked.reason, blocked.message, name, blocked.until, is_of_items)


def _origin(live: Mapping[str, Any] | None) -> tuple[str, int]:
    file, _, line = annotation(live or {}, well_known.FILE).rpartition(":")
    return file, int(line) if line.isdecimal() else 0
