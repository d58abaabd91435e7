"""From what a pass foresees to the changes that people review: each with its difference, masked, and with all that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from applier import adoption
from applier.errors import ClusterError, Immutable
from applier.member import Member
from applier.observed import annotation, is_terminating, label
from applier.plan import Change as Due
from applier.plan import Effect, NodePlan, SetPlan, Verb
from applier.prune import Fate, Orphan
from applier.reasons import Blocked
from gitops.passes.known import Preview
from gitops.review.behind import behind
from gitops.review.differences import differences
from gitops.review.masking import Masks, is_of_snapshot
from gitops.review.meanwhile import Staying, parted
from gitops.review.neighbours import Neighbours
from gitops.review.report import Action, Change, Difference, Gate, Meanwhile
from renderer import keys
from renderer.identity import Manifest, ObjectKey, key_hash
from renderer.listing import listed
from renderer.model import RenderedNode

_ACTIONS = {
    Verb.CREATE: Action.CREATE,
    Verb.UPDATE: Action.UPDATE,
    Verb.HEAL: Action.UPDATE,
    Verb.REPLACE: Action.REPLACE,
    Verb.ADOPT: Action.ADOPT,
    Verb.LOOK: Action.UNKNOWN,
    Verb.UNKNOWN: Action.UNKNOWN,
}
_FATES = {Fate.DELETE: Action.DELETE, Fate.RELEASE: Action.RELEASE, Fate.KEEP: Action.KEEP}

Before = Mapping[tuple[ObjectKey, str], Manifest]
"""What nodes were in the base that could not be rendered to their end there, by set and id."""


@dataclass
class Changes:
    """`unresolved` are nodes of the base whose values nobody knows without a cluster: what equals them is unchanged. `levels` are those of the
    source's own objects, where the preview has only some of them. `refused` is what the schemas of the commit itself refuse. `unchanged` counts,
    once all changes are made.
    """

    preview: Preview
    masks: Masks
    unresolved: Before = field(default_factory=dict)
    levels: Mapping[ObjectKey, int] = field(default_factory=dict)
    refused: Mapping[ObjectKey, ClusterError] = field(default_factory=dict)
    unchanged: int = 0

    def __post_init__(self) -> None:
        self._staying = Staying.of(self.preview.first.plan)
        self._due_nodes = {one.rendered.parent: one.nodes for one in self.preview.due.sets}
        self.neighbours = Neighbours.of(self.preview)
        nodes = (node.node for one in self.preview.due.sets for node in one.nodes)
        self._failing = {node.key for node in nodes if node.error}
        self._users: dict[str, list[ObjectKey]] = {}
        for key, live in self.preview.situation.observed.objects.items():
            if label(live, keys.PART_OF):
                for dep in Member.of(live).deps:
                    self._users.setdefault(dep, []).append(key)

    def all(self) -> tuple[Change, ...]:
        """The source's own objects, then instances, each with its own object: written before its nodes, deleted after them."""
        barriers = self.preview.first.propagation.gates.barriers
        return tuple(behind(self._listed(), self.preview.due, self._users_of, barriers))

    def _listed(self) -> list[Change]:
        own: list[Change] = []
        of: dict[ObjectKey, tuple[list[Change], list[Change], list[Change]]] = {}
        for one in self.preview.due.sets:
            for change in self._of_set(one):
                if not one.rendered.is_source:
                    of.setdefault(one.rendered.parent, ([], [], []))[1].append(change)
                elif change.instance:
                    after = change.action in _FATES.values()
                    of.setdefault(change.instance, ([], [], []))[2 if after else 0].append(change)
                else:
                    own.append(change)
        return [*own, *(change for parts in of.values() for part in parts for change in part)]

    def _of_set(self, one: SetPlan) -> Iterator[Change]:
        if one.error and one.error.reason.is_failure and not one.nodes:
            key, why = one.rendered.parent, self.masks.text(one.error.message)
            if key.group_kind not in self.neighbours.defines and key not in self._failing:
                yield Change(Action.FAILED, key, str(key.group_kind), None if one.rendered.is_source else key, why=why)
        for node in one.nodes:
            if not node.node.external:
                if change := self._node(one, node):
                    yield change
                else:
                    self.unchanged += 1
        for orphan in one.orphans:
            yield self._orphan(one, orphan)
        yield from self._handed_over(one)

    def _node(self, one: SetPlan, node: NodePlan) -> Change | None:
        if node.verb in {Verb.NONE, Verb.RECORD} and not (node.live and is_terminating(node.live)):
            return None
        wanted = node.node
        action, why = self._action(one, node)
        if action is Action.UNKNOWN and self.unresolved.get((one.rendered.parent, wanted.id)) == wanted.manifest:
            return None
        effect = node.verb.effect(is_applied=one.rendered.is_applied)
        due = (
            Due(one.rendered, wanted.key, effect, _id(one, wanted.id), wanted.level, live=node.live)
            if wanted.key
            else None
        )
        failure = self.preview.situation.observed.failures.get(wanted.key) if wanted.key else None
        difference = self._difference(one, node, action)
        if action is Action.UPDATE and not difference and is_of_snapshot(node.live):
            return None  # what it was written from is not in the file, but that nothing else differs is
        return Change(
            action,
            wanted.key and ObjectKey(*map(self.masks.text, wanted.key)),
            str(wanted.group_kind),
            self._instance(one, wanted.key),
            _id(one, wanted.id),
            self._level(one, wanted.key, wanted.level),
            wanted.origin.file,
            wanted.origin.line,
            difference,
            self._all_gates(due, node, action) if due and action.is_change else (),
            tuple(cause.field for cause in failure.causes) if isinstance(failure, Immutable) else (),
            why=self.masks.text(why),
            meanwhile=self._meanwhile(due, wanted, difference, action) if due else None,
        )

    def _action(self, one: SetPlan, node: NodePlan) -> tuple[Action, str]:
        if owner := self.neighbours.defines.get(node.node.group_kind):
            return Action.UNKNOWN, f"its definition is in source {owner}, which is not read for this plan"
        if node.node.error:
            return Action.FAILED, node.node.error
        if node.node.waiting:
            return Action.UNKNOWN, f"waits for {', '.join(node.node.waiting)}{self._below(node.node)}"
        if node.blocked and node.blocked.reason.is_failure:
            return Action.FAILED, f"{node.blocked.reason}: {node.blocked.message}"
        if node.node.key and (refused := self.refused.get(node.node.key)):
            failed = Blocked.by_failure(refused)
            return Action.FAILED, f"{failed.reason}: {failed.message}"
        if node.live and is_terminating(node.live):
            return Action.REPLACE, node.blocked.message if node.blocked else ""
        lost = "; ".join(map(str, node.lost[:3])) if node.verb is Verb.HEAL else ""
        owner = label(node.live or {}, keys.PART_OF)
        if node.verb is Verb.UPDATE and owner and owner != one.rendered.id:
            return Action.UPDATE, f"handed over by {annotation(node.live or {}, keys.INSTANCE) or 'a source'}"
        return _ACTIONS[node.verb], lost

    def _below(self, node: RenderedNode) -> str:
        """What nobody can count of a nested instance that is not known yet."""
        definition = self.preview.bundle.definitions.get(node.group_kind)
        if definition is None:
            return ""
        return f"; what becomes of its {listed([one.id for one in definition.nodes], most=5)} is known only then"

    def _difference(self, one: SetPlan, node: NodePlan, action: Action) -> tuple[Difference, ...]:
        key, manifest = node.node.key, node.node.manifest
        match action:
            case Action.CREATE:
                return self._made(manifest)
            case Action.UNKNOWN if old := self.unresolved.get((one.rendered.parent, node.node.id)):
                return differences(self.masks.object(old), self.masks.object(manifest))
            case Action.REPLACE if node.live:
                live, new = self.masks.object(node.live), self.masks.object(manifest)
                return tuple(found for found in differences(live, new) if found.new is not None)
        answer = self.preview.answers.get(key) if key else None
        if answer is None:
            return self._intended(node) if node.live and action is Action.UPDATE else ()
        live, _ = answer
        found = differences(*map(self.masks.object, answer))
        if action is not Action.ADOPT:
            return found
        goes = {path.removeprefix(".") for path in adoption.unsaid(live, manifest, node.adoption.managers)}
        told = tuple(one.path for one in found)
        unsaid = sorted(
            path for path in goes if not path.startswith(told) and not any(it.startswith(path) for it in told)
        )
        return (*found, *(Difference(path, "(its old owner's)", None) for path in unsaid))

    def _made(self, manifest: Manifest) -> tuple[Difference, ...]:
        new = {name: item for name, item in self.masks.object(manifest).items() if name not in _IDENTITY}
        return tuple(Difference(name, None, item) for name, item in sorted(new.items()))

    def _intended(self, node: NodePlan) -> tuple[Difference, ...]:
        """Of a change that no server could be asked about: fields of the manifest that are not so; what goes is not known."""
        live, wanted = self.masks.object(node.live or {}), self.masks.object(node.node.manifest)
        return tuple(one for one in differences(live, wanted) if one.new is not None)

    def _handed_over(self, one: SetPlan) -> Iterator[Change]:
        """Members that are no longer wanted here, and that another source waits for."""
        wanted, live = {node.node.key for node in one.nodes}, self.preview.situation.observed.objects
        for key, name in self.neighbours.claims.items():
            if key not in wanted and label(live.get(key, {}), keys.PART_OF) == one.rendered.id:
                yield self._member(one, Member.of(live[key]), Action.UPDATE, why=f"handed over to source {name}")

    def _orphan(self, one: SetPlan, orphan: Orphan) -> Change:
        member = orphan.member
        live = self.preview.situation.observed.objects.get(member.key)
        due = Due(one.rendered, member.key, Effect.PRUNE, _id(one, member.node), member.level, live=live)
        action = _FATES[orphan.fate]
        held = [_gate(orphan.blocked)] if orphan.blocked and orphan.is_held else []
        if action is not Action.DELETE:
            why = self.masks.text(orphan.blocked.message) if orphan.blocked and action is Action.KEEP else ""
            return self._member(one, member, action, gates=tuple(held), why=why)
        gates = tuple(dict.fromkeys([*held, *self._gates(due, "")]))
        users = tuple(sorted(map(str, self._users_of(member.key))))
        return self._member(one, member, action, gates=gates, users=users, why=self._with(member.key))

    def _with(self, key: ObjectKey) -> str:
        """What goes with an instance of which nobody knows without a cluster what it is made of."""
        definition = self.preview.bundle.definitions.get(key.group_kind)
        if definition is None or key in self.preview.situation.plans:
            return ""
        return f"with its {listed([one.id for one in definition.nodes], most=5)}, as far as they are there"

    def _member(
        self,
        one: SetPlan,
        member: Member,
        action: Action,
        *,
        gates: tuple[Gate, ...] = (),
        users: tuple[str, ...] = (),
        why: str = "",
    ) -> Change:
        """What becomes of a live member that its set no longer wants."""
        key, level = member.key, self._level(one, member.key, member.level)
        file, line = _origin(self.preview.situation.observed.objects.get(key))
        place = (str(key.group_kind), self._instance(one, key), _id(one, member.node), level, file, line)
        return Change(action, key, *place, gates=gates, users=users, why=why)

    def _users_of(self, key: ObjectKey) -> Sequence[ObjectKey]:
        return self._users.get(key_hash(key), ())

    def _all_gates(self, due: Due, node: NodePlan, action: Action) -> tuple[Gate, ...]:
        """What people have said of the object, and the gates. What is replaced is created again, and has to be allowed to."""
        said = [_gate(node.blocked)] if node.blocked and node.is_held else []
        effects = (due, due._replace(effect=Effect.CREATE)) if action is Action.REPLACE else (due,)
        return tuple(dict.fromkeys([*said, *(gate for one in effects for gate in self._gates(one, node.node.hash))]))

    def _gates(self, due: Due, content: str) -> Iterator[Gate]:
        """That an instance does not have its turn comes first; it holds nothing that is written all the same."""
        stays = self._stays(due)
        if stays and not self._goes_now(due, content):
            yield _gate(stays)
        yield from map(_gate, self.preview.hindrances(due))

    def _stays(self, due: Due) -> Blocked | None:
        """Why its instance is not moved to another revision yet."""
        return self.preview.first.propagation.stays.get(due.key if due.set.is_source else due.set.parent)

    def _goes_now(self, due: Due, content: str) -> bool:
        if due.effect is Effect.PRUNE:
            return due.key in self._staying.goes
        return self._staying.brings(due.key, content)

    def _meanwhile(
        self, due: Due, wanted: RenderedNode, whole: Sequence[Difference], action: Action
    ) -> Meanwhile | None:
        """What it is brought to first, where its instance stays at another revision for now."""
        one = self._staying.sets.get(due.set.parent)
        if self._stays(due) is None or one is None or action not in {Action.CREATE, Action.UPDATE}:
            return None
        if due.set.is_source:  # an instance itself
            below = self._staying.sets.get(due.key)
            if below is None or below.rendered.revision == below.rendered.aim:
                return None
            gates = tuple(map(_gate, self.preview.hindrances(due)))
            return Meanwhile(below.rendered.revision, tuple(whole), (), gates, beside=tuple(self._beside(below)))
        node = self._staying.other(due.key, wanted.hash)
        if node is None or due.set.parent in self.preview.first.propagation.frozen:
            return None
        diff, rest = parted(whole, node.node.manifest, wanted.manifest, self.masks)
        if action is Action.CREATE:
            diff = self._made(node.node.manifest)
        gates = tuple(map(_gate, self.preview.hindrances(due._replace(set=one.rendered))))
        return Meanwhile(one.rendered.revision, diff, rest, gates) if diff else None

    def _beside(self, below: SetPlan) -> Iterator[ObjectKey]:
        """What is made of an instance where it stays, and is no more once it has moved."""
        later = {node.node.key for node in self._due_nodes.get(below.rendered.parent, ())}
        for node in below.nodes:
            key = node.node.key
            if key and key not in later and node.verb is Verb.CREATE and self._staying.brings(key, node.node.hash):
                yield ObjectKey(*map(self.masks.text, key))

    def _level(self, one: SetPlan, key: ObjectKey | None, level: int | None) -> int | None:
        return self.levels.get(key, level) if one.rendered.is_source and key else level

    def _instance(self, one: SetPlan, key: ObjectKey | None) -> ObjectKey | None:
        """The instance that a change is shown with: its own object is one of the source's."""
        if not one.rendered.is_source:
            return one.rendered.parent
        sets = self.preview.situation.plans
        return key if key in sets else None


_IDENTITY = frozenset({"apiVersion", "kind", "metadata", "status"})


def _id(one: SetPlan, node: str) -> str:
    return "" if one.rendered.is_source else node


def _gate(blocked: Blocked) -> Gate:
    name = blocked.because[0].name if blocked.because else ""
    is_of_items = not (blocked.details.get("position") or {"wave": "any"})["wave"]
    return Gate(blocked.reason, blocked.message, name, blocked.until, is_of_items)


def _origin(live: Mapping[str, Any] | None) -> tuple[str, int]:
    file, _, line = annotation(live or {}, keys.FILE).rpartition(":")
    return file, int(line) if line.isdecimal() else 0
