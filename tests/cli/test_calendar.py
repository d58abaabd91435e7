"""The calendar in force in the cluster: what a pass publishes, and what comes of it for those who ask there (docs/windows.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gitops.records import window_calendar
from gitops.records.source_record import read_records
from gitops.rollouts.source_rules import SourceRules, restore_rules
from gitops.windows.window import LOCAL, Window, WindowTarget
from renderer.documents import load
from renderer.identity import GroupKind
from tests.support.link_platform import GROUP, LinkPlatform, workers
from tests.support.platform import MERGE
from tests.support.windows.calendars import FREEZE, HOURS
from tests.support.windows.documents import manifest

PATH = "/api/v1/namespaces/levelgate-system/configmaps/windows"
LINK = GroupKind(GROUP, "Link")


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        yield found


def data(fleet: LinkPlatform) -> dict[str, str]:
    found: dict[str, str] = fleet.request("GET", PATH).get("data") or {}
    return found


def timeless(rules: SourceRules) -> dict[str, Window]:
    """The windows without what is made of their schedules, which has no equality."""
    nothing: Any = None
    return {name: replace(window, timeline=nothing) for name, window in rules.windows.items()}


def test_windows_are_published_as_in_git_with_their_place(fleet: LinkPlatform) -> None:
    fleet.push(hours=HOURS, webapps={"shape": {"linear": {"n": 1}}})
    fleet.step()
    assert list(data(fleet)) == ["platform.yaml"]
    (document,) = load("windows.yaml", data(fleet)["platform.yaml"].encode())[0]
    assert document.value["spec"] == HOURS
    assert document.value["metadata"] == {"name": "hours", "annotations": {"levelgate.dev/file": "hours.json:1"}}


def test_what_is_published_reads_back_as_what_is_in_force(fleet: LinkPlatform) -> None:
    """Calendar files too, named relative to the window's file; and the policy that says how windows are read."""
    holidays = {"kind": "Deny", "timeZone": "Europe/Berlin", "schedule": {"calendar": "../holidays.ics"}}
    fleet.rules["deep/holidays.json"] = manifest("holidays", **holidays).decode()
    lines = ("BEGIN:VCALENDAR", "BEGIN:VEVENT", "DTSTART;VALUE=DATE:20261225", "END:VEVENT", "END:VCALENDAR")
    fleet.rules["holidays.ics"] = "\r\n".join(lines)
    fleet.push(hours=HOURS, default={"windows": {"defaultWhenNoWindow": "Closed"}})
    found = fleet.step()
    (read,) = fleet.call(window_calendar.read_rules(fleet.cluster))
    governed = restore_rules("platform", found.propagation.rules["platform"])
    assert timeless(read) == timeless(governed)
    now = fleet.clock.moment
    for name, window in read.windows.items():
        assert window.timeline.span(now) == governed.windows[name].timeline.span(now)
    assert read.window_set(None).no_window == "Closed"


def test_it_is_written_only_when_it_differs_and_put_right_when_somebody_edits_it(fleet: LinkPlatform) -> None:
    fleet.push(hours=HOURS)
    fleet.step()
    fleet.step()
    version = fleet.request("GET", PATH)["metadata"]["resourceVersion"]
    fleet.step()
    assert fleet.request("GET", PATH)["metadata"]["resourceVersion"] == version
    before = data(fleet)
    fleet.request("PATCH", f"{PATH}?fieldManager=kubectl-edit", {"data": {"platform.yaml": "kind: Nothing"}}, MERGE)
    assert [one.windows for one in fleet.call(window_calendar.read_rules(fleet.cluster))] == [{}]
    fleet.step()
    assert data(fleet) == before


def test_windows_of_a_source_that_was_not_read_stay_and_a_last_window_goes(fleet: LinkPlatform) -> None:
    fleet.push(hours=HOURS)
    fleet.step()
    fleet.request("PATCH", f"{PATH}?fieldManager=levelgate-applyset", {"data": {"other.yaml": "x: 1"}}, MERGE)
    fleet.push(hours=None)
    fleet.step()
    assert data(fleet) == {"other.yaml": "x: 1"}


def test_without_any_window_nothing_is_published(fleet: LinkPlatform) -> None:
    fleet.push()
    fleet.step()
    names = [
        one["metadata"]["name"]
        for one in fleet.request("GET", "/api/v1/namespaces/levelgate-system/configmaps")["items"]
    ]
    assert "windows" not in names


def test_targets_are_what_is_live_as_windows_select_it(fleet: LinkPlatform) -> None:
    """The same as of the repository: kind, namespace, definition, node, and the labels of the instance."""
    fleet.written["a"] = {"metadata": {"labels": {"tier": "gold"}}}
    fleet.names = ("a",)
    fleet.start(freeze=FREEZE)
    found = sorted(fleet.call(_targets(fleet)), key=lambda one: one.kind)
    definition = f"links.{GROUP}"
    assert [replace(one, labels=None) for one in found] == [
        WindowTarget(GroupKind("", "ConfigMap"), "default", LOCAL, rgd=definition, node="after"),
        WindowTarget(GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"), "", LOCAL, rgd=definition),
        WindowTarget(GroupKind("apps", "Deployment"), "default", LOCAL, rgd=definition, node="app"),
        WindowTarget(LINK, "default", LOCAL, rgd=definition),
    ]
    assert [(one.labels or {}).get("tier") for one in found] == ["gold", None, "gold", "gold"]


async def _targets(fleet: LinkPlatform) -> list[WindowTarget]:
    found = await window_calendar.list_targets(fleet.cluster, await read_records(fleet.cluster), LOCAL)
    return found["platform"]


def test_the_command_shows_the_calendar_of_the_cluster(fleet: LinkPlatform, typed: Any) -> None:
    """surface 4.5: as of a path, for what is live."""
    fleet.start(hours=HOURS, freeze=FREEZE)
    assert typed(fleet, "windows", "--next", "1").splitlines()[1:] == [
        "",
        "WINDOW   KIND    NOW      NEXT CHANGE        GOVERNS",
        "freeze   Deny    -        18:00 CET          everything",
        "hours    Allow   active   closes 17:00 CET   everything",
        "",
        "TARGET             NOW    OPENS   LAST START / CLOSES",
        "(cluster-scoped)   open   (now)   17:00 CET",
        "default            open   (now)   17:00 CET",
        "",
        "Ahead: freeze closes everything for 2d12h from Fri 2026-11-20 18:00 CET.",
        "       First opening after freeze for (cluster-scoped): Mon 2026-11-23 09:00 CET.",
        "       First opening after freeze for default: Mon 2026-11-23 09:00 CET.",
    ]
    found = json.loads(typed(fleet, "windows", "-n", "default", "-o", "json"))
    assert {one["source"] for one in found} == {"platform"}
    assert [target["target"] for target in found[0]["targets"]] == ["default"]


def test_gates_of_live_definitions_have_rows_of_their_own(fleet: LinkPlatform, typed: Any) -> None:
    """surface 4.5: what may change when two windows are open, the one that governs it and the one that its gate asks for."""
    fleet.more = [workers("${inWindow('lunch')}")]
    lunch = {**HOURS, "schedule": {"cron": "0 12 * * *"}, "until": "14:00", "byName": True}
    fleet.push(hours=HOURS, lunch=lunch)
    for _ in range(3):
        fleet.step()
    rows = typed(fleet, "windows", "-n", "default", "--next", "1").splitlines()[6:]
    assert [" ".join(row.split()) for row in rows] == [
        "TARGET NOW OPENS LAST START / CLOSES",
        "default open (now) 17:00 CET",
        "default, in lunch open (now) 14:00 CET",
    ]


def test_a_cluster_without_windows_says_so(fleet: LinkPlatform, typed: Any) -> None:
    fleet.start()
    assert "No windows hold changes." in typed(fleet, "windows")
