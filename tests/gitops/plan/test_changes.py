"""Changes of one prospect: what counts as a difference, what is refused, and what waits for a turn."""

from __future__ import annotations

from typing import Any

from applier.causes import Cause, Reason
from applier.errors import Invalid
from gitops.plan.changes import ChangeCollector
from gitops.plan.comparison_base import ComparisonBase
from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlannedAction
from gitops.reconcile.preview import Preview
from renderer.identity import ObjectKey
from tests.support.git.commits import previewed
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

A = ObjectKey("", "ConfigMap", "default", "a")
BASE, HEAD = {"a.json": plain("a"), "b.json": plain("b")}, {"a.json": plain("a", text="two"), "b.json": plain("b")}


def collector(prospects: Preview, **options: Any) -> ChangeCollector:
    shared = {"masks": SecretMasks(), "neighbours": ForeignSources({}, {}, ()), "comparison": ComparisonBase()}
    return ChangeCollector(
        prospects.due, **{**shared, "barriers": {}, "files": (), "deletions": {}, "refused": {}, **options}
    )


def test_objects_without_a_change_are_counted() -> None:
    found = collector(previewed(BASE, HEAD))
    (change,) = found.collect()
    assert (change.action, change.key, found.unchanged) == (PlannedAction.UPDATE, A, 1)
    assert [field_diff.path for field_diff in change.diff] == ["data.text"]


def test_unknown_data_is_no_difference() -> None:
    found = collector(previewed(BASE, HEAD), hidden={A})
    assert (found.collect(), found.unchanged) == ((), 2)


def test_what_the_commits_schemas_refuse_has_failed() -> None:
    (change,) = collector(previewed(BASE, HEAD), refused={A: Invalid("spec.size: is missing")}).collect()
    assert change.action is PlannedAction.FAILED
    assert "spec.size: is missing" in change.message


def test_an_object_before_its_turn_has_that_as_its_obstacle() -> None:
    turn = Cause(Reason.WAVE_NOT_REACHED, "wave prod has not begun")
    (change,) = collector(previewed(BASE, HEAD), turn=lambda _, key: turn if key == A else None).collect()
    assert [obstacle.reason for obstacle in change.obstacles] == [Reason.WAVE_NOT_REACHED]


def test_an_instance_that_is_only_healed_has_no_other_change() -> None:
    link = definition("Link", [config_map("n")])
    base, head = ({"link.json": link, "x.json": instance("Link", "x", text=text)} for text in ("one", "two"))
    x = ObjectKey(GROUP, "Link", "default", "x")
    changes = collector(previewed(base, head), frozen={x}).collect()
    assert [change.key for change in changes if change.node] == []
    assert [change.key.name for change in collector(previewed(base, head)).collect() if change.key]


def test_an_instance_comes_before_its_nodes_when_written_and_after_them_when_deleted() -> None:
    files = {"link.json": definition("Link", [config_map("n")]), "x.json": instance("Link", "x")}
    rest = {"link.json": files["link.json"]}
    created = [change.ref.rpartition("/")[2] for change in collector(previewed(rest, files)).collect()]
    deleted = [change.ref.rpartition("/")[2] for change in collector(previewed(files, rest)).collect()]
    assert (created, deleted) == (["x", "x-n"], ["x-n", "x"])
