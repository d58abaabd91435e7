"""Items of a rollout as the plans of their instances show them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from gitops.rollouts.collection import RolloutItem
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.items import observe_plan, progress_to_dict
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import TargetRevision
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
KEY = ObjectKey("kro.run", "WebApp", "prod", "shop")
TARGET = TargetRevision(2)


def observed(
    *, blocked: Cause | None = None, item: RolloutItem | None = None, is_paced: bool = True, **rendered: Any
) -> RolloutItem:
    """An item whose instance has one node, which is applied and healthy unless a cause blocks it."""
    key = ObjectKey("", "ConfigMap", "prod", "shop")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}}
    node = RenderedNode("config", 0, (), key.group_kind, manifest, key)
    action = NodeAction.UPDATE if blocked else NodeAction.NONE
    node_plan = NodePlan(node, action, manifest, ready=True, healthy=True, blocked=blocked)
    applyset = RenderedApplySet(KEY, nodes=(node,), **{"source": "platform", "revision": 2, **rendered})
    plan = ApplySetPlan(applyset, {"metadata": {"name": "shop"}}, Scope(), (node_plan,))
    start = item or RolloutItem(KEY.qualified_name)
    found, observation = observe_plan(start, plan, TARGET, is_creation_paced=is_paced)
    if observation is None:
        return found
    return replace(found, progress=observation.added_to(ItemProgress.start(NOW), NOW, timedelta()))


def test_an_instance_that_runs_the_target_is_updated_and_bakes() -> None:
    item = observed(applied=2)
    assert (item.updated, item.granted, item.healthy, item.is_new) == (True, True, True, False)
    assert item.progress.ready_since == NOW


def test_an_older_instance_has_not_moved_and_keeps_its_closed_gate() -> None:
    gate = Cause(Reason.WINDOW_CLOSED, "closed")
    item = observed(applied=1, revision=1, item=RolloutItem(KEY.qualified_name, blocked=gate))
    assert (item.has_moved, item.blocked) == (False, gate)


def test_a_gate_that_closes_after_the_last_write_holds_nothing_back() -> None:
    gate = Cause(Reason.WINDOW_CLOSED, "closed")
    assert observed(applied=2, item=RolloutItem(KEY.qualified_name, blocked=gate)).blocked is None


def test_a_granted_instance_reports_a_refused_write_and_a_missing_permission() -> None:
    granted = RolloutItem(KEY.qualified_name, granted=True)
    refused = observed(applied=1, blocked=Cause(Reason.APPLY_FAILED, "forbidden"), item=granted)
    assert (refused.error, refused.blocked) == ("forbidden", None)
    gate = Cause(Reason.GATE_CLOSED, "closed")
    waiting = observed(applied=1, blocked=gate, item=granted)
    assert (waiting.error, waiting.blocked) == ("", gate)
    assert waiting.progress.running_since is None, "the clock for the deadline pauses"


def test_a_first_creation_is_isolated_unless_it_is_paced() -> None:
    assert observed(applied=0, is_paced=False).is_isolated
    assert not observed(applied=0, is_paced=True).is_isolated


def test_an_incompatible_spec_counts_as_held() -> None:
    held = observed(applied=1, incompatible_reason="replicas is missing").held
    assert held is not None
    assert held.message == "does not fit r2: replicas is missing"


def test_the_stored_progress_tells_the_deadline_while_the_clock_runs() -> None:
    failing = observed(applied=1, blocked=Cause(Reason.APPLY_FAILED, "no"), item=RolloutItem("a", granted=True))
    stored = progress_to_dict(failing, TARGET, Policy(progress_deadline=timedelta(minutes=10)))
    assert (stored["revision"], stored["deadline"]) == (2, "2026-11-20T13:10:00Z")
    assert "deadline" not in progress_to_dict(observed(applied=2), TARGET, Policy())
