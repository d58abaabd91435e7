"""A source that a person keeps at one commit, and lets go again (surface 1.2, 5.2; docs/people.md)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gitops.records.pass_history import parse_passes
from gitops.records.source_requests import Pin, pin_of
from renderer import well_known
from tests.support.clock import START
from tests.support.git.platform import GitPlatform, config_maps, rewritten

NAMES = ("one", "two", "three")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[GitPlatform]:
    """Three commits; each adds an object."""
    with GitPlatform(tmp_path) as platform:
        for count in (1, 2, 3):
            platform.commit(config_maps(*NAMES[:count]))
            platform.settle()
        yield platform


def annotate(platform: GitPlatform, **said: str | None) -> None:
    """Annotate the record of the source. The process reads the annotation in one step, and obeys it in the next."""
    platform.put(platform.record_path(), "ada", **said)
    platform.step()
    platform.settle()


def pinned_to_a_side_branch(platform: GitPlatform) -> str:
    """The commit, which no other follows from; `main` is two commits ahead of where it began."""
    platform.work.git("checkout", "--quiet", "-b", "side", "main~2")
    side = platform.commit(config_maps("one", "side"))
    platform.work.git("checkout", "--quiet", "main")
    annotate(platform, pin=side)
    assert platform.listed("configmaps") == ["one", "side"]
    return side


def id_of(platform: GitPlatform, name: str) -> str:
    return platform.work.git("rev-parse", name)


def test_an_older_commit_is_read_instead_of_the_head_also_while_git_is_down(platform: GitPlatform) -> None:
    """surface 5.2: roll back while Git is down. Its own approval, whatever history says."""
    wednesday = id_of(platform, "main~1")
    gone = platform.work.path.rename(platform.work.path.with_name("gone"))
    annotate(platform, pin=wednesday[:9], pin_reason="INC-7")
    assert platform.listed("configmaps") == ["one", "two"]
    record = platform.record()
    assert (record.target, record.state) == (wednesday, "Held")
    assert (record.causes[0]["reason"], record.causes[0]["message"]) == (
        "Held",
        f"pinned to {wednesday[:9]} by ada: INC-7",
    )
    assert [(word.what, word.by) for one in parse_passes(record.passes) for word in one.words] == [("pinned", "ada")]
    gone.rename(platform.work.path)
    annotate(platform, pin=None, pin_reason=None)
    assert platform.listed("configmaps") == ["one", "three", "two"]
    record = platform.record()
    assert (record.target, record.state, record.commit_before_pin) == (id_of(platform, "main"), "Settled", "")


def test_new_commits_wait_while_it_is_pinned_also_after_a_restart(platform: GitPlatform) -> None:
    annotate(platform, pin=id_of(platform, "main~2"))
    platform.commit(config_maps(*NAMES, "four"))
    platform.restart()
    platform.settle()
    assert platform.listed("configmaps") == ["one"]
    annotate(platform, pin=None)
    assert platform.listed("configmaps") == ["four", "one", "three", "two"]


def test_the_head_is_taken_again_from_where_the_pin_began(platform: GitPlatform) -> None:
    """A commit of another branch is no step of the history; that of the ref is compared with the commit before the pin."""
    pinned_to_a_side_branch(platform)
    platform.restart()
    annotate(platform, pin=None)
    assert platform.listed("configmaps") == ["one", "three", "two"]


def test_history_that_was_rewritten_meanwhile_is_held_when_the_pin_ends(platform: GitPlatform) -> None:
    """I8: a pin is no way around the question."""
    before = id_of(platform, "main")
    annotate(platform, pin=before)
    commit = rewritten(platform)
    annotate(platform, pin=None)
    assert platform.listed("configmaps") == ["one", "three", "two"]
    assert platform.record().offered == commit


def test_a_commit_that_does_not_exist_changes_nothing_and_says_so(platform: GitPlatform) -> None:
    annotate(platform, pin="feedfeed", pin_reason="INC-7")
    assert platform.listed("configmaps") == ["one", "three", "two"]
    why = (
        f"{platform.work.path}: pinned to feedfeed by ada: INC-7; no branch, tag or commit is called 'feedfeed'; "
        "pin the source to an existing commit, or run levelgate unpin source/platform"
    )
    assert platform.notices[-1] == f"cannot be read: {why}; the last commit stays in force"
    assert (unreadable := platform.record().unreadable)
    assert unreadable.why == why


def test_a_pin_holds_where_its_commit_cannot_be_had_any_more(platform: GitPlatform) -> None:
    """I8: after a start without a copy, while the server has lost the commit, a pass knows nothing of the source. That does not end the pin."""
    side = pinned_to_a_side_branch(platform)
    platform.work.git("branch", "-D", "side")
    platform.work.git("reflog", "expire", "--expire=now", "--all")
    platform.work.git("gc", "--quiet", "--prune=now")
    shutil.rmtree(platform.cache)
    platform.restart()
    platform.step()
    platform.settle()
    assert platform.listed("configmaps") == ["one", "side"]
    assert f"has no commit {side[:12]}" in platform.notices[-1]
    annotate(platform, pin=None)
    assert platform.listed("configmaps") == ["one", "three", "two"]


def test_a_pin_ends_at_its_time_and_a_time_that_cannot_be_read_ends_nothing() -> None:
    def record(until: str) -> dict[str, object]:
        said = {well_known.PIN: "4E01B7A", well_known.PIN_UNTIL: until, well_known.PIN_BY: "ada"}
        return {"metadata": {"annotations": said}}

    assert pin_of(record("2026-11-20T12:00:01Z"), START) == Pin("4e01b7a", START + timedelta(seconds=1), "", "ada")
    assert pin_of(record("2026-11-20T12:00:00Z"), START) is None
    assert pin_of(record("soon"), START) == Pin("4e01b7a", None, "", "ada")
    assert pin_of(None, START) is None
