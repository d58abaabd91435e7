"""What is looked at right before a write that nothing could take back, whatever the plan said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from applier.applyset.inventory import Scope, parent_body, read_scope, with_finalizer
from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite, UnknownOutcome
from applier.execute.executor import Executor, RoundOutcome
from applier.execute.pending_writes import PendingWrites, WriteBatch
from applier.plan.model import ApplySetPlan, Plan
from applier.read.pending_reads import PendingReads
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import Observed
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id
from renderer.render.model import RenderedApplySet
from tests.support.fault_injector import ConnectionReset, FaultInjector, InjectedFault

PARENT = ObjectKey("", "ConfigMap", "default", "parent")
SECRETS = Scope(frozenset({GroupKind("", "Secret")}))
LATE: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "late", "namespace": "default", "labels": {well_known.PART_OF: applyset_id(PARENT)}},
}
"""A member that came after the pass had listed its kind: a write that was given up, and carried out all the same."""

THEIRS = "example.com/theirs"


async def parent_in(cluster: Cluster) -> Object:
    body = with_finalizer(parent_body(PARENT, "v1", SECRETS, version="0"))
    body["metadata"]["finalizers"].append(THEIRS)
    return await cluster.apply(body, manager="m")


async def wait_for_ever(_: float) -> None:
    """Leave no write open because the machine is slow."""
    await asyncio.Event().wait()


async def execute(cluster: Cluster, **due: Any) -> RoundOutcome:
    """One round of a plan that has this in store for the parent, made of what is live now; it has one result."""
    found = await cluster.get(PARENT)
    assert found is not None
    plan = Plan((ApplySetPlan(RenderedApplySet(parent=PARENT), found, SECRETS, **due),))
    batch = WriteBatch(PendingWrites(), wait_for_ever, waits_for_responses=True)
    executor = Executor(cluster, PendingReads(cluster), "0", {}, batch)
    outcome = await executor.execute(plan, Observed(await cluster.discover()).with_objects([found]))
    assert len(outcome.results) == 1
    return outcome


def error_of(outcome: RoundOutcome) -> ClusterError | None:
    return outcome.results[0].error


@pytest.mark.parametrize("due", [{"finish_deletion": True}, {"exact_scope": Scope()}], ids=["let go", "narrowed"])
async def test_a_parent_loses_nothing_of_which_a_member_has_appeared(due: dict[str, Any]) -> None:
    """I1: the list that counts is one that is asked for at the end."""
    cluster = cluster_of(Sandbox().answer)
    before = await parent_in(cluster)
    await cluster.apply(LATE, manager="m")
    assert isinstance(error_of(await execute(cluster, **due)), StaleWrite)
    assert await cluster.get(PARENT) == before


async def test_a_scope_is_narrowed_where_nothing_is_left() -> None:
    cluster = cluster_of(Sandbox().answer)
    await parent_in(cluster)
    assert error_of(await execute(cluster, exact_scope=Scope())) is None
    found = await cluster.get(PARENT)
    assert found is not None
    assert read_scope(found) == Scope()


@pytest.mark.parametrize("due", [{"finish_deletion": True}, {"detach": True}], ids=["deleted", "deleted by hand"])
async def test_finalizers_of_others_stay(due: dict[str, Any]) -> None:
    """S0-16: what others wait for is theirs to say; never taken away by force."""
    cluster = cluster_of(Sandbox().answer)
    await parent_in(cluster)
    assert error_of(await execute(cluster, **due)) is None
    found = await cluster.get(PARENT)
    assert found is not None
    assert found["metadata"]["finalizers"] == [THEIRS]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_what_a_write_has_come_to_is_read_back_where_nobody_knows(carried_out: bool) -> None:
    """2.2 of apply and prune: nothing is decided from what was known before, so the next round has to look again."""
    sandbox = Sandbox()
    await parent_in(cluster_of(sandbox.answer))
    cluster = cluster_of(
        FaultInjector(sandbox.answer, [InjectedFault(ConnectionReset(carried_out), verb="patch", name="parent")]).answer
    )
    outcome = await execute(cluster, exact_scope=Scope())
    assert isinstance(error_of(outcome), UnknownOutcome)
    assert not outcome.observed.is_known(PARENT)
