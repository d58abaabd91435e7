"""Ask the server what it would say to every change of a plan, by dry runs. Nothing is written."""

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
    """What is known after the server was asked by dry runs: `observed` with its refusals, and of each change that it would accept the object as it
    is and as it would be. `denied` are those about which whoever asks may not ask, or which are over a quota.
    """

    observed: Observed
    accepted_changes: Mapping[ObjectKey, tuple[Object, Object]]
    denied: Mapping[ObjectKey, Denied]


async def dry_run_plan(writer: MemberWriter, plan: Plan, observed: Observed) -> DryRunResult:
    """Ask the server what it would say to every change, as dry runs. Nothing is written.

    Kept are the answers that would be the same later: a conflict, a refusal, a kind or namespace that neither the server nor this plan knows.
    That something else is missing which may be made before a new object is none of these. An object whose kind changes with it is not asked
    about. Raises Unavailable where the server is not reached at all.
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
    finally:  # where one reaches nobody, each of the others would be tried once more
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
    """The object as it is and as it would be, or why not; None where the server cannot be asked yet."""
    assert node_plan.node.key is not None
    try:
        live = await writer.read_live(node_plan) if node_plan.action is NodeAction.ADOPT else node_plan.live
        expected = await writer.write(plan, node_plan, dry_run=True)
    except (ServerAltered, Denied, FieldConflict, Immutable, AdoptionWouldChange, KindNotServed) as error:
        return error
    except NotFound as error:  # of a new object: its namespace
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
    """Custom kinds whose definition is to be written."""
    for node_plan in (
        node_plan for set_plan in plan.sets for node_plan in set_plan.nodes if node_plan.node.group_kind == CRD
    ):
        if node_plan.action not in {NodeAction.NONE, NodeAction.RECORD}:
            yield from scopes_of([node_plan.node.manifest])


def _is_repeatable_refusal(refusal: Invalid, node_plan: NodePlan) -> bool:
    """A webhook that takes no dry runs has said nothing; what one says of a new object may rest on what is made before it."""
    text = str(refusal)
    return _NO_DRY_RUN not in text and not (node_plan.live is None and "admission webhook" in text)
