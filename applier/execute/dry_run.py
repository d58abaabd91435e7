"""Dry runs of all changes in a plan, for previews: the server answers, and stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from applier.cluster import Object
from applier.errors import (
    AdoptionWouldChange,
    ClusterError,
    Denied,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NotFound,
    ServerAltered,
    Unavailable,
)
from applier.execute.member_writer import MemberWriter
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.state.observed import Observed
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE, scopes_of

_NO_DRY_RUN = "does not support dry run"


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Answers of the server to the dry runs of a plan."""

    observed: Observed
    """Observed state in which each refusal counts as a failure."""
    accepted_changes: Mapping[ObjectKey, tuple[Object, Object]]
    """Live object and predicted object of each change that the server would accept."""
    denied: Mapping[ObjectKey, Denied]
    """Refusals of changes that the asking user has no right to try, or that exceed a quota."""


async def dry_run_plan(writer: MemberWriter, plan: Plan, observed: Observed) -> DryRunResult:
    """Dry-run every change of `plan`, and return the answers that the real writes would also receive.

    The result contains conflicts, refusals, and reports of a kind or namespace that neither the server nor the plan
    has. A new object may depend on objects that the plan creates earlier, so the result omits all other refusals of
    new objects. If the plan changes a CRD, the function does not try the custom objects of the CRD.

    Raises: Unavailable if the server cannot be reached.
    """
    changing_kinds = set(redefined_kinds(plan))
    new_namespaces = {
        key.name
        for set_plan in plan.sets
        for namespace_plan in set_plan.nodes
        if (key := namespace_plan.node.key) and key.group_kind == NAMESPACE
    }
    pairs = [
        (set_plan, node_plan)
        for set_plan in plan.sets
        for node_plan in set_plan.nodes
        if node_plan.action in {NodeAction.CREATE, NodeAction.UPDATE, NodeAction.HEAL, NodeAction.ADOPT}
        and node_plan.node.group_kind not in changing_kinds
        and not (node_plan.blocked and (node_plan.blocked.reason.is_failure or node_plan.is_held))
    ]
    requests = [asyncio.ensure_future(_dry_run_node(writer, set_plan, node_plan)) for set_plan, node_plan in pairs]
    try:
        answers = await asyncio.gather(*requests)
    finally:  # if the server is unreachable, each remaining request would otherwise retry for its full time
        for answer in requests:
            answer.cancel()
    answers_by_key = {
        node_plan.node.key: node_answer
        for (_, node_plan), node_answer in zip(pairs, answers, strict=True)
        if node_plan.node.key
    }
    denied = {key: answer for key, answer in answers_by_key.items() if isinstance(answer, Denied)}
    refused = {
        key: answer
        for key, answer in answers_by_key.items()
        if isinstance(answer, ClusterError)
        and key not in denied
        and not (isinstance(answer, NotFound) and key.namespace in new_namespaces)
    }
    accepted = {key: answer for key, answer in answers_by_key.items() if isinstance(answer, tuple)}
    return DryRunResult(observed.with_failures(refused), accepted, denied)


async def _dry_run_node(
    writer: MemberWriter, plan: ApplySetPlan, node_plan: NodePlan
) -> tuple[Object, Object] | ClusterError | None:
    """Return the live object and the predicted object, or the refusal of the server.

    If the object does not exist yet, or if the answer of the server proves nothing, return None.

    Raises: Unavailable if the server cannot be reached.
    """
    assert node_plan.node.key is not None
    try:
        live = await writer.read_live(node_plan) if node_plan.action is NodeAction.ADOPT else node_plan.live
        expected = await writer.write(plan, node_plan, dry_run=True)
    except (ServerAltered, Denied, FieldConflict, Immutable, AdoptionWouldChange, KindNotServed) as error:
        return error
    except NotFound as error:  # for a new object, the missing object is its namespace
        return None if node_plan.live else error
    except Invalid as error:
        return error if _is_repeatable_refusal(error, node_plan) else None
    except Unavailable as error:
        if error.is_transient and not error.status:
            raise
        return None
    except ClusterError:
        return None
    return (live, expected) if live else None


def redefined_kinds(plan: Plan) -> Iterator[GroupKind]:
    """Yield the custom kinds whose CRD `plan` writes."""
    for node_plan in (
        node_plan for set_plan in plan.sets for node_plan in set_plan.nodes if node_plan.node.group_kind == CRD
    ):
        if node_plan.action not in {NodeAction.NONE, NodeAction.RECORD}:
            yield from scopes_of([node_plan.node.manifest])


def _is_repeatable_refusal(refusal: Invalid, node_plan: NodePlan) -> bool:
    """Return whether the server would also refuse the real write.

    In two cases the server may accept the real write:

    - A webhook does not support dry runs, so the webhook has not judged the object.
    - A webhook refused a new object that may depend on objects that the plan creates earlier.
    """
    text = str(refusal)
    return _NO_DRY_RUN not in text and not (node_plan.live is None and "admission webhook" in text)
