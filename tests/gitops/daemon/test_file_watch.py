"""Hints of moved refs, from a real repository and a real observer."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Coroutine
from pathlib import Path

import pytest

from gitops.daemon.file_watch import (
    CHECK_INTERVAL_SECONDS,
    STABLE_SECONDS,
    Debounce,
    FileWatch,
    RefWatch,
    _silent_file_system_type,
    git_directory,
    is_ref,
)
from tests.support.clock import VirtualLoop
from tests.support.cluster.waiting import until


def git(path: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(("git", "-C", str(path), *identity, *arguments), check=True, capture_output=True)


class Changes:
    """Counter of calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    async def reach(self, count: int) -> None:
        await until(lambda: self.count >= count)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "commit", "--quiet", "--allow-empty", "-m", "first")
    return path


def no_warning(text: str) -> None:
    raise AssertionError(text)


async def test_a_commit_is_a_hint(repository: Path) -> None:
    changes = Changes()
    with RefWatch(repository, changes, warn=no_warning):
        git(repository, "commit", "--quiet", "--allow-empty", "-m", "second")
        await changes.reach(1)
        git(repository, "pack-refs", "--all")
        await changes.reach(2)


async def test_a_push_to_a_bare_repository_is_a_hint(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(repository, "clone", "--quiet", "--bare", ".", str(bare))
    changes = Changes()
    with RefWatch(bare, changes, warn=no_warning):
        git(repository, "push", "--quiet", str(bare), "HEAD:refs/heads/team/new")
        await changes.reach(1)


async def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    warnings: list[str] = []
    with RefWatch(tmp_path / "absent", no_warning_call, warn=warnings.append):
        pass
    assert len(warnings) == 1
    assert "is not watched" in warnings[0]
    assert "still polls" in warnings[0]


def no_warning_call() -> None:
    raise AssertionError


async def test_running_out_of_watches_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers.api import BaseObserver

    def full(self: BaseObserver) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(BaseObserver, "start", full)
    warnings: list[str] = []
    with RefWatch(repository, no_warning_call, warn=warnings.append):
        pass
    assert warnings == [f"{repository} is not watched (inotify watch limit reached); Levelgate still polls it"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_whose_thread_died_is_begun_again(tmp_path: Path) -> None:
    """Nothing was missed unnoticed: beginning again is a hint. A watch that lasts from then on is told to be sound."""
    changes, told, file = Changes(), list[str](), tmp_path / "levelgate.yaml"

    async def play() -> None:
        with FileWatch(file, changes, warn=told.append) as watch:
            for thread in kill(watch, file):
                await asyncio.to_thread(thread.join, 60)
            await asyncio.sleep(2 * CHECK_INTERVAL_SECONDS)
            assert told == [f"{file} is not watched (a thread of the watch has ended); Levelgate still polls it"]
            await asyncio.sleep(1)
            before = changes.count
            assert before >= 1
            file.write_text("changed")
            await until(lambda: is_due(watch))
            await asyncio.sleep(1)
            assert changes.count == before + 1
            await asyncio.sleep(STABLE_SECONDS + CHECK_INTERVAL_SECONDS)
            assert told[1:] == [f"{file} is watched again"]

    in_virtual_time(play())


def kill(watch: FileWatch, file: Path) -> list[threading.Thread]:
    """Let the threads that read from the system fail at the next event, and return them."""

    def fail(_timeout: float) -> None:
        raise RuntimeError("killed by the test")

    emitters = list(watch._observer.emitters)
    for emitter in emitters:
        emitter.queue_events = fail
    file.write_text("to be read by the thread")
    return emitters


def is_due(watch: FileWatch | RefWatch) -> bool:
    """Return True once a change has come from the thread to the loop."""
    return watch._debounce._first_poke is not None


def in_virtual_time(play: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play)


def test_a_directory_that_was_replaced_is_watched_anew(tmp_path: Path) -> None:
    """Renamed away and made again: the system goes on watching the old one, without a word."""
    changes, told, file = Changes(), list[str](), tmp_path / "mount/levelgate.yaml"
    file.parent.mkdir()

    async def play() -> None:
        with FileWatch(file, changes, warn=told.append) as watch:
            file.parent.rename(tmp_path / "old")
            file.parent.mkdir()
            await asyncio.sleep(2 * CHECK_INTERVAL_SECONDS)
            assert told == [f"{file} is not watched (its directory was replaced); Levelgate still polls it"]
            file.write_text("changed")
            await until(lambda: is_due(watch))

    in_virtual_time(play())


def test_a_repository_that_is_made_later_is_watched_from_then_on(tmp_path: Path) -> None:
    """It is looked for ever more rarely, for as long as it takes; why it is not watched is told once."""
    changes, told, path = Changes(), list[str](), tmp_path / "late"

    async def play() -> None:
        with RefWatch(path, changes, warn=told.append) as watch:
            await asyncio.sleep(3600)
            assert watch._failures < 25
            assert told == [f"{path} is not watched ({path} is not a Git repository); Levelgate still polls it"]
            path.mkdir()
            git(path, "init", "--quiet", "--initial-branch=main")
            await asyncio.sleep(300 + STABLE_SECONDS + 300)
            assert (changes.count, told[1:]) == (1, [f"{path} is watched again"])
            git(path, "commit", "--quiet", "--allow-empty", "-m", "first")
            await until(lambda: changes.count > 1 or is_due(watch))

    in_virtual_time(play())


def test_a_watch_that_dies_each_time_is_begun_ever_more_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And why is told once."""
    changes, told, file = Changes(), list[str](), tmp_path / "levelgate.yaml"

    async def play() -> None:
        with FileWatch(file, changes, warn=told.append) as watch:
            monkeypatch.setattr(threading.Thread, "is_alive", lambda _: False)
            await asyncio.sleep(3600)
            monkeypatch.undo()
            assert 15 < watch._failures < 25
            assert len(told) == 1

    in_virtual_time(play())


def test_a_link_that_leads_elsewhere_is_no_fault(tmp_path: Path) -> None:
    """A mounted ConfigMap that changes: the old directory goes, and with it the thread that watched it."""
    changes = Changes()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    link, file = tmp_path / "mount/levelgate.yaml", tmp_path / "new/levelgate.yaml"
    link.parent.mkdir()
    link.symlink_to("../old/levelgate.yaml")

    async def play() -> None:
        with FileWatch(link, changes, warn=no_warning) as watch:
            link.unlink()
            link.symlink_to(file)
            (tmp_path / "old").rmdir()
            await asyncio.sleep(2 * CHECK_INTERVAL_SECONDS)
            before = changes.count
            file.write_text("changed")
            await until(lambda: changes.count > before or is_due(watch))

    in_virtual_time(play())


def test_a_burst_of_changes_is_one_wake_up(tmp_path: Path) -> None:
    """No time passes between the changes, which real files and a real observer tell of."""
    changes, last = Changes(), tmp_path / "last"

    async def play() -> None:
        with FileWatch(tmp_path / "levelgate.yaml", changes, warn=no_warning) as watch:
            seen: list[Path] = []

            def matters(path: Path) -> bool:
                seen.append(path)
                return True

            watch.is_relevant = matters  # type: ignore[method-assign]
            for number in range(200):
                (tmp_path / f"{number}.yaml").write_text("x")
            last.write_text("x")
            await until(lambda: seen.count(last) >= 2)  # created, closed
            assert len(seen) > 400
            await asyncio.sleep(60)
            assert changes.count == 1

    in_virtual_time(play())


def test_file_systems_that_report_nothing(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:21 / / rw - ext4 /dev/sda rw\n"
        "23 22 0:5 / /srv/git rw shared:3 - nfs4 server:/git rw\n"
        "24 22 0:6 / /srv/git/local\\040disk rw - xfs x rw\n"
    )
    found = {
        place: _silent_file_system_type(Path(place), mounts=mounts)
        for place in ("/srv/git/a", "/srv/github", "/srv/git/local disk/a")
    }
    assert found == {"/srv/git/a": "nfs4", "/srv/github": "", "/srv/git/local disk/a": ""}
    assert _silent_file_system_type(Path("/x"), mounts=tmp_path / "absent") == ""


def test_which_files_matter() -> None:
    top = Path("/r/.git")
    yes = ("HEAD", "packed-refs", "refs/heads/main", "refs/heads/a/b", "reftable/tables.list")
    no = ("HEAD.lock", "index", "FETCH_HEAD", "refs/heads/main.lock", "objects/12/34", "logs/HEAD", "../HEAD", "")
    assert [name for name in yes if not is_ref(top / name, top)] == []
    assert [name for name in no if is_ref(Path(f"{top}/{name}"), top) and name != "../HEAD"] == []


def test_linked_work_trees(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    assert git_directory(tmp_path / "linked") == (repository / ".git").resolve()
    assert git_directory(repository / ".git") == (repository / ".git").resolve()


class Bursts:
    """Debounce with the virtual times at which it called."""

    def __init__(self, *, trailing: float, ceiling: float, leading: bool = False) -> None:
        self.loop = VirtualLoop()
        self.calls: list[float] = []
        self.debounce = Debounce(self.loop, self.call, trailing=trailing, ceiling=ceiling, leading=leading)

    def call(self) -> None:
        self.calls.append(round(self.loop.time(), 3))

    def poke_at(self, *times: float) -> list[float]:
        """Return when `action` was called, after pokes at these times and ten quiet minutes."""
        for time in times:
            self.loop.call_at(time, self.debounce.poke)
        self.loop.run_until_complete(asyncio.sleep(600))
        self.loop.close()
        return self.calls


def test_a_burst_is_one_call() -> None:
    assert Bursts(trailing=0.05, ceiling=1).poke_at(*(number / 1000 for number in range(200))) == [0.249]


def test_an_endless_burst_is_reported_by_the_ceiling() -> None:
    assert Bursts(trailing=0.05, ceiling=1).poke_at(*(number / 100 for number in range(250))) == [1.0, 2.01, 2.54]


def test_what_is_pending_at_the_end_is_dropped() -> None:
    bursts = Bursts(trailing=60, ceiling=60)
    bursts.loop.call_at(2, bursts.debounce.stop)
    assert bursts.poke_at(1, 3) == []


def test_a_failing_listener_goes_on_hearing(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Bursts):
        def call(self) -> None:
            super().call()
            raise RuntimeError("busy")

    assert Failing(trailing=1, ceiling=1).poke_at(1, 10) == [2, 11]
    assert "busy" in caplog.text


def test_the_first_of_a_burst_is_reported_at_once() -> None:
    """A commit is picked up within 100 ms: it is one move of one ref, and nothing is gained by waiting for more."""
    assert Bursts(trailing=1, ceiling=5, leading=True).poke_at(1) == [1]


def test_what_follows_the_first_of_a_burst_is_reported_too() -> None:
    assert Bursts(trailing=1, ceiling=5, leading=True).poke_at(1, 1.5, 1.6, 8) == [1, 2.6, 8]
