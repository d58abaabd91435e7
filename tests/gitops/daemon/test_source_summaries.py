"""Summary of a source in a cluster, as the hub's record has it."""

from __future__ import annotations

from datetime import UTC, datetime

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.cluster import Discovery
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.daemon.source_summaries import summarize_sources
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.set_summaries import SetSummaries
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, source_parent
from renderer.render.model import RenderedApplySet, Rendering

UNTIL = datetime(2026, 11, 23, 8, tzinfo=UTC)
CLOSED = Cause(Reason.WINDOW_CLOSED, "opens on Monday", until=UNTIL)
LIVE = {"apiVersion": "g.test/v1", "kind": "Link", "metadata": {"name": "x", "namespace": "default"}}


def plan_of(parent: ObjectKey, error: Cause | None = None) -> ApplySetPlan:
    rendered = RenderedApplySet(parent=parent, nodes=(), source="shop")
    return ApplySetPlan(rendered, LIVE, Scope(), error=error)


def pass_over(*plans: ApplySetPlan) -> ReconcileResult:
    plan = Plan(plans)
    states = tuple(SourceState(Catalog(source=name, commit="c1")) for name in ("shop", "unused"))
    ledger = SetSummaries.of(plan)
    return ReconcileResult(Rendering({}, {}), plan, Observed(Discovery({})), (), ledger=ledger, sources=states)


def test_a_source_without_a_set_in_the_cluster_has_no_summary() -> None:
    assert summarize_sources(pass_over(plan_of(source_parent("shop")))).keys() == {"shop"}


def test_instances_are_counted_without_the_source_itself() -> None:
    instance = ObjectKey("g.test", "Link", "default", "x")
    summary = summarize_sources(pass_over(plan_of(source_parent("shop")), plan_of(instance)))["shop"]
    assert (summary.commit, summary.instances, summary.failed, summary.waits_for) == ("c1", 1, 0, "")


def test_the_worst_cause_is_named_with_the_earliest_end_of_a_hold() -> None:
    held, failed = ObjectKey("g.test", "Link", "default", "x"), ObjectKey("g.test", "Link", "default", "y")
    conflict = Cause(Reason.CONFLICT, "ConfigMap default/a belongs to kubectl")
    plans = plan_of(source_parent("shop")), plan_of(held, CLOSED), plan_of(failed, conflict)
    summary = summarize_sources(pass_over(*plans))["shop"]
    assert summary.waits_for == f"{conflict.reason}: {conflict.message}"
    assert (summary.state, summary.failed, summary.until) == ("Failed", 1, UNTIL)
