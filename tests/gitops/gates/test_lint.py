"""Gates against the windows and external facts that there are."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gitops.gates.lint import find_unknown_names, find_unsatisfiable_gates
from gitops.windows.window import LOCAL, Window, WindowTarget
from renderer.identity import GroupKind
from tests.support.compiled_definitions import resource
from tests.support.gated_definitions import definition
from tests.support.windows.documents import utc, window

NOW = utc("2026-03-01 00:00")
CONFIG_MAP = GroupKind("", "ConfigMap")
MORNING = window("morning", zone="UTC", cron="0 9 * * *", until="12:00")
EVENING = window("evening", zone="UTC", cron="0 18 * * *", until="20:00", byName=True)


def unknown(
    gate: str, windows: Iterable[str] = ("dba-hours", "night"), externals: list[str] | None = None
) -> list[str]:
    found = find_unknown_names([definition(across=[f"${{{gate}}}"])], set(windows), externals)
    return [str(problem).partition("}: ")[2] for problem in found]


def test_s1_37_a_window_that_is_not_there_is_told_with_the_one_that_was_meant() -> None:
    assert unknown("inWindow('dba-hour')") == ["window 'dba-hour' does not exist; did you mean 'dba-hours'?"]
    assert unknown("inWindow('zzz')") == ["window 'zzz' does not exist; choose from dba-hours, night"]
    assert unknown("inWindow('zzz')", windows=()) == [
        "window 'zzz' does not exist; declare the window, or correct the gate"
    ]
    assert unknown("inWindow('night') || !inWindow('dba-hours')") == []


def test_s1_37_external_facts_are_checked_where_it_is_known_which_there_are() -> None:
    assert unknown("external('budget')") == []
    assert unknown("external('budgt')", externals=["budget"]) == [
        "external fact 'budgt' is not declared; did you mean 'budget'?"
    ]
    assert unknown("external('budget')", externals=["budget"]) == []
    assert "is not declared; declare it under `externals`" in unknown("external('budget')", externals=[])[0]


def test_a_name_that_is_not_there_is_told_where_the_gate_stands() -> None:
    (problem,) = find_unknown_names([definition(resource("a", propagateWhen=["${inWindow('x')}"]))], set(), None)
    assert (problem.file, problem.path) == ("platform/db.yaml", "spec.resources[0].propagateWhen[0]")
    assert problem.line > 0


def never(gates: list[str], *windows: Window, rgd: str = "apps", node: str = "a") -> list[str]:
    found = definition(resource("a", propagateWhen=[f"${{{gate}}}" for gate in gates]))
    target = WindowTarget(CONFIG_MAP, "prod", LOCAL, rgd=rgd, node=node)
    by_name = {window.name: window for window in windows}
    return [problem.message for problem in find_unsatisfiable_gates({"apps": found}, by_name, [target, target], NOW)]


@pytest.mark.parametrize(
    ("gates", "told"),
    [
        (
            ["inWindow('evening')"],
            "requires evening while morning is open, but these windows are never open together; change a window or the gate",
        ),
        (["inWindow('evening') && schema.spec.size > 1"], "requires evening"),
        (["inWindow('morning')", "inWindow('evening')"], "requires evening and morning"),
    ],
)
def test_a_gate_that_is_never_open_with_the_windows_of_its_resource_is_told_once(gates: list[str], told: str) -> None:
    (message,) = never(gates, MORNING, EVENING)
    assert told in message


@pytest.mark.parametrize("gate", ["inWindow('morning')", "inWindow('evening') || true", "!inWindow('evening')", "true"])
def test_a_gate_that_opens_some_time_is_fine(gate: str) -> None:
    assert never([gate], MORNING, EVENING) == []


def test_one_of_several_windows_of_a_resource_is_enough() -> None:
    later = window("later", zone="UTC", cron="0 19 * * *", duration="2h")
    assert never(["inWindow('evening')"], MORNING, EVENING, later) == []


def test_windows_that_govern_something_else_do_not_matter() -> None:
    elsewhere = window("elsewhere", zone="UTC", cron="0 9 * * *", until="12:00", selector={"namespaces": ["staging"]})
    assert never(["inWindow('evening')"], elsewhere, EVENING) == []
    assert never(["inWindow('evening')"], MORNING, EVENING, node="b") == []
    assert never(["inWindow('evening')"], MORNING, EVENING, rgd="others") == []


def test_windows_of_one_gate_that_never_meet_need_no_other_window() -> None:
    named = window("morning", zone="UTC", cron="0 9 * * *", until="12:00", byName=True)
    (message,) = never(["inWindow('morning') && inWindow('evening')"], named, EVENING)
    assert message.endswith(
        "requires evening and morning, but these windows are never open together; change a window or the gate"
    )
