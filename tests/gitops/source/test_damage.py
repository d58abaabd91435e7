"""A cache that was killed, cut, flipped or filled up: it is replaced by itself, and never read from as it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops.errors import CacheUnavailable, DamagedCache, Stopped
from gitops.source import BranchRef, Mirror, ReadLimits, SourceTarget, make_stop_tick
from gitops.source.cache_directory import hold_lock
from gitops.source.git import Git
from tests.support.git.damage import DAMAGES, flip_a_byte, packs, repository
from tests.support.git.repository import WorkTree

FILES = {f"file{number}": f"kind: X\nnumber: {number}\n" * 20 for number in range(120)}


@pytest.fixture
def mirror(work: WorkTree, cache: Path) -> Mirror:
    work.commit(**FILES)
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    mirror.fetch()
    return mirror


@pytest.mark.parametrize("damage", DAMAGES)
def test_reading_repairs(work: WorkTree, cache: Path, mirror: Mirror, damage: Callable[[Path], None]) -> None:
    commit = work.git("rev-parse", "HEAD")
    damage(cache)
    fresh = Mirror(mirror.target, cache)
    assert fresh.fetch() == commit
    found = fresh.read_snapshot(commit)
    assert {path: file.data.decode() for path, file in found.files.items()} == {
        f"{name}.yaml": text for name, text in FILES.items()
    }


def test_what_is_not_whole_never_becomes_current(work: WorkTree, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git looks through what it fetched, not through folders that it had: what is missing there is found before the new commit counts."""
    work.commit(**{"deep/one": "kind: X\n", "two": "kind: X\n"})
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    before = mirror.fetch()
    git = Git(cache, git_dir=repository(cache), timeout=60.0)
    (pack,) = packs(cache)
    pack.rename(moved := cache / "moved.pack")
    with moved.open("rb") as content:
        subprocess.run(("git", "--git-dir", repository(cache), "unpack-objects", "-q"), stdin=content, check=True)
    blob = git.run("rev-parse", f"{before}:deep/one.yaml").decode().strip()
    (repository(cache) / "objects" / blob[:2] / blob[2:]).unlink()

    def away(*_: object) -> None:
        raise DamagedCache("platform", "the server is away by now")

    monkeypatch.setattr("gitops.source.local_copy.LocalCopy._replace", away)
    work.commit(two="kind: Y\n")
    with pytest.raises(DamagedCache):
        mirror.fetch()
    assert git.run("for-each-ref", "--format=%(objectname)", "refs/levelgate/current/").decode().split() == [before]


@pytest.mark.parametrize("damage", DAMAGES)
def test_fetching_repairs(work: WorkTree, cache: Path, mirror: Mirror, damage: Callable[[Path], None]) -> None:
    damage(cache)
    commit = work.commit(file7="new")
    assert mirror.fetch() == commit
    found = mirror.read_snapshot(commit)
    assert found.files["file7.yaml"].data == b"new"
    assert len(found.files) == len(FILES)
    assert not list(cache.rglob("*.lock"))


def test_no_server_no_repair(work: WorkTree, cache: Path, mirror: Mirror) -> None:
    commit = work.git("rev-parse", "HEAD")
    flip_a_byte(cache)
    before = [file.read_bytes() for file in packs(cache)]
    work.path.rename(work.path.with_name("away"))
    with pytest.raises(DamagedCache, match="is damaged, and a new fetch failed"):
        Mirror(mirror.target, cache).read_snapshot(commit)
    assert [file.read_bytes() for file in packs(cache)] == before, "there is nothing better yet"
    work.path.with_name("away").rename(work.path)
    assert len(Mirror(mirror.target, cache).read_snapshot(commit).files) == len(FILES)


@pytest.fixture
def loose(work: WorkTree, cache: Path) -> tuple[Mirror, str, Path]:
    """A mirror whose objects are single files, as after a tidying up; its commit; and the file of one blob."""
    commit = work.commit(a="apiVersion: 1", b="2")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    mirror.fetch()
    for pack in packs(cache):
        data = pack.read_bytes()
        for file in (pack, pack.with_suffix(".idx")):
            file.unlink()
        WorkTree(repository(cache)).git("unpack-objects", "-q", stdin=data)
    blob = work.git("rev-parse", "HEAD:a.yaml")
    file = repository(cache) / "objects" / blob[:2] / blob[2:]
    file.chmod(0o600)
    return mirror, commit, file


def test_a_blob_that_is_gone(loose: tuple[Mirror, str, Path]) -> None:
    mirror, commit, file = loose
    assert mirror.has_commit(commit)
    file.unlink()
    assert not mirror.has_commit(commit)
    assert mirror.fetch() == commit
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"apiVersion: 1"


def test_a_blob_with_other_bytes(loose: tuple[Mirror, str, Path]) -> None:
    """Compressed well, with a good header: only hashing tells."""
    mirror, commit, file = loose
    file.write_bytes(zlib.compress(b"blob 13\0apiVersion: 2"))
    assert mirror.fetch() == commit
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"apiVersion: 1"


def test_the_cache_cannot_be_written(work: WorkTree, tmp_path: Path) -> None:
    work.commit(a="1")
    (tmp_path / "file").touch()
    with pytest.raises(CacheUnavailable, match="check space and permissions"):
        Mirror(SourceTarget(str(work.path)), tmp_path / "file").fetch()


def test_somebody_holds_the_lock(work: WorkTree, cache: Path, mirror: Mirror) -> None:
    lock = next(cache.glob("*/lock"))
    impatient = Mirror(mirror.target, cache, limits=ReadLimits(lock_timeout_seconds=0))
    commit = work.commit(file1="new")
    with hold_lock(lock, shared=True, timeout=0):
        assert len(impatient.read_snapshot(work.git("rev-parse", "HEAD^")).files) == len(FILES)
        with pytest.raises(CacheUnavailable, match="another process holds the cache"):
            impatient.fetch()
        with pytest.raises(Stopped):
            Mirror(mirror.target, cache, tick=make_stop_tick(lambda: True)).fetch()
    assert impatient.fetch() == commit


def killed_at(work: WorkTree, cache: Path, number: int, *, after: bool) -> bool:
    """Whether a process that fetches and reads was killed, before or after it started Git for the time with this number; Git itself goes on."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status)
    try:
        start, started = Git._start, 0

        def counted(*arguments: Any) -> Any:
            nonlocal started
            started += 1
            if started == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            process = start(*arguments)
            if started == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return process

        Git._start = counted  # type: ignore[method-assign, assignment]
        mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
        mirror.read_snapshot(mirror.fetch())
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_command_of_git_nothing_half_done_becomes_current(
    work: WorkTree, cache: Path, mirror: Mirror, *, after: bool
) -> None:
    """Fault table, "SIGKILL between git fetch, verify, render, persist": whoever comes next reads the old commit whole, or the new one."""
    old, points = work.git("rev-parse", "HEAD"), 0
    while True:
        new = work.commit(file7=f"new: {points}")
        points += 1
        if not killed_at(work, cache, points, after=after):
            break
        following = Mirror(mirror.target, cache)
        assert following.has_commit(old)
        assert len(following.read_snapshot(old).files) == len(FILES)
        assert not following.has_commit(new) or len(following.read_snapshot(new).files) == len(FILES)
        assert following.fetch() == new
        assert following.read_snapshot(new).files["file7.yaml"].data == f"new: {points - 1}".encode()
        old = new
    assert points > 4
    assert not list(cache.rglob("*.lock"))


def test_a_disk_without_room(work: WorkTree, tmp_path: Path) -> None:
    """Fault table, "disk full for git cache; read-only; inode exhaustion": told as what it is, nothing is lost, and it recovers by itself."""
    apart = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run((*apart, "true"), capture_output=True, check=False).returncode:
        pytest.skip("nobody may mount here: `unshare --user --mount` is refused")
    work.commit(a="1")
    (tmp_path / "disk").mkdir()
    program = (sys.executable, "-m", "tests.support.git.small_disk", str(work.path), str(tmp_path / "disk"))
    done = subprocess.run(
        (*apart, *program), capture_output=True, check=False, timeout=60, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    for name in ("full", "read-only", "out of inodes"):
        assert said[name].startswith(f"CacheUnavailable {tmp_path}/disk"), said[name]
        assert "room" in said[name] or "check space" in said[name]
    assert (said["readable while full"], said["readable while read-only"], said["left over"]) == (1, 1, [])
    assert said["with room"] == said["with inodes"] == said["new"]
