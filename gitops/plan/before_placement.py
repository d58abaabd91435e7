"""Plans of a source with a fleet that ask no cluster: what changes in Git, before placements, overrides and namespace maps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.plan.report import PlanWarning, Report, WarningKind
from renderer.catalog.catalog import Catalog

BEFORE_PLACEMENT: Final = PlanWarning(
    WarningKind.NOT_COMPARED,
    "the configuration has a fleet, and no cluster was asked: this is what changes in Git, before placements, overrides and "
    "namespace maps; what each cluster gets of it: levelgate plan PATH --config FILE --cluster all",
)
"""Of a plan which knows nothing of clusters."""


def warn_before_placement(report: Report) -> Report:
    """Return the report of a plan between commits with the warning that placements are not in it: a commit may change nothing but these."""
    return replace(report, warnings=(*report.warnings, BEFORE_PLACEMENT))


def strip_placement(catalog: Catalog, fleet_source: str) -> Catalog:
    """Return the catalog without its clusters and placements, which nobody obeys in such a plan; what is wrong with them is among its problems."""
    problems = read_fleet_objects(catalog, {}, fleet_source=fleet_source).problems
    return replace(catalog, destinations=(), problems=tuple(sorted({*catalog.problems, *problems})))
