"""Which clusters are one block of a fleet's plan, and what stands over it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from applier.cluster import LOCAL_CLUSTER, parse_cluster_name
from gitops.plan.fleet_report import ClusterPlan, FleetReport, PlanOutcome, block_title, fleet_as_json, group_clusters
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, Report, WarningKind
from renderer.identity import ObjectKey

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CHANGE = PlannedChange(PlannedAction.CREATE, ObjectKey("", "ConfigMap", "shop", "page"), "ConfigMap")
REPORT = Report("platform", "a" * 40, NOW, hash="1", changes=(CHANGE,))


def planned(name: str, report: Report = REPORT, *, is_added: bool = False) -> ClusterPlan:
    cluster = parse_cluster_name(name)
    return ClusterPlan(cluster, PlanOutcome.PLANNED, is_added, replace(report, against=f"cluster {name}"))


def unplanned(name: str, outcome: PlanOutcome, message: str, since: datetime | None = None) -> ClusterPlan:
    return ClusterPlan(parse_cluster_name(name), outcome, is_added=False, message=message, since=since)


def titles(*plans: ClusterPlan) -> list[str]:
    return [block_title(group) for group in group_clusters(plans)]


def test_clusters_with_equal_reports_are_one_block_in_the_order_of_the_first() -> None:
    other = replace(REPORT, hash="2", changes=())
    plans = [planned("eu-1"), planned("eu-2", other), planned("eu-3"), planned("us-1", other, is_added=True)]
    assert titles(*plans) == ["eu-1, eu-3: the same", "eu-2, us-1: the same (us-1 added by this commit)"]


def test_what_holds_a_change_is_a_difference() -> None:
    """Equal changes have one hash; a warning or another gate still makes another block."""
    warned = replace(REPORT, warnings=(PlanWarning(WarningKind.RULES, "other rules"),))
    assert titles(planned("eu-1"), planned("eu-2", warned)) == ["eu-1", "eu-2"]


def test_a_cluster_without_a_plan_is_alone() -> None:
    down = unplanned("eu-2", PlanOutcome.UNKNOWN, "nobody answers")
    gone = unplanned("eu-3", PlanOutcome.REMOVED, "removed by this commit; the objects deployed there stay")
    assert titles(planned("eu-1"), down, replace(down, cluster=parse_cluster_name("eu-4")), gone) == [
        "eu-1",
        "eu-2: unknown: nobody answers",
        "eu-4: unknown: nobody answers",
        "eu-3: removed by this commit; the objects deployed there stay",
    ]
    assert block_title([replace(down, since=NOW)], "Fri 12:00") == "eu-2: unknown since Fri 12:00: nobody answers"


def test_new_clusters_are_told() -> None:
    new = [planned(name, is_added=True) for name in ("eu-1", "eu-2")]
    assert titles(new[0]) == ["eu-1: added by this commit"]
    assert titles(*new) == ["eu-1, eu-2: the same, all added by this commit"]


def test_json_says_which_plans_are_equal_and_since_when_one_is_unknown() -> None:
    down = unplanned("eu-3", PlanOutcome.UNKNOWN, "nobody answers", NOW)
    report = FleetReport("platform", "a" * 40, NOW, (planned("eu-1"), planned("eu-2"), down), (), ())
    rows = fleet_as_json(report)["clusters"]
    assert [(row["name"], row["sameAs"], row["since"]) for row in rows] == [
        ("eu-1", "", None),
        ("eu-2", "eu-1", None),
        ("eu-3", "", "2026-11-20T12:00:00Z"),
    ]
    assert rows[1]["plan"]["against"] == "cluster eu-2"
    assert report.has_unknown
    assert not replace(report, clusters=(planned(LOCAL_CLUSTER),)).has_unknown
