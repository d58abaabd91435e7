"""Report of a commit's changes in each cluster of a fleet. Clusters with equal changes form one block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from applier.cluster import ClusterName
from gitops.plan.report import Report
from gitops.plan.report_json import as_json
from gitops.timestamps import optional_timestamp
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.phrasing import join_names

_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NAMES: Final = 20
"""Largest number of clusters that the title of a block names. The title shows further clusters as a number."""


class PlanOutcome(StrEnum):
    """Outcome for a cluster: planned, or the reason why the cluster is not planned."""

    PLANNED = "Planned"
    UNKNOWN = "Unknown"
    """The hub does not reach the cluster, or the plan failed. `ClusterPlan.message` contains the reason."""

    PAUSED = "Paused"
    """The commit pauses the cluster, so that Levelgate writes nothing to the cluster."""

    REMOVED = "Removed"
    """The commit no longer declares the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plan of one cluster, or the reason why the cluster has no plan."""

    cluster: ClusterName
    outcome: PlanOutcome
    is_added: bool
    """True if the commit declares the cluster for the first time."""

    report: Report | None = None
    message: str = ""
    """Reason why `report` is None, or an empty string for a planned cluster."""

    since: datetime | None = None
    """Time at which the hub lost its connection to the cluster, or None if the hub has not recorded this time."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """Plans of the requested clusters, in the order of their names, `local` first."""

    source: str
    head: str
    at: datetime
    clusters: tuple[ClusterPlan, ...]
    problems: tuple[Problem, ...]
    """Problems of the source. If the cluster `local` is planned, the tuple is empty, because the report of `local`
    lists them.
    """

    notes: tuple[str, ...]
    """Statements about objects that the plans do not cover."""

    @property
    def has_unknown(self) -> bool:
        return any(plan.outcome is PlanOutcome.UNKNOWN for plan in self.clusters)

    @property
    def problem_count(self) -> int:
        return len(self.problems) + sum(plan.report.problem_count for plan in self.clusters if plan.report)

    @property
    def has_changes(self) -> bool:
        return any(plan.report.has_changes for plan in self.clusters if plan.report)


def group_clusters(plans: Iterable[ClusterPlan]) -> list[list[ClusterPlan]]:
    """Group the clusters whose plans have equal changes.

    Each group stands at the place of its first cluster. A cluster without a report is a group of its own.
    """
    groups: list[list[ClusterPlan]] = []
    for plan in plans:
        alike = (group for group in groups if plan.report and _is_alike(group[0].report, plan.report))
        if found := next(alike, None):
            found.append(plan)
        else:
            groups.append([plan])
    return groups


def _is_alike(first: Report | None, second: Report) -> bool:
    # The hash is compared first, because this comparison is cheap and distinguishes most plans. Plans of equal hash may
    # still differ, because the hash leaves out times, steps and the progress of rollouts.
    return first is not None and first.hash == second.hash and _without_cluster(first) == _without_cluster(second)


def _without_cluster(report: Report) -> Report:
    """Return the report without the name of its cluster and without the time of the plan, for comparison."""
    return replace(report, against="", at=_NO_TIME)


def block_title(group: list[ClusterPlan], since_text: str = "") -> str:
    """Return the title of a block, such as `eu-1, eu-2: the same`.

    Args:
        since_text: field `since` of the first plan in `group`, formatted for people.
    """
    first, added = group[0], [plan.cluster for plan in group if plan.is_added]
    if first.outcome is PlanOutcome.UNKNOWN:
        since = f" since {since_text}" if since_text else ""
        text = f"{first.cluster}: unknown{since}: {first.message}"
        return f"{text} (added by this commit)" if added else text
    if first.outcome is not PlanOutcome.PLANNED:
        return f"{first.cluster}: {first.message}"
    names = join_names([plan.cluster for plan in group], limit=_MAX_NAMES)
    if len(group) == 1:
        return f"{names}: added by this commit" if added else names
    if len(added) == len(group):
        return f"{names}: the same, all added by this commit"
    note = f" ({join_names(added, limit=_MAX_NAMES)} added by this commit)" if added else ""
    return f"{names}: the same{note}"


def fleet_as_json(report: FleetReport) -> dict[str, Any]:
    """Return the report as JSON values.

    `sameAs` names the first cluster with equal changes. Each cluster still has its full plan, so that a program can
    read one cluster without the cluster in `sameAs`.
    """
    same_as = {plan.cluster: group[0].cluster for group in group_clusters(report.clusters) for plan in group[1:]}
    return {
        "source": report.source,
        "head": report.head,
        "at": optional_timestamp(report.at),
        "clusters": [
            {
                "name": plan.cluster,
                "state": str(plan.outcome),
                "added": plan.is_added,
                "message": plan.message,
                "since": optional_timestamp(plan.since),
                "sameAs": same_as.get(plan.cluster, ""),
                "plan": as_json(plan.report) if plan.report else None,
            }
            for plan in report.clusters
        ],
        "problems": [
            {"file": problem.file, "line": problem.line, "path": problem.path, "message": problem.message}
            for problem in report.problems
        ],
        "notes": list(report.notes),
    }
