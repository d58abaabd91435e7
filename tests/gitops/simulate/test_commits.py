"""Which commits arrive when in a simulation, and under which rules (docs/simulate.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitops.rollouts.source_rules import resolve_rules
from gitops.simulate.commits import CommitSeries, HistoryReader, read_rules
from gitops.simulate.world import open_windows
from tests.support.git.repository import WorkTree
from tests.support.windows.documents import manifest

DENY = {"kind": "Deny", "timeZone": "UTC", "schedule": {"cron": "0 12 * * 5"}, "duration": "60h"}
ALLOW = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1"}, "duration": "2h"}
POLICY = "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: pace}\nspec: {}\n"
FRIDAY = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def history(tmp_path: Path) -> WorkTree:
    """Four commits: the second was made an hour after the first, the third half an hour before it, the fourth at its time."""
    work = WorkTree.create(tmp_path / "platform")
    work.write("freeze.json", manifest("freeze", **DENY))
    work.write("hours.json", manifest("hours", **ALLOW))
    work.write("pace.yaml", POLICY)
    work.git("add", "--all")
    for minutes in (0, 60, 30, 60):
        when = f"{(FRIDAY + timedelta(minutes=minutes)).isoformat()}"
        work.git("-c", "core.abbrev=no", "commit", "--quiet", "--allow-empty", "-m", str(minutes), f"--date={when}")
        work.git("update-ref", "refs/heads/main", _committed_at(work, when))
    return work


def _committed_at(work: WorkTree, when: str) -> str:
    """The same commit with another time of its committer."""
    lines = work.git("cat-file", "commit", "HEAD").split("\n")
    moment = int(datetime.fromisoformat(when).timestamp())
    told = [f"{line.rsplit(' ', 2)[0]} {moment} +0000" if line.startswith("committer ") else line for line in lines]
    return work.git("hash-object", "-t", "commit", "-w", "--stdin", stdin="\n".join([*told, ""]).encode())


def replayed(history: WorkTree, start: datetime | None = None) -> CommitSeries:
    return HistoryReader.open(str(history.path)).read_history("main~3", "main", start)


def test_a_commit_arrives_at_its_committer_s_time_and_never_before_the_one_before_it(history: WorkTree) -> None:
    """Clocks differ; with a start all of them move together."""
    assert [one.at - FRIDAY for one in replayed(history).pushes] == [HOUR, HOUR, HOUR]
    history.git("update-ref", "refs/heads/main", _committed_at(history, (FRIDAY + 3 * HOUR).isoformat()))
    assert [one.at - FRIDAY for one in replayed(history).pushes] == [HOUR, HOUR, 3 * HOUR]
    moved = FRIDAY + timedelta(days=7)
    assert [one.at - moved for one in replayed(history, moved).pushes] == [timedelta(), timedelta(), 2 * HOUR]


def test_under_other_rules_is_also_what_was_there_before(history: WorkTree, tmp_path: Path) -> None:
    """What stood in the base and is none of theirs holds nobody."""
    (tmp_path / "other.json").write_bytes(manifest("other", **ALLOW))
    rules = read_rules(tmp_path / "other.json")
    tested = replayed(history).with_rules(rules)
    assert [tested.base.catalog.rules, *(one.catalog.rules for one in tested.pushes)] == [rules.rules] * 4


def test_what_lies_in_the_working_tree_is_a_commit_of_its_own(history: WorkTree) -> None:
    """What differs from HEAD is a change and no drift, and each state of it another."""
    repository, found = HistoryReader.open(str(history.path)), list[str]()
    for text in ("one", "two", "two"):
        history.write("a.yaml", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {text}}}\n")
        (push,) = repository.read_step("main", "", FRIDAY).pushes
        assert (push.at, "dirty" in push.catalog.commit) == (FRIDAY, False)
        found.append(push.catalog.commit)
    assert found[0] != found[1] == found[2]
    assert history.git("rev-parse", "main") not in found


def test_the_base_is_fully_applied_with_all_windows_open_and_no_policy(history: WorkTree) -> None:
    """The names of windows stay, for the gates that ask for them."""
    catalog = replayed(history).base.catalog
    assert [one.name for one in resolve_rules(catalog, {}).policies] == ["pace"]
    found = resolve_rules(open_windows(catalog), {})
    assert (found.policies, found.problems) == ((), ())
    states = {name: one.timeline.span(FRIDAY + 24 * HOUR).active for name, one in found.windows.items()}
    assert states == {"freeze": False, "hours": True}
