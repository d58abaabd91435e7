"""Commits that are looked at once, such as heads of pull requests, stay no longer than they are needed: anybody may push them, again and again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitops.errors import RefusedContent
from gitops.source import Mirror, ReadLimits, SourceTarget, Tip
from tests.support.git.repository import WorkTree

SIZE = 100_000
"""Bytes of each head, which no compression makes smaller."""


@pytest.fixture
def mirror(work: WorkTree, cache: Path) -> Mirror:
    """At `main`; its copy may have the room of six heads."""
    work.commit(a="1")
    mirror = Mirror(SourceTarget(work.path.as_uri()), cache, limits=ReadLimits(max_repository_bytes=6 * SIZE))
    mirror.fetch()
    return mirror


def pushed(work: WorkTree, number: int, *, size: int = SIZE, files: int = 1) -> Tip:
    """A head that has nothing in common with the one before. Many files come as a pack, few as single objects."""
    for file in range(files):
        work.write(f"heads/{number}/{file}.yaml", os.urandom(size // files))
    work.git("add", "--all")
    commit = work.git("commit-tree", work.git("write-tree", f"--prefix=heads/{number}/"), "-m", "head")
    work.git("update-ref", f"refs/pull/{number}/head", commit)
    return Tip(f"refs/pull/{number}/head", commit)


def taken(cache: Path) -> int:
    """Bytes of the copy."""
    return sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())


def test_a_head_that_is_pushed_over_again_and_again_fills_nothing(work: WorkTree, mirror: Mirror, cache: Path) -> None:
    """Freed once the copy takes half of its room, and not only where there is none left."""
    main, tips = mirror.find_tip().commit, list[Tip]()
    for _ in range(8):
        tips.append(pushed(work, 1))
        assert mirror.fetch(tips[-1], temporary=True) == tips[-1].commit
        assert len(mirror.read_snapshot(tips[-1].commit).files) == 1
        assert sum(mirror.has_commit(tip.commit) for tip in tips) <= 3
        assert taken(cache) < 4 * SIZE
    assert mirror.has_commit(main)


def test_what_is_given_back_is_freed_once_the_copy_is_large(work: WorkTree, mirror: Mirror, cache: Path) -> None:
    tips = [pushed(work, number) for number in range(1, 6)]
    for tip in tips:
        mirror.fetch(tip, temporary=True)
    mirror.release_temporary([tip.name for tip in tips])
    assert all(mirror.has_commit(tip.commit) for tip in tips)
    mirror.release_temporary([tips[4].name])
    assert [mirror.has_commit(tip.commit) for tip in tips] == [False] * 4 + [True]
    assert taken(cache) < 3 * SIZE
    mirror.release_temporary([])
    assert mirror.has_commit(tips[4].commit)  # it is in nobody's way
    assert mirror.fetch(tips[4], temporary=True) == tips[4].commit


def test_where_there_is_no_room_what_was_lent_makes_it(work: WorkTree, mirror: Mirror) -> None:
    """Whatever is open: the next head, and the target itself, can be fetched all the same. One that alone is too large is refused, and takes nothing
    from the target.
    """
    main = mirror.find_tip().commit
    first, second = (pushed(work, number, size=4 * SIZE, files=120) for number in (1, 2))
    mirror.fetch(first, temporary=True)
    assert mirror.fetch(second, temporary=True) == second.commit
    assert not mirror.has_commit(first.commit)
    with pytest.raises(RefusedContent, match="is larger than"):
        mirror.fetch(pushed(work, 3, size=8 * SIZE, files=120), temporary=True)
    assert mirror.has_commit(main)
    assert mirror.fetch() == main


def test_what_a_source_followed_is_kept(work: WorkTree, mirror: Mirror) -> None:
    """Rewritten history can be compared still, whoever looks at heads beside it in the same copy."""
    old = mirror.find_tip().commit
    new = work.git("commit-tree", work.git("write-tree"), "-m", "rewritten")
    work.git("update-ref", "refs/heads/main", new)
    assert mirror.fetch() == new
    for _ in range(8):
        mirror.fetch(pushed(work, 1), temporary=True)
    mirror.release_temporary([])
    assert mirror.has_commit(old)
    assert not mirror.is_ancestor(old, new)
