"""Notices of passes: each change once."""

from __future__ import annotations

from dataclasses import replace

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.cluster import Discovery
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.daemon.notices import NoticeFilter
from gitops.decisions.decision import Decision
from gitops.reconcile.context import ReconcileResult
from renderer.identity import source_parent
from renderer.render.model import RenderedApplySet, Rendering

FAILED = Cause(Reason.CONFLICT, "ConfigMap default/a belongs to kubectl")


def pass_over(source: str, error: Cause | None = None, **fields: object) -> ReconcileResult:
    rendered = RenderedApplySet(parent=source_parent(source), nodes=(), source=source)
    plan = Plan((ApplySetPlan(rendered, None, Scope(), error=error),))
    found = ReconcileResult(Rendering({}, {}), plan, Observed(Discovery({})), ())
    return replace(found, **fields)  # type: ignore[arg-type]


def test_the_error_of_a_source_is_a_notice_until_it_changes() -> None:
    notices = NoticeFilter()
    assert [*notices.collect_notices(pass_over("shop", FAILED))] == [("shop", FAILED.message)]
    assert [*notices.collect_notices(pass_over("shop", FAILED))] == []
    other = replace(FAILED, message="ConfigMap default/b belongs to kubectl")
    assert [*notices.collect_notices(pass_over("shop", other))] == [("shop", other.message)]


def test_a_partial_pass_keeps_the_errors_of_the_sources_that_it_left_out() -> None:
    notices = NoticeFilter()
    assert [*notices.collect_notices(pass_over("shop", FAILED))]
    partial = pass_over("other")
    assert [*notices.collect_notices(replace(partial, touched=partial.plan.sets))] == []
    assert [*notices.collect_notices(pass_over("shop", FAILED))] == []


def test_a_hold_is_no_notice_since_the_status_shows_it() -> None:
    held = Cause(Reason.HELD, "ana holds it")
    assert [*NoticeFilter().collect_notices(pass_over("shop", held))] == []


def test_a_suspension_replaces_the_errors_of_sources_and_its_end_is_a_notice() -> None:
    notices = NoticeFilter()
    stopped = Decision(stopped=Cause(Reason.SUSPENDED, "suspended by ana"))
    suspended = pass_over("shop", FAILED, propagation=stopped)
    assert [*notices.collect_notices(suspended)] == [("cluster", "suspended by ana")]
    assert [*notices.collect_notices(pass_over("shop"))] == [("cluster", "no longer suspended")]
