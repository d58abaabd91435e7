"""`levelgate reconcile` and `levelgate wait`, as they are typed (docs/people.md)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gitops.cli import EXIT_USAGE
from gitops.records.source_record import UnreadableSource, initial_source_body
from gitops.records.source_requests import find_sync_requests, last_answered_request
from renderer import well_known
from renderer.identity import source_parent
from tests.support.cli import Typed
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE, OWN

RECORD = f"{OWN}/source-platform"
LINK = "/apis/g.test/v1/namespaces/default/links/a"


pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        yield found


def said(fleet: LinkPlatform, path: str) -> str:
    found: str = (fleet.request("GET", path)["metadata"].get("annotations") or {}).get(well_known.SYNC_REQUESTED_AT, "")
    return found


def test_without_a_name_every_source_is_asked(fleet: LinkPlatform, typed: Typed) -> None:
    told = typed(fleet, "reconcile").splitlines()
    assert told == [
        "Cluster prod-eu, Fri 2026-11-20 13:00 CET",
        "source platform is reconciled now. The request opens no gate.",
        "Written: levelgate.dev/sync-requested-at=2026-11-20T12:00:00.000000Z",
    ]
    assert said(fleet, RECORD) == "2026-11-20T12:00:00.000000Z"
    assert "requested-by" not in str(fleet.request("GET", RECORD)["metadata"])


def test_an_instance_asks_its_source(fleet: LinkPlatform, typed: Typed) -> None:
    typed(fleet, "reconcile", "link/a", "-n", "default")
    asked = find_sync_requests(fleet.step().plan.sets)
    assert [key.name for key in asked["platform"]] == ["a"]
    assert source_parent("platform") not in asked["platform"]


def test_an_instance_is_answered_in_its_own_status_once(fleet: LinkPlatform, typed: Typed) -> None:
    typed(fleet, "reconcile", "link/a", "-n", "default")
    asked = find_sync_requests(fleet.step().plan.sets)["platform"]
    fleet.call(fleet.reconciler.reconcile([replace(fleet.state, synced=asked)]))
    assert last_answered_request(fleet.request("GET", LINK)) == said(fleet, LINK)
    assert find_sync_requests(fleet.step().plan.sets) == {}


def test_kubectl_can_write_the_same(fleet: LinkPlatform, typed: Typed) -> None:
    (_, line) = typed(fleet, "reconcile", "source/platform", "--dry-run").splitlines()
    assert shlex.split(line)[:4] == ["kubectl", "annotate", "configmaps", "source-platform"]
    assert said(fleet, RECORD) == ""


def test_waiting_for_an_answer_that_does_not_come_is_not_there_yet(fleet: LinkPlatform, typed: Typed) -> None:
    """Exit code 3 is only ever that (surface 1.1)."""
    told = typed(fleet, "reconcile", "--wait", "--timeout", "90s", code=3)
    assert "The daemon did not answer within 1m30s: check that `levelgate run` works on this cluster" in told


def test_waiting_says_what_git_answers(fleet: LinkPlatform, typed: Typed) -> None:
    """I12: the daemon does work here, and has said why."""
    why = UnreadableSource("2026-11-20T11:00:00Z", "https://x: the server refused access")
    body = {"metadata": {"annotations": {well_known.UNREADABLE: why.encode()}}}
    fleet.request("PATCH", f"{RECORD}?fieldManager=levelgate-status", body, MERGE)
    assert f"The daemon did not answer within 1m30s: {why.why}\n" in typed(
        fleet, "reconcile", "--wait", "--timeout", "90s", code=3
    )


def test_a_source_of_which_nothing_is_known_is_told_from_one_that_nobody_follows(
    fleet: LinkPlatform, typed: Typed
) -> None:
    """Surface 1.1: what is, and what to do; both have no record."""
    fleet.reconciler.follows = {"platform", "slow"}
    fleet.step()
    assert "the daemon has not read source/slow yet" in typed(fleet, "reconcile", "source/slow", code=1)
    told = typed(fleet, "suspend", "source/slwo", "--reason", "INC-7", code=1)
    assert "no daemon follows source/slwo in cluster prod-eu; did you mean 'slow'?" in told
    assert "prod-eu; choose from platform, slow\n" in typed(fleet, "reconcile", "source/another", code=1)


def test_a_rollout_cannot_be_looked_at(fleet: LinkPlatform, typed: Typed) -> None:
    assert "name an instance (webapp/shop), source/NAME" in typed(
        fleet, "reconcile", "rollout/links.g.test", code=EXIT_USAGE
    )


def test_what_has_settled_needs_no_waiting(fleet: LinkPlatform, typed: Typed) -> None:
    """Results go to stdout, and there is none: how far it is goes to stderr."""
    revision = fleet.state.catalog.commit
    for arguments in ([], ["source/platform", "--revision", revision], ["link/a", "-n", "default"]):
        assert typed(fleet, "wait", *arguments, "--timeout", "90s") == ""
    assert typed(fleet, "wait", "rollout/links.g.test", "--for", "applied", "--timeout", "90s") == ""


def test_what_is_not_there_in_time_ends_with_3(fleet: LinkPlatform, typed: Typed) -> None:
    fleet.push("two")
    fleet.step()
    told = typed(fleet, "wait", "--timeout", "90s", code=3)
    assert "platform 0000000: Waiting, not applied completely" in told
    assert "Not settled within 1m30s." in told
    assert "links.g.test: " in typed(fleet, "wait", "rollout/links.g.test", "--timeout", "90s", code=3)


def test_waiting_for_all_sources_waits_for_those_that_were_never_read(fleet: LinkPlatform, typed: Typed) -> None:
    """I12: a pipeline that waits for everything is not told that it is there, and is told why not."""
    fleet.reconciler.follows = {"platform", "slow"}
    fleet.step()
    assert "slow: Levelgate has not read a commit yet\n" in typed(fleet, "wait", "--timeout", "90s", code=3)
    why = UnreadableSource("2026-11-20T11:00:00Z", "https://x: the server refused access")
    record = initial_source_body("slow")
    record["metadata"]["annotations"] = {well_known.UNREADABLE: why.encode()}
    fleet.request("POST", OWN, record)
    told = typed(fleet, "wait", "--timeout", "90s", code=3)
    assert f"slow: Levelgate has not read a commit yet: the last read failed: {why.why}\n" in told
    body = {"metadata": {"annotations": {well_known.UNREADABLE: why.encode()}}}
    fleet.request("PATCH", f"{RECORD}?fieldManager=levelgate-status", body, MERGE)
    told = typed(fleet, "wait", "source/platform", "--revision", "feedfeed", "--timeout", "90s", code=3)
    assert f"platform is at 0000000, not at feedfee yet: the last read failed: {why.why}\n" in told


def test_what_nobody_can_wait_for_is_wrong_usage(fleet: LinkPlatform, typed: Typed) -> None:
    assert "is not a commit" in typed(fleet, "wait", "--revision", "main", code=EXIT_USAGE)
    assert "does not support window/x" in typed(fleet, "wait", "window/x", code=EXIT_USAGE)
