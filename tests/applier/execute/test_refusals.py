"""Refused writes and the times of their retries; `tests/gitops/test_refused.py` has the effects on a daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from applier.applyset.inventory import Scope
from applier.errors import ClusterError, Denied, FieldConflict, Invalid, Unavailable
from applier.execute.refusals import Refusals
from applier.execute.results import Result
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from renderer.identity import ObjectKey
from tests.support.apply_sets import SOURCE, key, observed

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = SOURCE.nodes[0]
PLAN = Plan((ApplySetPlan(SOURCE, None, Scope(), (NodePlan(NODE, NodeAction.CREATE, None, allowed=True),)),))


def refused(error: ClusterError, times: int = 1, now: datetime = START) -> Refusals:
    refusals = Refusals(random_fraction=lambda: 0.0)
    for _ in range(times):
        refusals.record(PLAN, observed(), [Result(SOURCE.parent, key("a"), "created", error=error)], now, ())
    return refusals


@pytest.mark.parametrize(("times", "milliseconds"), [(1, 100), (2, 200), (3, 400), (30, 300_000)])
def test_waits_double_up_to_a_maximum(times: int, milliseconds: int) -> None:
    retry_at = START + timedelta(milliseconds=milliseconds)
    refusals = refused(Denied("no", status=403), times)
    assert refusals.retry_times(START) == {SOURCE.parent: {key("a"): retry_at}}
    assert refusals.active(retry_at - timedelta(milliseconds=1))
    assert not refusals.active(retry_at)


def test_no_time_ends_a_conflict_over_fields() -> None:
    refusals = refused(FieldConflict("theirs", status=409))
    assert refusals.active(START + timedelta(days=30))
    assert refusals.retry_times(START) == {}
    refusals.forget_absent(observed())
    assert not refusals.active(START)


@pytest.mark.parametrize("error", [Unavailable("later", status=503), Invalid("decided before a request")])
def test_other_failures_are_not_remembered(error: ClusterError) -> None:
    assert not refused(error).active(START)


@pytest.mark.parametrize(
    ("done", "lifted"),
    [
        (ObjectKey("", "ConfigMap", "default", "b"), False),
        (ObjectKey("rbac.authorization.k8s.io", "Role", "default", "b"), True),
        (ObjectKey("", "ResourceQuota", "other", "b"), True),
    ],
)
def test_a_new_policy_or_quota_lifts_all(done: ObjectKey, lifted: bool) -> None:
    refusals = refused(Denied("no", status=403))
    refusals.record_result(Result(SOURCE.parent, done, "created"), START)
    assert (not refusals.active(START)) is lifted


def test_a_deletion_may_free_the_quota_of_its_namespace() -> None:
    refusals = refused(Denied("no", status=403))
    refusals.record_result(Result(SOURCE.parent, ObjectKey("", "Pod", "other", "b"), "deleted"), START)
    assert refusals.active(START)
    refusals.record_result(Result(SOURCE.parent, ObjectKey("", "Pod", "default", "b"), "deleted"), START)
    assert not refusals.active(START)
