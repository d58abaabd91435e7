"""A commit that changes windows and policies alone changes nothing in the cluster, and its reviewer is told all the same (docs/plans.md)."""

from __future__ import annotations

from gitops.plan import warnings
from gitops.plan.report_markdown import format_comment
from tests.support.git.commits import changed, planned, planned_beside, sample

POLICY = "rules/web-apps.yaml"
WINDOW = """apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: hours}
spec: {kind: Allow, timeZone: UTC, schedule: {cron: "0 9 * * 1"}, duration: 2h, selector: {namespaces: [prod]}}
"""


def told(base: dict[str, str], head: dict[str, str]) -> list[str]:
    report = planned(base, head)
    assert not report.has_changes
    return [f"{one.hazard} {one.file}:{one.line}: {one.message}" for one in report.warnings]


def test_a_pace_that_grows_is_told_with_both_values() -> None:
    head = changed(sample(), POLICY, "shape: {linear: {n: 2}}", "shape: {linear: {n: 20}}")
    said = (
        "RulesChange rules/web-apps.yaml:2: PropagationPolicy web-apps changes: spec.waves[prod].shape.linear.n 2 -> 20"
    )
    assert told(sample(), head) == [said]
    assert said.partition(": ")[2] in format_comment(planned(sample(), head))


def test_a_window_that_comes_changes_and_goes_is_told() -> None:
    whole = {**sample(), "rules/hours.yaml": WINDOW}
    longer = {**sample(), "rules/hours.yaml": WINDOW.replace("2h", "9h")}
    assert told(sample(), whole) == ["RulesChange rules/hours.yaml:1: PropagationWindow hours is new"]
    assert told(whole, longer) == [
        "RulesChange rules/hours.yaml:1: PropagationWindow hours changes: spec.duration 2h -> 9h"
    ]
    assert told(whole, sample()) == ["RulesChange rules/hours.yaml:1: PropagationWindow hours is removed"]


def test_a_rule_that_moves_or_breaks_changes_nothing() -> None:
    moved = {file: text for file, text in sample().items() if file != POLICY} | {"web.yaml": sample()[POLICY]}
    assert told(sample(), moved) == []
    broken = changed(sample(), POLICY, "maxFailures: 0", "maxFailures: none")
    assert told(sample(), broken) == []


def test_a_calendar_that_comes_changes_or_goes_is_told_by_its_file() -> None:
    """It may hold dates by the hundred."""

    def told_of(before: dict[str, str], after: dict[str, str]) -> list[str]:
        return [one.message for one in warnings.find_rule_changes({"calendars": before}, {"calendars": after})]

    one, other = {"a.ics": "BEGIN:VCALENDAR", "b.ics": "x"}, {"a.ics": "BEGIN:", "b.ics": "x"}
    assert [told_of(*pair) for pair in ((one, other), ({"b.ics": "x"}, one), (one, {"b.ics": "x"}))] == [
        ["iCalendar file a.ics changes"]
    ] * 3
    assert told_of(one, one) == []


def test_a_cluster_says_what_was_in_force() -> None:
    report = planned_beside(sample(), changed(sample(), POLICY, "maxFailures: 0", "maxFailures: 3"), {})
    assert [one.message for one in report.warnings] == ["PropagationPolicy web-apps changes: spec.maxFailures 0 -> 3"]
