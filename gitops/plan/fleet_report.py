"""What a commit would change in each cluster of a fleet. Values only; clusters with equal differences are one block."""

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
"""Clusters that are named in the title of a block; of more, how many there are."""


class PlanOutcome(StrEnum):
    """Whether a cluster was planned, and if not, why."""

    PLANNED = "Planned"
    UNKNOWN = "Unknown"
    PAUSED = "Paused"
    REMOVED = "Removed"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One cluster. `report` is None unless it was planned; `message` says why it was not.

    `since` is from when on the hub has not reached it, None where the hub does not say. `is_added`: the commit declares it for the first time.
    """

    cluster: ClusterName
    outcome: PlanOutcome
    is_added: bool
    report: Report | None = None
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The plans of the clusters that were asked for, in the order of their names, `local` first.

    `problems` are those of the whole source where `local`, whose plan tells them, is not among the clusters. `notes` say what was not looked at.
    """

    source: str
    head: str
    at: datetime
    clusters: tuple[ClusterPlan, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

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
    """Return the plans in order; those with equal differences are together, and each that was not planned is alone."""
    groups: list[list[ClusterPlan]] = []
    for plan in plans:
        alike = (group for group in groups if plan.report and _is_alike(group[0].report, plan.report))
        if found := next(alike, None):
            found.append(plan)
        else:
            groups.append([plan])
    return groups


def _is_alike(first: Report | None, second: Report) -> bool:
    return (
        first is not None and first.hash == second.hash and _without_cluster(first) == _without_cluster(second)
    )  # the hash says at once of most that they differ


def _without_cluster(report: Report) -> Report:
    return replace(report, against="", at=_NO_TIME)


def block_title(group: list[ClusterPlan], since_text: str = "") -> str:
    """Return the line over a block, such as `eu-1, eu-2: the same`; `since_text` is the time of `since` for people."""
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
    """JSON values only. `sameAs` names the first cluster with equal differences; `plan` is as of a single cluster."""
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
