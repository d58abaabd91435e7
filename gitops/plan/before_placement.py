"""Plans in Git alone, for a source that is placed on the clusters of a fleet.

Such a plan sends no request to a cluster. It shows changes before placements, overrides and namespace maps are applied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.plan.report import PlanWarning, Report, WarningKind
from renderer.catalog.catalog import Catalog

BEFORE_PLACEMENT: Final = PlanWarning(
    WarningKind.NOT_COMPARED,
    "the configuration has a fleet, and no cluster was asked: this is what changes in Git, before placements, "
    "overrides and namespace maps; to plan each cluster: levelgate plan PATH --config FILE --cluster all",
)
"""Warning of every plan without a request to a cluster, if the configuration has a fleet."""


def warn_before_placement(report: Report) -> Report:
    """Return the report with the warning that the report leaves out placements.

    An empty report gets the warning too, because a commit may change nothing but placements.
    """
    return replace(report, warnings=(*report.warnings, BEFORE_PLACEMENT))


def strip_placement(catalog: Catalog, fleet_source: str) -> Catalog:
    """Return the catalog without its clusters and placements, with their problems added.

    `fleet_source` is the name of the source that may declare clusters.
    """
    problems = read_fleet_objects(catalog, {}, fleet_source=fleet_source).problems
    return replace(catalog, destinations=(), problems=tuple(sorted({*catalog.problems, *problems})))
