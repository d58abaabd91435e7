"""What a pass writes down about instances and sources (docs/reference.md), seen on a sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from applier.causes import Reason
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.repositories import GROUP, config_map, definition, deployment, instance, plain

X = ObjectKey(GROUP, "Link", "default", "x")
SOURCE = ObjectKey("", "ConfigMap", "levelgate-system", "source-platform")


@pytest.fixture
def platform() -> Iterator[CheckedPlatform]:
    with CheckedPlatform(WitnessedCluster(instant=False)) as found:
        yield found


def commit(
    platform: CheckedPlatform, *resources: dict[str, Any], more: dict[str, str] | None = None, **schema: Any
) -> None:
    files = {"l.json": definition("Link", list(resources), **schema), "x.json": instance("Link", "x"), **(more or {})}
    platform.commit(files)


def passes(platform: CheckedPlatform, count: int = 3) -> None:
    """Some passes; controllers only establish the CRDs."""
    platform.run()
    platform.cluster.tick()
    for _ in range(count):
        platform.run()


def status(platform: CheckedPlatform) -> dict[str, Any]:
    found: dict[str, Any] = platform.cluster.objects[X]["status"]
    return found


def conditions(platform: CheckedPlatform) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status(platform)["conditions"]}


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", name)


def test_a_settled_instance_says_so(platform: CheckedPlatform) -> None:
    """docs/reference.md: kro's state and conditions, ours beside them, the author's fields on top."""
    commit(platform, config_map("a"), config_map("b", "a"), status={"first": "${a.metadata.name}"})
    platform.settle()
    found = status(platform)
    assert (found["state"], found["first"]) == ("ACTIVE", "x-a")
    assert conditions(platform) == {
        "InstanceManaged": "True Managed",
        "GraphResolved": "True Resolved",
        "ResourcesReady": "True AllResourcesReady",
        "Ready": "True Ready",
        "Healthy": "True AllHealthy",
        "Propagated": "True Settled",
    }
    assert next(one["message"] for one in found["conditions"] if one["type"] == "Healthy") == "2 of 2 nodes"
    ours = found["levelgate"]
    assert ours["nodes"] == {"total": 2, "updated": 2, "healthy": 2, "blocked": 0}
    assert ours["target"] == ours["applied"] == ours["settled"]
    assert "blocked" not in ours
    assert {one["observedGeneration"] for one in found["conditions"]} == {1}


def test_one_row_for_each_cause_names_what_waits_behind_it(platform: CheckedPlatform) -> None:
    """docs/reference.md: `behind` are the nodes that wait only because of this one."""
    commit(platform, deployment("a"), config_map("b", "a"), config_map("c", "b"), config_map("z"))
    passes(platform)
    found = status(platform)
    assert found["state"] == "IN_PROGRESS"
    rows = found["levelgate"]["blocked"]
    assert [(row["node"], row["reason"]) for row in rows] == [("a", "Progressing")]
    assert "b" in rows[0]["behind"]
    assert found["levelgate"]["nodes"]["updated"] == 2
    assert conditions(platform)["ResourcesReady"] == "False NotReady"
    assert conditions(platform)["Propagated"] == "False Progressing"


def test_everything_below_a_cause_stands_behind_it(platform: CheckedPlatform) -> None:
    """docs/reference.md: c waits for b, which waits for a: one cause, one row."""
    commit(platform, deployment("a"), config_map("b", "a"), config_map("c", "b"))
    passes(platform)
    rows = status(platform)["levelgate"]["blocked"]
    assert [(row["node"], row.get("behind")) for row in rows] == [("a", ["b", "c"])]


def test_data_that_is_awaited_is_told_with_its_path(platform: CheckedPlatform) -> None:
    reader = config_map("b")
    reader["template"]["data"]["host"] = "${a.metadata.annotations.host}"
    commit(platform, config_map("a"), reader)
    passes(platform)
    assert [(row["node"], row["reason"], row["message"]) for row in status(platform)["levelgate"]["blocked"]] == [
        ("b", "WaitingForData", "a.metadata.annotations.host")
    ]
    assert status(platform)["state"] == "IN_PROGRESS"


def test_a_failure_is_the_first_row_and_the_state_is_error(platform: CheckedPlatform) -> None:
    """docs/reference.md: the owner of the object acts."""
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x-z", "namespace": "default"}}
    platform.cluster.put(theirs)
    commit(platform, deployment("a"), config_map("b", "a"), config_map("z"))
    passes(platform)
    assert status(platform)["state"] == "ERROR"
    assert status(platform)["levelgate"]["blocked"][0]["reason"] == "Conflict"
    assert conditions(platform)["Propagated"] == "False Conflict"
    assert platform.record().state == "Failed"


def test_the_last_revision_of_a_broken_definition_serves_on(platform: CheckedPlatform) -> None:
    """S0-3, S1-23: the instance is as before, the source tells what is wrong."""
    commit(platform, config_map("a"), status={"first": "${a.metadata.name}"})
    platform.settle()
    before = status(platform)
    commit(platform, config_map("a", "nosuch"))
    platform.settle()
    assert status(platform) == before
    assert platform.record().state == "Failed"
    assert [cause["reason"] for cause in platform.record().causes] == ["RenderFailed"]


def test_an_instance_of_a_missing_definition_tells_so_and_keeps_what_is_known(platform: CheckedPlatform) -> None:
    """I12: Ready goes, since Git cannot be rendered; Healthy speaks of the applied pair, which is healed."""
    commit(platform, config_map("a"), status={"first": "${a.metadata.name}"})
    platform.settle()
    settled = status(platform)["levelgate"]["settled"]
    platform.commit({"x.json": instance("Link", "x")})
    platform.settle()
    assert conditions(platform) == {
        "InstanceManaged": "True Managed",
        "GraphResolved": "False ResolutionFailed",
        "ResourcesReady": "True AllResourcesReady",
        "Ready": "False NotReady",
        "Healthy": "True AllHealthy",
        "Propagated": "False RenderFailed",
    }
    assert status(platform)["state"] == "ERROR"
    assert (status(platform)["first"], status(platform)["levelgate"]["settled"]) == ("x-a", settled)


def test_times_change_only_with_what_they_speak_of(platform: CheckedPlatform) -> None:
    """The clock goes on by a second with every look; the condition's time stands still while its status does."""
    commit(platform, config_map("a"))
    platform.settle()
    before = {one["type"]: one["lastTransitionTime"] for one in status(platform)["conditions"]}
    commit(platform, config_map("a"), deployment("b"))
    platform.run()
    after = {one["type"]: one["lastTransitionTime"] for one in status(platform)["conditions"]}
    assert after["GraphResolved"] == before["GraphResolved"]
    assert after["Ready"] != before["Ready"]
    since = [row["since"] for row in status(platform)["levelgate"]["blocked"]]
    platform.run()
    assert [row["since"] for row in status(platform)["levelgate"]["blocked"]] == since


def test_nothing_is_written_when_nothing_differs(platform: CheckedPlatform) -> None:
    """I7, also while something waits."""
    commit(platform, deployment("a"), config_map("b", "a"))
    passes(platform)
    writes = len(platform.cluster.writes)
    platform.run()
    assert platform.cluster.writes[writes:] == []


def test_a_commit_that_renders_the_same_is_no_new_target(platform: CheckedPlatform) -> None:
    commit(platform, config_map("a"))
    platform.settle()
    before = status(platform)
    commit(platform, config_map("a"), more={"p.json": plain("p")})
    platform.settle()
    assert status(platform) == before
    assert platform.record().applied == platform.sources["platform"].catalog.commit


def test_reasons_come_from_the_closed_vocabulary() -> None:
    """docs/reference.md."""
    surface = set(
        "Settled Progressing Baking PaceReached WaveNotReached DependencyNotReady WaitingForData WindowClosed NeverOpens ClockSkew Interrupted "
        "GateClosed GateError Deadlocked ApprovalRequired Held Suspended Halted BrakeEngaged HistoryRewritten Unsigned RenderFailed ApplyFailed "
        "Conflict OwnedElsewhere Unhealthy DeletionBlocked NotInGit LeftBehind StillRead".split()
    )
    assert {str(reason) for reason in Reason} <= surface


def test_an_instance_under_deletion_says_what_it_waits_for(platform: CheckedPlatform) -> None:
    commit(platform, config_map("a"))
    platform.settle()
    platform.cluster.edit(key("x-a"), lambda obj: obj["metadata"].update(finalizers=["example.org/wait"]))
    platform.commit({"l.json": definition("Link", [config_map("a")])})
    platform.settle()
    assert status(platform)["state"] == "DELETING"
    assert conditions(platform)["ResourcesReady"] == "Unknown UnderDeletion"
    row = status(platform)["levelgate"]["blocked"][0]
    assert (row["reason"], row["object"]) == ("DeletionBlocked", "ConfigMap/default/x-a")
    assert "example.org/wait" in row["message"]


def test_the_record_of_a_source_keeps_the_newest_commit_that_was_reached(platform: CheckedPlatform) -> None:
    commit(platform, config_map("a"))
    platform.settle()
    first = platform.sources["platform"].catalog.commit
    assert (platform.record().applied, platform.record().target, platform.record().state) == (first, first, "Settled")
    commit(platform, config_map("a"), config_map("b", name="${a.metadata.annotations.host}"))
    platform.settle()
    second = platform.sources["platform"].catalog.commit
    assert (platform.record().applied, platform.record().target) == (first, second)
    assert platform.record().state == "Waiting"
    assert [str(kind) for kind in platform.record().scopes[X].kinds] == ["ConfigMap"]


def test_a_suspended_object_is_left_alone_and_told(platform: CheckedPlatform) -> None:
    commit(platform, config_map("a"))
    platform.settle()
    platform.cluster.edit(
        key("x-a"), lambda obj: obj["metadata"]["annotations"].update({well_known.RECONCILE: "disabled"})
    )
    platform.cluster.put({**json.loads(plain("x-a")), "data": {"text": "by hand"}}, manager="kubectl-edit")
    platform.cluster.edit(
        key("x-a"), lambda obj: obj["metadata"].setdefault("annotations", {}).update({well_known.RECONCILE: "disabled"})
    )
    platform.settle()
    assert platform.cluster.objects[key("x-a")]["data"]["text"] == "by hand"
    assert [row["reason"] for row in status(platform)["levelgate"]["blocked"]] == ["Suspended"]


def test_a_source_of_more_instances_than_its_record_holds_says_so_and_goes_on(
    platform: CheckedPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ConfigMap holds 1 MiB. What was recorded stays, the commit and all else is recorded as ever, and nothing that somebody deletes by hand is
    let go before it is on record.
    """
    commit(platform, config_map("a"))
    platform.settle()
    before = platform.record().scopes.text
    monkeypatch.setattr("gitops.records.source_record.MAX_SCOPES_BYTES", len(before))
    commit(platform, config_map("a"), more={"y.json": instance("Link", "y")})
    platform.settle()
    said = platform.record()
    assert (said.scopes.text, said.state) == (before, "Failed")
    assert said.applied == platform.sources["platform"].catalog.commit
    assert [row["reason"] for row in said.causes] == ["ApplyFailed"]
    assert f"the scopes take {len(before) + len(',') + len('y') + 2} bytes" in said.causes[0]["message"]
    y = X._replace(name="y")
    platform.cluster.take_away(y)
    platform.settle()
    assert platform.cluster.objects[y]["metadata"]["finalizers"] == ["levelgate.dev/prune"]
    assert key("y-a") in platform.cluster.objects
    monkeypatch.undo()
    platform.settle()
    assert platform.record().state == "Settled"
    assert platform.cluster.objects[y]["metadata"].get("deletionTimestamp") is None
