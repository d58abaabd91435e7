"""What a plan of one source knows of others (rulings, *Sets, finalizer, hand-over*; docs/plans.md, *Other sources of the cluster*)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from applier.cluster import Object
from applier.plan import Brake
from gitops.records.causes import MAX_ROWS
from gitops.review.report import Report
from renderer.identity import source_parent
from tests.gitops.review.commits import told
from tests.properties.platform import Files, Platform
from tests.properties.repositories import GROUP, config_map, definition, instance, plain
from tests.properties.test_planned import done, run

LINK = definition("Link", [config_map("a"), config_map("b", "a")], spec={"text": "string"})
MOVED = {"p.json": plain("p", text="1"), "x.json": instance("Link", "x", text="one")}
LINKED = f"Link.{GROUP}/default/x"


@pytest.fixture
def platform() -> Iterator[Platform]:
    """`one` has everything, `two` an object of its own."""
    with Platform() as platform:
        commit(platform, "one", {"link.json": LINK, **MOVED})
        commit(platform, "two", {})
        platform.settle()
        yield platform


def commit(platform: Platform, source: str, files: Files, *, approved: bool = True) -> None:
    own = {f"{source}.json": plain(source, text="1")}
    platform.commit({**files, **own}, source=source, approved=approved)


def said(report: Report) -> list[tuple[str, str]]:
    return [(line, change.why) for line, change in zip(told(report), report.changes, strict=True)]


@pytest.mark.parametrize("braked", [False, True])
def test_what_another_source_waits_for_is_handed_over(platform: Platform, braked: bool) -> None:
    """Nothing of it is deleted, also no member of an instance, so the brake has nothing to hold."""
    commit(platform, "two", MOVED)
    platform.settle()
    commit(platform, "one", {"link.json": LINK}, approved=not braked)
    if braked:
        platform.sources["one"] = replace(platform.sources["one"], brake=Brake(0, 0))
    report = platform.plan("one")
    assert said(report) == [
        ("update 0 ConfigMap/default/p", "handed over to source two"),
        (f"update 1 {LINKED}", "handed over to source two"),
    ]
    assert not [gate for change in report.changes for gate in change.gates]
    assert {str(key): str(action) for key, action in done(run(platform)).items()} == {
        "ConfigMap/default/p": "update",
        LINKED: "update",
    }


def test_what_nobody_waits_for_is_deleted(platform: Platform) -> None:
    """Whoever wants it later makes it anew: in this order the plan says so, and the run does so."""
    commit(platform, "one", {"link.json": LINK})
    assert platform.plan("one").summary["delete"] == 4
    commit(platform, "two", MOVED)
    assert platform.plan("one").summary["delete"] == 4  # no pass has found that it is wanted


def test_what_another_source_has_is_refused_by_its_name(platform: Platform) -> None:
    """What is to be done is a commit there, not a label taken off by hand."""
    commit(platform, "two", {"p.json": MOVED["p.json"]})
    ((line, why),) = said(platform.plan("two"))
    assert line == "failed 0 ConfigMap/default/p"
    assert "belongs to source one; take it out there, and it is handed over" in why
    assert "label" not in why


@pytest.mark.parametrize("there", [True, False], ids=["applied", "new"])
def test_an_instance_whose_definition_is_elsewhere_is_not_knowable(platform: Platform, there: bool) -> None:
    """Neither a failure nor a deletion."""
    if there:
        commit(platform, "two", {"y.json": instance("Link", "y", text="one")})
        platform.settle()
    commit(platform, "two", {"y.json": instance("Link", "y", text="two")})
    ((line, why),) = said(platform.plan("two"))
    assert line.startswith("unknown ")
    assert why == "its definition is in source one, which is not read for this plan"
    assert platform.plan("two").problems == ()


def test_a_record_without_room_for_all_that_is_wanted_is_warned_of(platform: Platform) -> None:
    commit(platform, "one", {"link.json": LINK})
    assert "NotCompared" not in [one.hazard for one in platform.plan("one").warnings]

    def full(record: Object) -> None:
        record["data"]["causes"] = json.dumps([{"reason": "WaitingForData"}] * MAX_ROWS)

    platform.cluster.edit(source_parent("two"), full)
    (warning,) = (one for one in platform.plan("one").warnings if one.hazard == "NotCompared")
    assert warning.message.startswith("source two may want what is told to be deleted here")
    commit(platform, "one", {"link.json": LINK, **MOVED})
    assert platform.plan("one").warnings == ()
