"""Sources whose windows and policies govern all sources (`policies: All`, docs/configuration.md), in whole passes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from tests.support.link_platform import LinkPlatform
from tests.support.windows.calendars import FREEZE, HOURS, SATURDAY

GOVERNED = frozenset({"central"})
FIVE = tuple("abcde")


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=FIVE) as found:
        yield found


def central(**rules: Mapping[str, Any] | str) -> SourceState:
    """The source that governs all, with these specs of windows and policies, or files of text, by name."""
    files = {}
    for name, spec in rules.items():
        kind = "PropagationWindow" if "timeZone" in spec else "PropagationPolicy"
        manifest = {"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        files[f"{name}.yaml"] = (spec if isinstance(spec, str) else json.dumps(manifest)).encode()
    return SourceState(load(files, source="central", commit="2" * 40))


def passed(fleet: LinkPlatform, *others: SourceState, governors: frozenset[str] = GOVERNED) -> ReconcileResult:
    assert fleet.catalog
    return fleet.call(fleet.reconciler.reconcile([SourceState(fleet.catalog, governors=governors), *others]))


def move(fleet: LinkPlatform, *others: SourceState) -> list[list[str]]:
    """Who moved in which pass to the image `two`, each ready afterwards."""
    fleet.push("two")
    found = []
    for _ in range(8):
        before = set(fleet.at("two"))
        passed(fleet, *others)
        found.append([name for name in fleet.at("two") if name not in before])
        fleet.ready(*fleet.at("two"))
    return [moved for moved in found if moved]


@pytest.mark.parametrize(("governors", "moved"), [(GOVERNED, []), (frozenset[str](), ["a"])])
def test_a_window_closes_other_sources_only_where_it_is_to_govern_all(
    fleet: LinkPlatform, governors: frozenset[str], moved: list[str]
) -> None:
    fleet.start()
    fleet.clock.moment = SATURDAY
    fleet.push("two")
    passed(fleet, central(freeze=FREEZE), governors=governors)
    assert fleet.at("two") == moved


def test_windows_of_both_must_be_open(fleet: LinkPlatform) -> None:
    """Surface 6: windows of different sources are judged apart and AND-ed."""
    fleet.start(hours=HOURS)
    later = {**HOURS, "schedule": {"cron": "0 14 * * 1-5"}}
    fleet.push("two")
    found = passed(fleet, central(later=later))
    assert fleet.at("two") == []
    assert fleet.propagated("a") == (
        "WindowClosed",
        "waits for window later (CHG-1), opens 2026-11-20T13:00Z (Fri 14:00 Europe/Berlin)",
    )
    assert found.propagation.wake_at == fleet.clock.now() + timedelta(hours=1)
    fleet.clock.moment += timedelta(hours=1)
    passed(fleet, central(later=later))
    assert fleet.at("two") == ["a"]


def test_a_break_glass_in_git_does_not_pass_the_window_of_another_source_and_one_on_the_live_object_does(
    fleet: LinkPlatform,
) -> None:
    """Surface 6."""
    fleet.start()
    fleet.clock.moment = SATURDAY
    until = (SATURDAY + timedelta(hours=1)).isoformat()
    said = {"levelgate.dev/break-glass-reason": "INC-7", "levelgate.dev/break-glass-until": until}
    fleet.written["a"] = {"metadata": {"annotations": said}}
    fleet.push("two")
    passed(fleet, central(freeze=FREEZE))
    assert fleet.at("two") == []
    told = fleet.propagated("a")[1]
    assert told.endswith(
        "break-glass refused: declared in Git it bypasses windows of its own source only; annotate the live object"
    )
    del fleet.written["a"]
    fleet.push()
    passed(fleet, central(freeze=FREEZE))
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until=until)
    passed(fleet, central(freeze=FREEZE))
    assert fleet.at("two") == ["a"]


def test_a_policy_sets_the_pace_of_other_sources(fleet: LinkPlatform) -> None:
    fleet.start()
    assert move(fleet, central(all={"shape": {"linear": {"n": 5}}})) == [list(FIVE)]


def test_of_two_policies_that_select_alike_the_own_one_counts(fleet: LinkPlatform) -> None:
    fleet.start(own={"shape": {"linear": {"n": 3}}})
    assert move(fleet, central(all={"shape": {"linear": {"n": 5}}})) == [["a", "b", "c"], ["d", "e"]]


def test_the_policy_that_selects_more_narrowly_counts_whosever_it_is(fleet: LinkPlatform) -> None:
    fleet.start(own={"shape": {"linear": {"n": 3}}})
    narrow = {"selector": {"rgds": ["links.*"]}, "shape": {"linear": {"n": 5}}}
    assert move(fleet, central(all=narrow)) == [list(FIVE)]


def test_gates_and_waves_may_name_the_windows_of_a_source_that_governs_all(fleet: LinkPlatform) -> None:
    fleet.start()
    named = {**HOURS, "byName": True}
    policy = {"shape": {"linear": {"n": 5}}, "waves": [{"name": "first", "windows": ["hours"]}]}
    fleet.gates = ['${inWindow("hours")}', "${linearlyReady(each, links, 5)}"]
    rules = central(hours=named, policy=policy)
    fleet.clock.moment = SATURDAY
    assert move(fleet, rules) == []
    fleet.clock.moment = SATURDAY + timedelta(days=2)
    assert move(fleet, rules) == [list(FIVE)]


def test_a_window_of_the_own_source_does_not_stand_in_for_the_one_that_a_common_policy_names(
    fleet: LinkPlatform,
) -> None:
    november = {"once": [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]}
    always = {"kind": "Allow", "timeZone": "UTC", "schedule": november, "byName": True}
    fleet.start(hours=always)
    fleet.clock.moment = SATURDAY
    waves = [{"name": "first", "windows": ["hours"]}]
    assert move(fleet, central(hours={**HOURS, "byName": True}, policy={"waves": waves})) == []
    assert "window hours" in fleet.propagated("a")[1]


def test_nothing_starts_before_a_source_that_governs_all_was_read_and_then_its_rules_outlive_a_restart(
    fleet: LinkPlatform,
) -> None:
    """Broken input never opens: what cannot be read may hold a window."""
    fleet.start()
    fleet.push("two")
    passed(fleet)
    assert fleet.at("two") == []
    assert fleet.propagated("a") == (
        "GateError",
        "source central, whose windows and policies govern all sources, has not been read yet, so no change starts",
    )
    passed(fleet, central(freeze=FREEZE))
    assert fleet.at("two") == ["a"]
    fleet.restart()
    fleet.clock.moment = SATURDAY
    fleet.ready("a")
    passed(fleet)
    assert fleet.at("two") == ["a"]
    assert fleet.propagated("b")[0] == "WindowClosed"


def test_a_window_that_cannot_be_read_closes_all_that_it_may_govern(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.push("two")
    passed(fleet, central(freeze="kind: PropagationWindow\nspec: ["))
    assert fleet.at("two") == []
    assert fleet.propagated("a")[0] == "GateError"


def test_what_never_could_be_read_closes_after_a_restart_too(fleet: LinkPlatform) -> None:
    """Also where other rules of that source are stored, and it cannot be fetched now."""
    fleet.start()
    fleet.push("two")
    passed(fleet, central(hours=HOURS, freeze="kind: PropagationWindow\nspec: ["))
    fleet.restart()
    passed(fleet)
    assert fleet.at("two") == []
    assert fleet.propagated("a")[1].startswith("freeze.yaml cannot be read")
    passed(fleet, central(hours=HOURS))
    assert fleet.at("two") == ["a"]
