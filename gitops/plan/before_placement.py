"""Plans of Git alone, for a source that a fleet places on its clusters.

A plan of Git alone sends no request to a cluster. The plan shows the objects as they are in Git, before placements,
overrides and namespace maps change them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.plan.report import PlanWarning, Report, WarningKind
from renderer.catalog.catalog import Catalog

BEFORE_PLACEMENT: Final = PlanWarning(
    WarningKind.NOT_COMPARED,
    "the plan reads no cluster of the fleet, and shows the objects as they are in Git, before placements, overrides "
    "and namespace maps change them; to plan each cluster, run levelgate plan PATH --config FILE --cluster all",
)
"""Warning of a plan that sends no request to a cluster, although the configuration has a fleet."""


def warn_before_placement(report: Report) -> Report:
    """Return the report with the warning that the report leaves out placements.

    An empty report gets the warning too, because a commit may change nothing but placements.
    """
    return replace(report, warnings=(*report.warnings, BEFORE_PLACEMENT))


def strip_placement(catalog: Catalog, fleet_source: str) -> Catalog:
    """Return the catalog without clusters and placements, but with their problems.

    Args:
        fleet_source: name of the source that may declare clusters.
    """
    problems = read_fleet_objects(catalog, {}, fleet_source=fleet_source).problems
    return replace(catalog, destinations=(), problems=tuple(sorted({*catalog.problems, *problems})))
