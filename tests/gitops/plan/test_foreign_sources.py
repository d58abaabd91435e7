"""Records of other sources beside a plan: a warning only where something is deleted that they may want."""

from __future__ import annotations

import pytest

from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.report import PlannedAction, PlannedChange, WarningKind
from renderer.identity import ObjectKey
from tests.support.git.commits import previewed
from tests.support.properties.repositories import plain

A = ObjectKey("", "ConfigMap", "default", "a")


@pytest.mark.parametrize(
    ("action", "incomplete", "count"),
    [
        (PlannedAction.DELETE, ("shop",), 1),
        (PlannedAction.DELETE, (), 0),
        (PlannedAction.UPDATE, ("shop",), 0),
    ],
)
def test_a_full_record_and_a_deletion_are_a_warning(
    action: PlannedAction, incomplete: tuple[str, ...], count: int
) -> None:
    found = ForeignSources({}, {}, incomplete).handover_warnings((PlannedChange(action, A, "ConfigMap"),))
    assert [warning.hazard for warning in found] == [WarningKind.NOT_COMPARED] * count
    assert all("source shop may want objects" in warning.message for warning in found)


def test_a_plan_in_git_knows_no_other_source() -> None:
    assert ForeignSources.from_preview(previewed({}, {"a.json": plain("a")})) == ForeignSources({}, {}, ())
