"""Plans of instances at which nothing has changed, carried over from the plan before.

Invariant: with or without what is remembered the plan is the same. The plan of a set is a function of its rendering, of the objects that it names and
of those that are in it, of what the gates answer, and of what holds for all sets; it is carried only while all of these are as they were. Objects are
compared by identity: whoever observes again gives an object that has not changed as the one that it was
(`Observed.reuse_unchanged`). Sets that concern one
another, that lose members or of which something failed are planned anew.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field, replace
from operator import is_

from applier.applyset.adoption import Adoption
from applier.applyset.inventory import TOOL, Scope, target_revision_of, tool_of
from applier.causes import Cause
from applier.cluster import Discovery, Object
from applier.errors import ClusterError
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ApplySetPlan, Barrier, ChangePermissions, NodeAction, PermissionAnswer
from applier.state.field_conflicts import ConflictPolicy
from applier.state.observed import is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.render.model import RenderedApplySet
from renderer.two_generation_cache import TwoGenerationCache


@dataclass(frozen=True, slots=True)
class SharedPlanInputs:
    """What the plan of every set rests on."""

    discovery: Discovery
    list_extents: Hashable
    unreadable: Mapping[GroupKind, ClusterError]
    instance_kinds: frozenset[GroupKind]
    adoption: Mapping[str, Adoption]
    conflict_policies: Mapping[str, ConflictPolicy]
    fights: Mapping[ObjectKey, Cause]
    unlabelled_scopes: Mapping[ObjectKey, Scope]
    epoch: int
    to_the_end: bool

    @classmethod
    def of(
        cls, observed: ObservedView, records: PlanConstraints, kinds: frozenset[GroupKind], to_the_end: bool
    ) -> SharedPlanInputs:
        return cls(
            observed.discovery,
            observed.list_extents,
            observed.unreadable,
            kinds,
            records.adoptions,
            records.conflict_policies,
            records.throttled_repairs,
            records.unlabelled_scopes,
            records.epoch,
            to_the_end,
        )


@dataclass(frozen=True, slots=True)
class SetPlanInputs:
    """What a plan is made of beside its rendering. `wanted` maps a key to the sets that want it, `contested` are keys that several want, `refused`
    the parents of sets of which something was refused.
    """

    common: SharedPlanInputs
    observed: ObservedView
    gates: ChangePermissions
    wanted: Mapping[ObjectKey, Sequence[str]]
    contested: frozenset[ObjectKey]
    refused: frozenset[ObjectKey]

    def said(self, key: ObjectKey, parent: Object | None) -> tuple[int, Cause | None, Barrier | None]:
        """What the gates say of an instance as a whole."""
        gates = self.gates
        return gates.targets.get(key) or target_revision_of(parent), gates.suspended.get(key), gates.barriers.get(key)

    def is_alone(self, keys: Sequence[ObjectKey], beside: Collection[ObjectKey]) -> bool:
        """Nobody else wants these objects, nobody at all those `beside` them, and nothing failed of any."""
        is_wanted = self.wanted.keys().isdisjoint(beside) and self.contested.isdisjoint(keys)
        return is_wanted and (not self.observed.failures or self.observed.failures.keys().isdisjoint(keys))


@dataclass(frozen=True, slots=True)
class _Planned:
    """`keys` are all that the set names, with what was live of them; those `beside` stand in its applied pair alone. `asked` is what its gates were
    asked, and said.
    """

    plan: ApplySetPlan
    common: SharedPlanInputs
    keys: tuple[ObjectKey, ...]
    live: tuple[Object | None, ...]
    missing: tuple[ObjectKey, ...]
    beside: tuple[ObjectKey, ...]
    members: tuple[ObjectKey, ...]
    said: tuple[int, Cause | None, Barrier | None]
    asked: tuple[PermissionAnswer, ...]


@dataclass
class PlanCache:
    """Owned by whoever plans again and again. What is no longer wanted is forgotten by `turn`."""

    _common: SharedPlanInputs | None = None
    _plans: TwoGenerationCache[ObjectKey, _Planned] = field(default_factory=TwoGenerationCache)

    def turn(self) -> None:
        """A new plan begins."""
        self._plans.evict_unused()

    def under(self, common: SharedPlanInputs) -> SharedPlanInputs:
        """The one of before where it is equal: so it takes one comparison for all sets."""
        if self._common is None or self._common != common:
            self._common = common
        return self._common

    def take(self, rendered: RenderedApplySet, around: SetPlanInputs) -> ApplySetPlan | None:
        """The plan of this set, if it can be none but the last one."""
        key, observed = rendered.parent, around.observed
        known = self._plans.get(key)
        if (
            known is None
            or key in around.refused
            or known.plan.rendered is not rendered
            or known.common is not around.common
            or not all(map(is_, map(observed.objects.get, known.keys), known.live))
            or not _is_as_before(parent := observed.objects.get(key), known.plan.parent)
            or observed.members.get(rendered.id, ()) != known.members
            or around.said(key, parent) != known.said
            or not all(map(observed.is_known, known.missing))
            or not around.is_alone((key, *known.keys), known.beside)
            or any(around.gates.check(change) != answer for change, answer in known.asked)
            or ((turns_at := known.plan.recheck_at) and observed.now and observed.now >= turns_at)
        ):
            return None
        if parent is not known.plan.parent:
            known = replace(known, plan=replace(known.plan, parent=parent))
        self._plans.current[key] = known
        return known.plan

    def keep(self, plan: ApplySetPlan, around: SetPlanInputs, asked: tuple[PermissionAnswer, ...]) -> None:
        """Remember a plan as it was made, if it rests on nothing but what `take` compares."""
        rendered, parent, observed = plan.rendered, plan.parent, around.observed
        if asked and rendered.is_nested:  # what it may finish rests on the set of the instance around it
            return
        if parent is None or not label(parent, well_known.PARENT_ID) or is_terminating(parent) or not plan.nodes:
            return
        if (
            plan.prune_candidates
            or plan.parent_error
            or plan.is_unknown
            or rendered.parent in around.refused
            or tool_of(parent) != TOOL
        ):
            return
        if any(node.action is NodeAction.READ or node.health_reference for node in (*plan.nodes, *plan.repairs)):
            return
        own = frozenset(node.key for node in rendered.nodes if node.key and not node.external)
        nodes = (*rendered.nodes, *(rendered.applied_rendering.nodes if rendered.applied_rendering else ()))
        named = tuple(dict.fromkeys(node.key for node in nodes if node.key))
        beside = tuple(node.key for node in nodes if node.key and not node.external and node.key not in own)
        live = tuple(map(observed.objects.get, named))
        members = observed.members.get(rendered.id, ())
        is_ours = rendered.parent not in named and all(
            obj is None or label(obj, well_known.PART_OF) in ("", rendered.id) for obj in live
        )
        if is_ours and own.issuperset(members) and around.is_alone((rendered.parent, *named), beside):
            gone = {node.node.key for node in plan.nodes if node.is_ttl_removed and node.action is NodeAction.NONE}
            missing = tuple(key for key, obj in zip(named, live, strict=True) if obj is None and key not in gone)
            said = around.said(rendered.parent, parent)
            self._plans.current[rendered.parent] = _Planned(
                plan, around.common, named, live, missing, beside, members, said, asked
            )


def _is_as_before(parent: Object | None, before: Object | None) -> bool:
    """Is all of an instance the same that a plan of its set reads? Its own status is not."""
    if parent is None or before is None or parent is before:
        return parent is before
    now, then = parent["metadata"], before["metadata"]
    return all(now.get(name) == then.get(name) for name in _READ)


_READ = ("uid", "labels", "annotations", "finalizers", "deletionTimestamp")
