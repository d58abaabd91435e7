"""Causes of deletions that do not end, and advice on how to end each deletion.

The module is pure. The API server deletes a Namespace only after all objects in the Namespace, and a CRD only after
all custom objects. If a window, a person or a finalizer holds the deletion of an instance, the Namespace and the CRD
of the instance stay too. The CRD in turn holds all instances of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from applier.applyset.member import describe_deletion, foreign_finalizers, has_own_finalizer
from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import is_terminating
from applier.state.observed_view import ObservedView
from renderer.identity import ObjectKey
from renderer.kinds import CRD, NAMESPACE, defined_kind
from renderer.phrasing import join_names

_WINDOW_OPENS: Final = (
    "; wait until the window opens, or, where a break-glass is allowed, run levelgate break-glass {ref}"
)

_ENDS: Final[Mapping[Reason, str]] = {
    Reason.WINDOW_CLOSED: _WINDOW_OPENS,
    Reason.NEVER_OPENS: _WINDOW_OPENS,
    Reason.HELD: "; to continue the deletion, run levelgate release {ref}",
    Reason.SUSPENDED: "; to continue the deletion, run levelgate resume",
}
"""Advice on how to end a hold, by reason of the hold. The messages of other reasons already contain advice."""


def deleted_container(key: ObjectKey, observed: ObservedView) -> ObjectKey | None:
    """Return the terminating CRD or Namespace whose contents include the object `key`.

    If neither the CRD nor the Namespace of the object is terminating, return None.
    """
    for crd in observed.crds:
        if is_terminating(crd) and defined_kind(crd) == key.group_kind:
            return ObjectKey.from_manifest(crd)
    namespace = ObjectKey(*NAMESPACE, "", key.namespace)
    live = observed.objects.get(namespace) if key.namespace else None
    return namespace if live and is_terminating(live) else None


def parent_cause(plan: ApplySetPlan, observed: ObservedView) -> Cause | None:
    """Return the cause that delays the deletion of the parent of `plan`, a terminating instance.

    If the parent is not terminating, or if nothing delays the deletion, return None.
    """
    parent, key = plan.parent, plan.rendered.parent
    if parent is None or plan.rendered.is_source or not is_terminating(parent):
        return None
    hold = _hold_cause(plan) if has_own_finalizer(parent) else None
    if not (hold or foreign_finalizers(parent)):
        return None
    container = deleted_container(key, observed)
    with_container = f", together with {container.kind} {container.name}" if container else ""
    why = f"; {_describe_hold(key, hold)}" if hold else ""
    return Cause(
        Reason.DELETION_BLOCKED,
        f"{describe_deletion(parent)}{with_container}{why}",
        object_key=key,
        until=hold.until if hold else None,
        references=hold.references if hold else (),
    )


def with_container_causes(plan: Plan, observed: ObservedView) -> Plan:
    """Return `plan` with a cause for each CRD and Namespace whose deletion does not end.

    Each cause names the objects that keep the CRD or Namespace. If a set has a terminating instance as a member, the
    set also shows the cause of the instance.
    """
    blocked_sets = {one.rendered.parent: one for one in plan.sets if one.deletion}
    remaining: dict[ObjectKey, list[ObjectKey]] = {}
    for key in _remaining_objects(observed):
        if container := deleted_container(key, observed):
            remaining.setdefault(container, []).append(key)
    causes = {key: one.deletion for key, one in blocked_sets.items() if one.deletion} | {
        container: _container_cause(container, keys, blocked_sets, observed) for container, keys in remaining.items()
    }
    return Plan(tuple(_with_member_causes(one, causes) for one in plan.sets)) if causes else plan


def _remaining_objects(observed: ObservedView) -> Iterator[ObjectKey]:
    """Yield the keys of terminating objects that still have finalizers, in order.

    If no Namespace or CRD is terminating, yield no key.
    """
    terminating = sorted(observed.terminating)
    if any(_is_container(key) for key in terminating):
        for key in terminating:
            if not _is_container(key) and observed.objects[key]["metadata"].get("finalizers"):
                yield key


def _is_container(key: ObjectKey) -> bool:
    return key.group_kind in {CRD, NAMESPACE}


def _container_cause(
    container: ObjectKey, keys: list[ObjectKey], blocked_sets: Mapping[ObjectKey, ApplySetPlan], observed: ObservedView
) -> Cause:
    """Return the cause that delays the deletion of `container`, a Namespace or CRD.

    The cause names the objects `keys` in the container. An object whose deletion does not end without help comes
    first.
    """
    keys = sorted(keys, key=lambda key: (key not in blocked_sets, key))
    first, blocked_set = keys[0], blocked_sets.get(keys[0])
    hold, cause = (_hold_cause(blocked_set), blocked_set.deletion) if blocked_set else (None, None)
    has_foreign = bool(foreign_finalizers(observed.objects[first]))
    why = (
        _describe_hold(first, hold)
        if hold
        else f"{first.kind} {first.qualified_name} {describe_deletion(observed.objects[first])}"
    )
    names = join_names((f"{key.kind} {key.qualified_name}" for key in keys), limit=3)
    instances = (
        CauseRef("Instance", key.qualified_name, Reason.DELETION_BLOCKED) for key in keys if key in blocked_sets
    )
    return Cause(
        Reason.DELETION_BLOCKED if cause or has_foreign else Reason.PROGRESSING,
        f"{describe_deletion(observed.objects[container])}; it still contains {names}; {why}",
        object_key=container,
        until=cause.until if cause else None,
        references=(*(cause.references if cause else ()), *instances),
    )


def _with_member_causes(plan: ApplySetPlan, causes: Mapping[ObjectKey, Cause]) -> ApplySetPlan:
    """Return `plan`, in which each terminating member has its cause from `causes`."""
    nodes = tuple(
        node._replace(
            blocked=replace(
                cause, message=f"{node.node.key} {cause.message}; Levelgate creates it again after the deletion"
            )
        )
        if node.node.key and (cause := causes.get(node.node.key)) and node.blocked
        else node
        for node in plan.nodes
    )
    candidates = tuple(
        replace(candidate, blocked=cause)
        if (cause := causes.get(candidate.member.key)) and candidate.blocked
        else candidate
        for candidate in plan.prune_candidates
    )
    return replace(plan, nodes=nodes, prune_candidates=candidates)


def _hold_cause(plan: ApplySetPlan) -> Cause | None:
    """Return the cause that keeps Levelgate's finalizer on the parent of `plan`.

    If Levelgate removes the finalizer after some time without help, return None.

    The first matching cause decides:

    1. The set or its parent has an error.
    2. Levelgate has not decided whether the set is wanted.
    3. A prune candidate of the set has a cause. Failures come first.
    """
    if plan.detach or plan.finish_deletion or plan.has_member_changes:
        return None
    if cause := plan.error or plan.parent_error or plan.not_moved:
        return cause
    if plan.is_unknown:
        return Cause(Reason.DEPENDENCY_NOT_READY, "Levelgate does not know yet whether the instance is still wanted")
    causes = [candidate.blocked for candidate in plan.prune_candidates if candidate.blocked]
    is_moving = any(cause.reason is Reason.PROGRESSING for cause in causes)
    passing = {Reason.PROGRESSING, Reason.DEPENDENCY_NOT_READY} if is_moving else {Reason.PROGRESSING}
    lasting = [cause for cause in causes if cause.reason not in passing]
    return min(lasting, key=_rank, default=None)


def _rank(cause: Cause) -> int:
    """Return the rank of `cause`. Failures come first, and causes about users of a member come last."""
    return 0 if cause.reason.is_failure else 2 if cause.reason is Reason.DEPENDENCY_NOT_READY else 1


def _describe_hold(key: ObjectKey, hold: Cause) -> str:
    """Return a message that explains why the members of the instance `key` stay, and how `hold` ends."""
    end = _ENDS.get(hold.reason, "").format(ref=key.command_reference)
    return f"the members of {key.kind} {key.qualified_name} stay: {hold.message}{end}"
