"""Maintenance windows in whole passes: what they hold, what may be finished, and when the next pass is due (docs/windows.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from applier.kube.cluster import KubeCluster
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE, commit_id
from tests.support.windows.calendars import FREEZE, HOURS, SATURDAY

MONDAY = datetime(2026, 11, 23, 8, tzinfo=UTC)
"""09:00 in Berlin."""


DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.{GROUP}"


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        yield found


def test_a_commit_on_saturday_starts_on_monday_at_the_minute(fleet: LinkPlatform) -> None:
    """S1-10, W2, W30: nothing moves while it is closed, the pass says when to come back, and then it goes without a new commit."""
    fleet.start(hours=HOURS)
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    found = fleet.step()
    assert fleet.at("two") == []
    assert found.propagation.wake_at == MONDAY
    reason, message = fleet.propagated("a")
    assert reason == "WindowClosed"
    assert message == "waits for window hours (CHG-1), opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)"
    assert fleet.step(timedelta(hours=12)).changed == 0
    fleet.clock.moment = MONDAY - timedelta(seconds=1)
    fleet.step()
    assert fleet.at("two") == []
    fleet.step(timedelta(seconds=1))
    assert fleet.at("two") == ["a"]
    assert fleet.move("two") == [["b"], ["c"]]


def test_what_bakes_when_its_window_closes_is_not_told_to_have_settled(fleet: LinkPlatform) -> None:
    """All of it is written, so that nothing is held; only the time is still to come."""
    fleet.start(hours=HOURS, pace={"bake": "6h"})
    fleet.push("two")
    fleet.step()
    fleet.ready("a")
    fleet.step()
    assert fleet.propagated("a")[0] == "Baking"
    fleet.step(timedelta(hours=5))
    assert fleet.waits() == {"a": "Baking", "b": "WindowClosed", "c": "WindowClosed"}
    fleet.step(timedelta(hours=1))
    assert fleet.waits()["a"] == "Settled"


def test_while_a_window_is_closed_drift_is_healed_to_what_was_applied(fleet: LinkPlatform) -> None:
    """Healing is no change, unless `heal` is in `verbs`; a change of an instance's own spec waits as well."""
    fleet.start(hours=HOURS)
    fleet.clock.moment = SATURDAY
    fleet.written["a"] = {"text": "new"}
    fleet.push()
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/a-app")
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/b-app")
    fleet.step()
    live = fleet.request("GET", "/apis/apps/v1/namespaces/default/deployments/a-app")
    assert live["metadata"]["annotations"]["text"] == "one"
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/b-app")["data"] == {"image": "one"}


def test_heal_in_the_verbs_stops_healing_too(fleet: LinkPlatform) -> None:
    fleet.start(hours={**HOURS, "verbs": ["create", "update", "prune", "heal"]})
    fleet.clock.moment = SATURDAY
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/b-app")
    fleet.step()
    assert fleet.propagated("b")[0] == "WindowClosed"
    fleet.clock.moment = MONDAY
    fleet.step()
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/b-app")["data"] == {"image": "one"}


def test_a_removal_waits_for_the_window(fleet: LinkPlatform) -> None:
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.names = ("a", "b")
    fleet.push()
    fleet.step()
    assert fleet.status("c")
    fleet.clock.moment = MONDAY
    for _ in range(4):
        fleet.step()
    assert not fleet.status("c")


def test_what_may_not_be_removed_yet_is_healed(fleet: LinkPlatform) -> None:
    """Until the window opens an instance that Git no longer wants is what it was; then it goes."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.names = ("a", "b")
    fleet.push()
    fleet.step()
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/c-app")
    fleet.step()
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/c-app")["data"] == {"image": "one"}
    assert fleet.step().changed == 0
    fleet.restart()
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/c-app")
    fleet.step()
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/c-app")
    fleet.clock.moment = MONDAY
    for _ in range(4):
        fleet.step()
    assert not fleet.status("c")


def test_what_is_used_by_what_may_not_be_removed_yet_is_healed_too(fleet: LinkPlatform) -> None:
    """S0-11: it goes after its user, so it waits for the window as well, and counts as held as that one does."""
    depends = {"config.kubernetes.io/depends-on": f"{GROUP}/namespaces/default/Link/b"}
    fleet.written = {"c": {"metadata": {"annotations": depends}}}
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.names = ("a",)
    fleet.push()
    fleet.approve(commit_id(fleet.commits))
    fleet.step()
    for name in ("b", "c"):
        fleet.request("DELETE", f"/api/v1/namespaces/default/configmaps/{name}-app")
    fleet.step()
    for name in ("b", "c"):
        assert fleet.request("GET", f"/api/v1/namespaces/default/configmaps/{name}-app")["data"] == {"image": "one"}
    assert fleet.step().changed == 0
    assert fleet.record().state == "Held"
    fleet.clock.moment = MONDAY
    for _ in range(8):
        fleet.step()
    assert not fleet.status("b")
    assert not fleet.status("c")


def test_what_is_nested_in_what_may_not_be_removed_yet_is_healed_too(fleet: LinkPlatform) -> None:
    inner = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Link",
        "metadata": {"name": "${schema.metadata.name}-in"},
        "spec": {},
    }
    schema = {"group": GROUP, "apiVersion": "v1", "kind": "Outer", "spec": {}}
    outer = {"schema": schema, "resources": [{"id": "inner", "template": inner}]}
    definition = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "outers"}}
    instance = {"apiVersion": f"{GROUP}/v1", "kind": "Outer", "metadata": {"name": "o", "namespace": "default"}}
    fleet.plain = {"outer": {**definition, "spec": outer}, "o": {**instance, "spec": {}}}
    fleet.start(freeze=FREEZE)
    fleet.available("o-in-app")
    fleet.settle()
    fleet.clock.moment = SATURDAY
    del fleet.plain["o"]
    fleet.push()
    fleet.settle()
    path = "/api/v1/namespaces/default/configmaps/o-in-app"
    labels = fleet.request("GET", path)["metadata"]["labels"]
    fleet.request("DELETE", path)
    fleet.settle()
    assert fleet.request("GET", path)["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("drain", "goes_on"), [("Unit", False), ("Level", False), ("Instance", True), ("Rollout", True), ("None", False)]
)
def test_a_window_that_closes_midway(fleet: LinkPlatform, drain: str, goes_on: bool) -> None:
    """W28: what was written is followed to readiness; what else may be finished is what `drain` says, and no other instance starts."""
    fleet.start(hours={**HOURS, "drain": drain})
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == ["a"]
    fleet.clock.moment = datetime(2026, 11, 20, 16, tzinfo=UTC)
    fleet.ready("a")
    fleet.step()
    after = fleet.request("GET", "/api/v1/namespaces/default/configmaps/a-app")["data"]["image"]
    assert after == ("two" if goes_on else "one")
    assert fleet.at("two") == ["a"]
    fleet.clock.moment = datetime(2026, 11, 20, 18, tzinfo=UTC)
    fleet.step()
    assert fleet.at("two") == ["a"]
    fleet.clock.moment = MONDAY
    assert fleet.move("two")[0] == ["b"]


def test_a_break_glass_passes_the_window_until_it_ends(fleet: LinkPlatform) -> None:
    """W26: bounded, with a reason, for that instance alone."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    fleet.step()
    until = SATURDAY + timedelta(hours=1)
    fleet.annotate("b", break_glass_reason="INC-7", break_glass_until=until.isoformat())
    fleet.step()
    assert fleet.at("two") == ["b"]
    recorded = [one for one in fleet.rollout().decisions if one.what == "overridden"]
    assert {(one.by, one.why, one.at) for one in recorded} == {("kubectl-annotate", "INC-7", SATURDAY)}
    assert "update Deployment.apps/default/b-app bypassing window freeze" in {one.subject for one in recorded}
    fleet.annotate("c", break_glass_reason="INC-7", break_glass_until=(SATURDAY + timedelta(hours=5)).isoformat())
    fleet.step()
    told = fleet.propagated("c")[1]
    assert told.endswith(
        "break-glass refused: until 2026-11-21T15:00Z is more than 4h ahead of 2026-11-21T10:00Z; choose an earlier end"
    )
    fleet.annotate("c", break_glass_until=until.isoformat())
    fleet.clock.moment = until
    fleet.ready("b")
    fleet.step()
    assert fleet.at("two") == ["b"]
    assert fleet.propagated("c")[1].endswith("break-glass refused: ended at 2026-11-21T11:00Z")


@pytest.mark.parametrize("is_in_git", [False, True])
def test_a_break_glass_of_a_definition_is_one_of_all_its_instances(fleet: LinkPlatform, is_in_git: bool) -> None:
    """Surface 2.4: asked on the definition, in Git or on its CRD; pace and order of the rollout stay as they are."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    until = SATURDAY + timedelta(hours=1)
    said = {"break_glass_reason": "INC-7", "break_glass_until": until.isoformat()}
    if is_in_git:
        fleet.about = {f"levelgate.dev/{name.replace('_', '-')}": text for name, text in said.items()}
    fleet.push("two")
    fleet.step()
    if not is_in_git:
        assert fleet.at("two") == []
        fleet.put(DEFINITION, **said)
        fleet.step()
    assert fleet.at("two") == ["a"]
    fleet.ready("a")
    assert fleet.move("two", rounds=1) == [["b"]]
    by = {one.by for one in fleet.rollout().decisions if one.what == "overridden"}
    assert by == ({f"commit {commit_id(fleet.commits)}"[:19]} if is_in_git else {"kubectl-annotate"})
    fleet.clock.moment = until
    assert fleet.move("two") == []


def test_a_break_glass_that_git_takes_back_is_over_at_once(fleet: LinkPlatform) -> None:
    """The live object still carries it, by our own write: that is no word of anybody."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    until = (SATURDAY + timedelta(hours=1)).isoformat()
    said = {"levelgate.dev/break-glass-reason": "INC-7", "levelgate.dev/break-glass-until": until}
    fleet.written["b"] = {"metadata": {"annotations": said}}
    fleet.push("two")
    assert fleet.move("two") == [["b"]]
    fleet.written.clear()
    fleet.push("three")
    assert fleet.move("three") == []


def test_no_break_glass_where_the_window_forbids_it(fleet: LinkPlatform) -> None:
    fleet.start(freeze={**FREEZE, "breakGlass": "Forbidden"})
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    fleet.annotate("b", break_glass_reason="INC-7", break_glass_until=(SATURDAY + timedelta(hours=1)).isoformat())
    fleet.step()
    assert fleet.at("two") == []
    assert "a window that governs it forbids that" in fleet.propagated("b")[1]


def test_a_window_on_one_node_holds_that_node_and_what_depends_on_it(fleet: LinkPlatform) -> None:
    """S1-40: the Deployment waits; the instance is granted its turn and says which node waits."""
    fleet.start(
        nights={**HOURS, "selector": {"kinds": ["ConfigMap"]}, "schedule": {"cron": "0 22 * * *"}, "until": "23:00"}
    )
    fleet.push("two")
    fleet.step()
    fleet.ready("a")
    fleet.step()
    assert fleet.at("two") == ["a"]
    row = fleet.status("a")["levelgate"]["blocked"][0]
    assert (row["node"], row["reason"]) == ("after", "WindowClosed")
    assert row["blockedBy"] == [
        {
            "kind": "Window",
            "name": "nights",
            "reason": "WindowClosed",
            "since": "2026-11-19T22:00:00Z",
            "until": "2026-11-20T21:00:00Z",
        }
    ]


def test_a_broken_window_closes_its_source(fleet: LinkPlatform) -> None:
    """A rule that cannot be read never opens anything."""
    fleet.start()
    fleet.push("two", hours={**HOURS, "timeZone": "Europe/Berln"})
    found = fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "GateError"
    assert any("Europe/Berln" in str(problem) for problem in found.propagation.problems)


def test_the_clock_that_steps_back_opens_nothing(fleet: LinkPlatform) -> None:
    """3.3, 12."""
    fleet.start(hours=HOURS)
    fleet.clock.moment = datetime(2026, 11, 20, 17, tzinfo=UTC)
    fleet.push("two")
    fleet.step()
    fleet.clock.moment -= timedelta(hours=3)
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "ClockSkew"


def test_a_clock_that_is_not_the_servers_opens_nothing(fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5, fault row "different clock from server": ours says that the window is open, and nobody knows which of the two is right."""
    fleet.start(hours=HOURS)
    apart = timedelta(seconds=31)
    monkeypatch.setattr(KubeCluster, "server_time", property(lambda _: fleet.clock.moment + apart))
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "ClockSkew"
    apart = timedelta(seconds=29)
    fleet.step()
    assert fleet.at("two") == ["a"]


def test_what_somebody_changed_by_hand_in_one_that_is_moving_is_healed_to_the_new(fleet: LinkPlatform) -> None:
    fleet.start(hours=HOURS)
    fleet.push("two")
    fleet.move("two")
    fleet.clock.moment = SATURDAY
    path = "/api/v1/namespaces/default/configmaps/a-app"
    fleet.request("PATCH", f"{path}?fieldManager=kubectl-edit", {"data": {"image": "by hand"}}, MERGE)
    fleet.step()
    assert fleet.request("GET", path)["data"] == {"image": "two"}


def test_a_window_that_breaks_later_stays_in_force_also_after_a_restart(fleet: LinkPlatform) -> None:
    """Broken input never opens: its last accepted version holds on, and outlives the process."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.push("two", freeze={**FREEZE, "kind": "Dny"})
    fleet.step()
    fleet.restart()
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "WindowClosed"
    fleet.clock.moment = MONDAY
    assert fleet.move("two") == [["a"], ["b"], ["c"]]


def test_a_window_in_a_file_that_cannot_be_read_stays_in_force(fleet: LinkPlatform) -> None:
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.rules["freeze.json"] = "apiVersion: levelgate.dev/v1alpha1\nkind: [unclosed\n"
    fleet.push("two")
    fleet.restart()
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "WindowClosed"


def test_an_unreadable_file_that_may_hold_a_rule_closes_the_source(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.rules["new.yaml"] = "apiVersion: levelgate.dev/v1alpha1\nkind: [unclosed\n"
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a") == (
        "GateError",
        "new.yaml cannot be read, so no change starts in this source; correct the rules",
    )


def test_a_calendar_file_beside_the_window_says_when_it_is_closed(fleet: LinkPlatform) -> None:
    """An event of the .ics file holds a change for its day; another commit of that file alone moves the freeze; a broken one keeps the last."""
    spec = {"kind": "Deny", "timeZone": "Europe/Berlin", "schedule": {"calendar": "freezes.ics"}}
    event = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:{}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    fleet.rules["freezes.ics"] = event.format("20261121")
    fleet.start(freeze=spec)
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    assert fleet.step().propagation.wake_at == datetime(2026, 11, 21, 23, tzinfo=UTC)
    assert fleet.at("two") == []
    fleet.rules["freezes.ics"] = "no calendar"
    fleet.push()
    fleet.restart()
    fleet.step()
    assert (fleet.at("two"), fleet.propagated("a")[0]) == ([], "WindowClosed")
    fleet.rules["freezes.ics"] = event.format("20261122")
    fleet.push()
    fleet.step()
    assert fleet.at("two") == ["a"]


def test_rules_are_read_once_for_each_commit(fleet: LinkPlatform) -> None:
    """Reading takes much longer than judging, and what was judged is remembered with them."""
    fleet.start(hours=HOURS)
    fleet.step()
    before = fleet.step().propagation.rules["platform"]
    assert fleet.step().propagation.rules["platform"] is before
    fleet.push("two")
    assert fleet.step().propagation.rules["platform"] is not before


def test_a_window_taken_out_of_git_lets_go(fleet: LinkPlatform) -> None:
    """A window is never gated itself."""
    fleet.start(freeze=FREEZE)
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    fleet.step()
    fleet.push(freeze=None)
    assert fleet.move("two") == [["a"], ["b"], ["c"]]


def test_a_commit_is_applied_once_the_last_of_its_rollout_is(fleet: LinkPlatform) -> None:
    """The source's own objects are there before; what somebody does to these while the rollout waits is drift, and healed."""
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "default"}}
    fleet.rules["plain.json"] = json.dumps(plain)
    fleet.start(hours=HOURS)
    first = fleet.record()
    assert first.applied == first.own_objects_commit == first.target
    fleet.clock.moment = SATURDAY
    fleet.push("two", hours={**HOURS, "selector": {"rgds": ["*"]}})
    fleet.step()
    waiting = fleet.record()
    assert (waiting.applied, waiting.own_objects_commit) == (first.target, waiting.target)
    fleet.push(hours=HOURS)
    fleet.step()
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/plain")
    fleet.step()
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/plain")
    assert fleet.waits() == dict.fromkeys(fleet.names, "WindowClosed")
    fleet.clock.moment = MONDAY
    fleet.move("two")
    fleet.step()
    assert fleet.record().applied == fleet.record().target
