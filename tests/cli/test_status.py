"""`levelgate status`: sources, rollouts under way, and what is not as Git says (docs/reference.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from applier.cluster import PARENT_MANAGER, STATUS_MANAGER
from applier.sandbox.wire import Request
from gitops.cli import EXIT_USAGE
from gitops.daemon.source_records import SourceRecords
from gitops.errors import SourceError
from gitops.records.source_record import UnreadableSource
from renderer import well_known
from renderer.identity import source_parent
from tests.support.cli import Typed
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import commit_id
from tests.support.shops import DBA, SHOPS

ROLLOUT = f"links.{GROUP}"
SOURCES = [
    "SOURCE     REF    COMMIT    AGE   STATE   INSTANCES   HELD   FAILED",
    "platform   main   0000000   78m   Held    8           1      0",
    "",
]
ROLLOUTS = [
    "ROLLOUT        TO   WAVE   SETTLED   PROGRESSING   WAITING   STATE   AGE",
    "links.g.test   r2          3/8       1             4         Held    78m",
    "",
]
WAITING = [
    "DIFFERS FROM GIT        REASON         BY                  NOT BEFORE",
    "default  link/cart      WindowClosed   window/dba-hours    Mon 2026-11-23 09:00",
    "default  link/catalog   PaceReached    default link/cart   Mon 2026-11-23 09:00",
    "default  link/mail      PaceReached    default link/cart   Mon 2026-11-23 09:00",
    "default  link/search    PaceReached    default link/cart   Mon 2026-11-23 09:00",
    "default  link/shop      PaceReached    default link/cart   Mon 2026-11-23 09:00",
    "",
    "Nothing failed. Next: levelgate explain link/cart -n default",
]


def answer(typed: Typed, fleet: LinkPlatform, *arguments: str) -> list[str]:
    """Without the line that names the cluster."""
    header, empty, *lines = typed(fleet, "status", *arguments).splitlines()
    assert header.startswith("Cluster prod-eu, Fri 2026-11-20 15:20 CET, levelgate ")
    assert empty == ""
    return lines


def test_what_waits_is_told_with_what_it_waits_for(held_up: LinkPlatform, typed: Typed) -> None:
    """surface 4.3."""
    assert answer(typed, held_up) == [*SOURCES, *ROLLOUTS, *WAITING]


def test_one_source_rollout_or_instance(held_up: LinkPlatform, typed: Typed) -> None:
    assert answer(typed, held_up, "source/platform") == [*SOURCES, *ROLLOUTS, *WAITING]
    assert answer(typed, held_up, f"rollout/{ROLLOUT}") == [*ROLLOUTS, *WAITING]
    instance = [
        "INSTANCE             STATE    READY   HEALTHY   REVISION   TARGET         UPDATED   PROPAGATED",
        "default  link/cart   ACTIVE   True    True      1          r2 (0000000)   2/3       WindowClosed",
        "",
        *WAITING[:2],
        *WAITING[-2:],
    ]
    told = answer(typed, held_up, "link/cart")  # columns are as wide as what this one has to say
    assert [line.split() for line in told] == [line.split() for line in instance]


def test_the_record_of_a_source_names_that_source(held_up: LinkPlatform, typed: Typed) -> None:
    """And not the first of its instances."""
    arguments = ("configmap/source-platform", "-n", "levelgate-system")
    assert answer(typed, held_up, *arguments) == answer(typed, held_up, "source/platform")


def test_wide_shows_every_cause_with_its_node_and_message(held_up: LinkPlatform, typed: Typed) -> None:
    header, cart, *_ = answer(typed, held_up, "link/cart", "-o", "wide")[3:]
    assert header.split() == ["DIFFERS", "FROM", "GIT", "REASON", "BY", "NOT", "BEFORE", "NODE", "MESSAGE"]
    assert "   database   waits for window dba-hours (CHG-2210), opens 2026-11-23T08:00Z" in cart


def test_a_namespace_narrows_what_waits(held_up: LinkPlatform, typed: Typed) -> None:
    assert answer(typed, held_up, "-n", "other")[-1] == "No instance is in namespace other."
    assert answer(typed, held_up, "-n", "other", "-A") == answer(typed, held_up)


def test_the_json_names_rollouts_and_causes(held_up: LinkPlatform, typed: Typed) -> None:
    """S1-35: for each definition how many instances have which revision, for each instance what holds it."""
    found: dict[str, Any] = json.loads(typed(held_up, "status", "-o", "json"))
    (rollout,) = found["rollouts"]
    assert (rollout["name"], rollout["state"], rollout["since"]) == (ROLLOUT, "Held", "2026-11-20T13:02:00Z")
    assert rollout["targets"] == {"prod": 2, "rest": 2}
    assert rollout["revisions"] == {"1": 5, "2": 3}
    assert rollout["waves"][0] == {
        "name": "prod",
        "shape": "exponential 2",
        "total": 8,
        "settled": 3,
        "moving": 1,
        "held": 0,
        "failed": 0,
        "limit": 4,
        "then": 8,
    }
    assert found["blocked"][0] == {
        "kind": "Link",
        "namespace": "default",
        "name": "cart",
        "state": "Held",
        "node": "database",
        "reason": "WindowClosed",
        "message": "waits for window dba-hours (CHG-2210), opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)",
        "since": "2026-11-20T13:02:00Z",
        "until": "2026-11-23T08:00:00Z",
        "by": "window/dba-hours",
    }


def test_a_source_itself_has_no_health_that_it_could_lack(held_up: LinkPlatform, typed: Typed) -> None:
    line = next(one for one in typed(held_up, "tree", "source/platform").splitlines() if "source-platform" in one)
    assert line.split() == ["ConfigMap", "levelgate-system/source-platform", "Current"]


@pytest.mark.parametrize("command", ["status", "events", "history", "windows", "tree source/platform"])
def test_programs_read_the_same_as_json_and_as_yaml(held_up: LinkPlatform, typed: Typed, command: str) -> None:
    """Surface 1.1, rule 5."""
    told = json.loads(typed(held_up, *command.split(), "-o", "json"))
    assert told
    assert yaml.safe_load(typed(held_up, *command.split(), "-o", "yaml")) == told


def test_names_are_what_further_commands_take(held_up: LinkPlatform, typed: Typed) -> None:
    told = typed(held_up, "status", "-o", "name").splitlines()
    assert told[:2] == ["source/platform", f"rollout/{ROLLOUT}"]
    assert "link/cart -n default" in told
    for one in told:
        assert typed(held_up, "status", *one.split())
    members = typed(held_up, "tree", "link/cart", "-n", "default", "-o", "name").splitlines()
    assert members[0] == "link/cart -n default"
    assert len(members) > 3


def test_where_no_instance_waits_explain_is_asked_about_what_does(typed: Typed) -> None:
    metadata = {"name": "plain", "namespace": "default"}
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    with LinkPlatform(names=("a",), plain={"plain": plain}) as fleet:
        fleet.deploy()
        path = "/api/v1/namespaces/default/configmaps/plain?fieldManager=deployer&force=true"
        fleet.request("PATCH", path, {**plain, "data": {"a": "taken"}}, "application/apply-patch+yaml")
        fleet.step()
        assert "Next: levelgate explain configmap/plain -n default" in typed(fleet, "status")
        assert "Conflict  ConfigMap default/plain" in typed(fleet, "explain", "configmap/plain", "-n", "default")


def test_what_failed_is_told_below_with_its_message(typed: Typed) -> None:
    """And what fails in the source itself: here a file that cannot be read."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        fleet.rules["broken.yaml"] = "kind: [unclosed\n"
        fleet.push("two")
        fleet.step()
        lines = typed(fleet, "status").splitlines()
        assert lines[-2].startswith("RenderFailed: source/platform: broken.yaml:")


def test_a_settled_platform_says_so_and_shows_no_rollout(typed: Typed) -> None:
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        lines = typed(fleet, "status").splitlines()
        assert lines[-1] == "Everything matches Git."
        assert not any(line.startswith("ROLLOUT") for line in lines)
        assert f"{ROLLOUT}   r1" in typed(fleet, "status", f"rollout/{ROLLOUT}")


def test_a_source_that_cannot_be_read_is_told_with_what_stays(typed: Typed) -> None:
    """I12: how old the news is, and why."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        told = UnreadableSource("2026-11-20T11:30:00Z", "https://git.example.com/x.git: the server refused access")
        said = {"metadata": {"annotations": {well_known.UNREADABLE: told.encode()}}}
        fleet.call(fleet.cluster.merge(source_parent("platform"), said, manager=STATUS_MANAGER))
        since = "source/platform cannot be read since Fri 2026-11-20 12:30: https://git.example.com/x.git: the server"
        lines = typed(fleet, "status").splitlines()
        assert lines[-1] == "Everything matches the last commit that Levelgate read."
        for answer in (typed(fleet, "status"), typed(fleet, "explain", "source/platform")):
            assert f"{since} refused access\n" in answer
            assert "The last commit (0000000) stays in force, and Levelgate heals its objects.\n" in answer
        (source,) = json.loads(typed(fleet, "status", "-o", "json"))["sources"]
        assert source["unreadable"] == {"since": told.since, "why": told.why}


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_source_that_was_never_read_is_told_with_why(typed: Typed, is_followed: bool) -> None:
    """I12, also where it is the only one and nobody follows it for good, as `run --once` does not: it is no empty cluster."""
    with LinkPlatform(names=()) as fleet:
        records = SourceRecords(fleet.cluster, fleet.clock)
        fleet.reconciler.follows = {"platform"} if is_followed else None
        fleet.call(fleet.reconciler.reconcile([]))
        fleet.call(
            records.report_error("platform", SourceError("https://git.example.com/x.git", "the server refused access"))
        )
        why = "source/platform cannot be read since Fri 2026-11-20 13:00: https://git.example.com/x.git: the server refused access\n"
        for command in (["status"], ["status", "source/platform"], ["explain", "source/platform"]):
            assert typed(fleet, *command).endswith(
                f"\n{why}Levelgate has not accepted a commit of source/platform yet.\n"
            )
        assert "source platform is reconciled now" in typed(fleet, "reconcile")


def test_a_record_with_a_time_that_is_none_is_told_without_its_age(typed: Typed) -> None:
    """Somebody has edited it; `status` is what one looks with."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        for since in ("yesterday", "2026-11-20T11:30:00"):
            edited = {"data": {"since": since}}
            fleet.call(fleet.cluster.merge(source_parent("platform"), edited, manager=STATUS_MANAGER))
            row = next(line for line in typed(fleet, "status").splitlines() if line.startswith("platform"))
            assert " 0000000  " in row


def test_a_source_that_is_configured_no_more_is_told_with_what_to_do(typed: Typed) -> None:
    """Rulings, *Sources*: it is left alone; its last state is not how it is."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        left = (
            "source/platform is no longer configured. Levelgate neither heals nor prunes its objects in the cluster.\n"
        )
        assert left not in typed(fleet, "status")
        for configured, is_left in (({"other", "platform"}, False), ({"other"}, True)):
            fleet.reconciler.follows = configured
            fleet.step()
            fleet.restart()
            fleet.step()  # as `run --once`, which follows nothing for good
            assert (left in typed(fleet, "status")) is is_left
            assert (left in typed(fleet, "explain", "source/platform")) is is_left
            assert "Levelgate has not accepted a commit of source/other yet." in typed(fleet, "status")
            (source,) = (
                one for one in json.loads(typed(fleet, "status", "-o", "json"))["sources"] if one["name"] == "platform"
            )
            assert source["configured"] is not is_left
        assert typed(fleet, "status").splitlines()[-1] == "Everything matches the last commit that Levelgate read."
        assert "\nsource/platform followed main at 0000000: " in typed(fleet, "explain", "source/platform")
        nothing = {"metadata": {"annotations": {well_known.GROUP_KINDS: ""}}}
        fleet.call(fleet.cluster.merge(source_parent("platform"), nothing, manager=PARENT_MANAGER))
        assert "source/platform" not in typed(fleet, "status")


@pytest.fixture
def waves() -> Iterator[LinkPlatform]:
    canary = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}
    prod = {"name": "prod", "selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}
    with LinkPlatform(names=SHOPS[:3], written={"api": {"metadata": {"labels": {"tier": "canary"}}}}) as fleet:
        fleet.start(webapps={"waves": [canary, prod]}, dba=DBA)
        yield fleet


def test_the_wave_that_a_rollout_is_in(waves: LinkPlatform, typed: Typed) -> None:
    waves.push("two")
    waves.step()
    assert "links.g.test   r2   canary 1/2   0/3       1             2         Waiting   0s" in typed(waves, "status")
    waves.move("two", except_for=["auth"])
    assert "links.g.test   r2   prod 2/2   1/3       1             1" in typed(waves, "status")


@pytest.mark.parametrize(("ref", "code"), [("window/x", EXIT_USAGE), ("link/a/app", EXIT_USAGE), ("source/other", 1)])
def test_what_has_no_status_is_refused(waves: LinkPlatform, typed: Typed, ref: str, code: int) -> None:
    assert typed(waves, "status", ref, code=code)


def test_kubectl_prints_the_reason_and_wide_the_target_node_and_message(held_up: LinkPlatform) -> None:
    """surface 3.2: columns of the CRD, by values."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    path = f"/apis/{GROUP}/v1/namespaces/default/links"
    table = json.loads(held_up.sandbox.handle(Request("GET", path, {"accept": accept}, b"")).body)
    names = [column["name"] for column in table["columnDefinitions"]]
    rows = {row["cells"][0]: dict(zip(names, row["cells"], strict=True)) for row in table["rows"]}
    cart = rows["cart"]
    assert (cart["State"], cart["Ready"], cart["Healthy"], cart["Revision"]) == ("ACTIVE", "True", "True", 1)
    assert (cart["Propagated"], cart["Target"], cart["Commit"], cart["Node"]) == (
        "WindowClosed",
        2,
        commit_id(held_up.commits)[:12],
        "database",
    )
    assert cart["Message"].startswith("node database: waits for window dba-hours (CHG-2210), opens 2026-11-23T08:00Z")
    assert {name: row["Propagated"] for name, row in rows.items() if name in {"api", "shop"}} == {
        "api": "Settled",
        "shop": "PaceReached",
    }


def test_what_waits_behind_a_held_node_is_held_as_that_is(typed: Typed) -> None:
    """Only a person or the calendar brings it further: the source waits for nothing else, and `run --once` has nothing to wait for."""
    closed = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 3 * * *"}, "duration": "1h", "byName": True}
    with LinkPlatform(names=("a",), gates=[]) as fleet:
        fleet.start()
        fleet.node_gates = ['${inWindow("night")}']
        fleet.push("two", night=closed)
        fleet.step()
        found = json.loads(typed(fleet, "status", "-o", "json"))["sources"][0]
        assert {row["reason"] for row in fleet.status("a")["levelgate"]["blocked"]} == {"WindowClosed"}
        assert (found["state"], found["held"]) == ("Held", 1)


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("status source/platfrom", "platform"),
        ("status link/chart", "cart"),
        ("status rollout/link.g.test", "links.g.test"),
        ("status lnk/cart", "link"),
        ("tree link/chart", "cart"),
        ("explain link/chart", "cart"),
        ("hold link/chart --reason x", "cart"),
        ("reconcile source/platfrom", "platform"),
        ("halt rollout/link.g.test --reason x", "links.g.test"),
    ],
)
def test_a_name_that_is_nearly_one_is_told_which(held_up: LinkPlatform, typed: Typed, command: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in typed(held_up, *command.split(), code=1)
