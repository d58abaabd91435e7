"""Progress of a set, from live objects alone; `tests/gitops/windows` has what windows make of it."""

from __future__ import annotations

from datetime import UTC, datetime

from applier.plan.drain_progress import DrainProgressFinder, find_begun_commit
from renderer import well_known
from tests.support.apply_sets import PAIR, SOURCE, live, observed, parent
from tests.support.reference_plan import index_wanting_sets

TIME = "2026-01-01T12:00:00Z"


def written(name: str, commit: str) -> dict[str, object]:
    obj = live(SOURCE, name)
    obj["metadata"]["managedFields"][0]["time"] = TIME
    obj["metadata"]["annotations"][well_known.COMMIT] = commit
    return obj


def finder(*objects: dict[str, object], commit: str = "c1") -> DrainProgressFinder:
    seen = observed(parent(SOURCE), *objects)
    return DrainProgressFinder(seen, index_wanting_sets(PAIR), {SOURCE.id: SOURCE}, {"platform": commit})


def test_a_set_begins_with_the_first_member_of_its_commit() -> None:
    progress = finder(written("a", "c1"), written("b", "c0")).find_progress(SOURCE)
    assert progress is not None
    assert (progress.level, progress.since) == (0, datetime(2026, 1, 1, 12, tzinfo=UTC))


def test_its_level_is_that_of_the_deepest_member() -> None:
    progress = finder(written("a", "c1"), written("b", "c1")).find_progress(SOURCE)
    assert progress is not None
    assert progress.level == 1


def test_a_member_of_an_earlier_commit_is_no_progress() -> None:
    assert finder(written("a", "c0"), written("b", "c0")).find_progress(SOURCE) is None


def test_only_members_that_differ_name_the_commit_that_began() -> None:
    changed = written("b", "c2")
    changed["data"] = {"text": "other"}
    changed["metadata"]["annotations"][well_known.HASH] = "other"  # type: ignore[index]
    assert find_begun_commit(SOURCE, observed(written("a", "c1"), changed), ()) == "c2"
    assert find_begun_commit(SOURCE, observed(written("a", "c1"), written("b", "c1")), ()) == ""
