"""The status of an instance: which revision it has and is to have, and what is remembered from the status before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from gitops.records.instance_status import instance_status
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

KEY = ObjectKey("kro.run", "WebApp", "prod", "shop")
NOW, LATER = "2026-11-20T12:00:00Z", "2026-11-20T13:00:00Z"
COMMITS = ("a" * 40, "b" * 40)


def planned(
    value: str = "1", *, blocked: Cause | None = None, previous: dict[str, Any] | None = None, **rendered: Any
) -> ApplySetPlan:
    """An instance of one node, at r2 unless `rendered` says otherwise, with the status that was written before."""
    key = ObjectKey("", "ConfigMap", "prod", "shop")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"value": value}}
    node = RenderedNode("config", 0, (), key.group_kind, manifest, key)
    verb = NodeAction.UPDATE if blocked else NodeAction.NONE
    plan = NodePlan(node, verb, manifest, ready=True, healthy=True, blocked=blocked)
    known = {"source": "platform", "revision": 2, "target_revision": 2, **rendered}
    parent = {"metadata": {"generation": 1}, "status": previous or {}}
    return ApplySetPlan(RenderedApplySet(KEY, nodes=(node,), **known), parent, Scope(), (plan,))


def told(plan: ApplySetPlan, commit: str = COMMITS[0], now: str = NOW, **given: Any) -> dict[str, Any]:
    status: dict[str, Any] = instance_status(plan, commit=commit, now=now, **given)["levelgate"]
    return status


def test_a_settled_instance_has_its_target() -> None:
    status = told(planned())
    assert list(status) == ["source", "target", "applied", "settled", "nodes"]
    assert status["target"] == status["applied"] == status["settled"]
    assert list(status["target"]) == ["revision", "content", "commit"]
    assert (status["target"]["revision"], status["target"]["commit"]) == (2, "a" * 12)
    assert status["nodes"] == {"total": 1, "updated": 1, "healthy": 1, "blocked": 0}


def test_a_commit_that_renders_the_same_is_no_new_target() -> None:
    before = {"levelgate": told(planned())}
    assert told(planned(previous=before), COMMITS[1]) == before["levelgate"]
    assert told(planned("2", previous=before), COMMITS[1])["target"]["commit"] == "b" * 12


def test_what_was_applied_stays_told_while_a_change_waits() -> None:
    held = Cause(Reason.HELD, "pod swap")
    before = {"levelgate": told(planned())}
    status = told(planned("2", blocked=held, previous=before), COMMITS[1], LATER)
    assert (status["target"]["commit"], status["applied"]["commit"]) == ("b" * 12, "a" * 12)
    (row,) = status["blocked"]
    assert row == {
        "node": "config",
        "object": "ConfigMap/prod/shop",
        "reason": "Held",
        "message": "pod swap",
        "since": LATER,
    }


def test_a_target_that_waits_for_its_turn_keeps_the_commit_at_which_it_began_to_wait() -> None:
    waiting = planned(revision=1, target_revision=2)
    first = told(waiting)
    assert first["target"] == {"revision": 2, "commit": "a" * 12}
    assert first["applied"]["revision"] == 1
    again = planned(revision=1, target_revision=2, previous={"levelgate": first})
    assert told(again, COMMITS[1])["target"] == first["target"]


def test_an_instance_that_cannot_be_rendered_keeps_what_was_told_of_its_revisions() -> None:
    before = {"levelgate": told(planned())}
    failed = replace(planned(previous=before), error=Cause(Reason.RENDER_FAILED, "no such field"))
    status = told(failed, COMMITS[1])
    names = ("target", "applied", "settled")
    assert {name: status[name] for name in names} == {name: before["levelgate"][name] for name in names}
    assert [row["reason"] for row in status["blocked"]] == ["RenderFailed"]


def test_an_instance_that_no_source_wants_any_more_tells_no_revision() -> None:
    assert list(told(planned(source="", previous={"levelgate": told(planned())}))) == ["nodes"]


def test_what_its_rollout_remembers_and_the_last_answered_request_are_told() -> None:
    remembered = {"asked": {"hold": {"said": "swap", "since": NOW}}, "rollout": {"name": "webapp", "wave": "prod"}}
    first = told(planned(), rollout_fields=remembered, synced="noon")
    assert list(first)[-3:] == ["asked", "rollout", "synced"]
    assert first["synced"] == "noon"
    again = told(planned(previous={"levelgate": first}))
    assert again["synced"] == "noon"
    assert "rollout" not in again
