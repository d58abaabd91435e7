"""Hints of moved refs, from a real repository and a real observer."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from gitops.daemon.watch import Debounce, RefWatch, _silent_file_system, git_directory, is_ref


def git(path: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(("git", "-C", str(path), *identity, *arguments), check=True, capture_output=True)


class Changes:
    """Counts calls and lets a test wait for the next."""

    def __init__(self) -> None:
        self.count = 0
        self._condition = threading.Condition()

    def __call__(self) -> None:
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def wait(self, count: int) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self.count >= count, timeout=20)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "commit", "--quiet", "--allow-empty", "-m", "first")
    return path


def no_warning(text: str) -> None:
    raise AssertionError(text)


def test_a_commit_is_a_hint(repository: Path) -> None:
    changes = Changes()
    with RefWatch(repository, changes, warn=no_warning):
        git(repository, "commit", "--quiet", "--allow-empty", "-m", "second")
        assert changes.wait(1)
        git(repository, "pack-refs", "--all")
        assert changes.wait(2)


def test_a_push_to_a_bare_repository_is_a_hint(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(repository, "clone", "--quiet", "--bare", ".", str(bare))
    changes = Changes()
    with RefWatch(bare, changes, warn=no_warning):
        git(repository, "push", "--quiet", str(bare), "HEAD:refs/heads/team/new")
        assert changes.wait(1)


def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    warnings: list[str] = []
    with RefWatch(tmp_path / "absent", no_warning_call, warn=warnings.append):
        pass
    assert len(warnings) == 1
    assert "is not watched" in warnings[0]
    assert "still polled" in warnings[0]


def no_warning_call() -> None:
    raise AssertionError


def test_running_out_of_watches_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers.api import BaseObserver

    def full(self: BaseObserver) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(BaseObserver, "start", full)
    warnings: list[str] = []
    with RefWatch(repository, no_warning_call, warn=warnings.append):
        pass
    assert warnings == [f"{repository} is not watched (inotify watch limit reached); it is still polled"]


def test_file_systems_that_report_nothing(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:21 / / rw - ext4 /dev/sda rw\n"
        "23 22 0:5 / /srv/git rw shared:3 - nfs4 server:/git rw\n"
        "24 22 0:6 / /srv/git/local\\040disk rw - xfs x rw\n"
    )
    found = {
        place: _silent_file_system(Path(place), mounts=mounts)
        for place in ("/srv/git/a", "/srv/github", "/srv/git/local disk/a")
    }
    assert found == {"/srv/git/a": "nfs4", "/srv/github": "", "/srv/git/local disk/a": ""}
    assert _silent_file_system(Path("/x"), mounts=tmp_path / "absent") == ""


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


def test_a_burst_is_one_call() -> None:
    changes = Changes()
    debounce = Debounce(changes, trailing=0.5, ceiling=60)  # a loaded machine may interrupt the burst for a while
    debounce.start()
    for _ in range(1000):
        debounce.poke()
    assert changes.wait(1)
    debounce.stop()
    assert changes.count == 1


def test_an_endless_burst_is_reported_by_the_ceiling() -> None:
    changes = Changes()
    debounce = Debounce(changes, trailing=60, ceiling=0.02)
    debounce.start()
    debounce.poke()
    assert changes.wait(1)
    debounce.stop()


def test_what_is_pending_at_the_end_is_dropped() -> None:
    changes = Changes()
    debounce = Debounce(changes, trailing=60, ceiling=60)
    debounce.start()
    debounce.poke()
    debounce.stop()
    assert changes.count == 0


def test_a_failing_listener_goes_on_hearing(caplog: pytest.LogCaptureFixture) -> None:
    changes = Changes()

    def fail() -> None:
        changes()
        raise RuntimeError("busy")

    debounce = Debounce(fail, trailing=0, ceiling=1)
    debounce.start()
    debounce.poke()
    assert changes.wait(1)
    debounce.poke()
    assert changes.wait(2)
    debounce.stop()
    assert "a hint was not taken" in caplog.text


def test_the_first_of_a_burst_is_reported_at_once() -> None:
    """A commit is picked up within 100 ms: it is one move of one ref, and nothing is gained by waiting for more."""
    changes = Changes()
    debounce = Debounce(changes, trailing=60, ceiling=120, leading=True)
    debounce.start()
    debounce.poke()
    assert changes.wait(1)
    debounce.poke()
    debounce.stop()
    assert changes.count == 1


def test_what_follows_the_first_of_a_burst_is_reported_too() -> None:
    changes = Changes()
    debounce = Debounce(changes, trailing=0.02, ceiling=60, leading=True)
    debounce.start()
    for count in (1, 2, 3):
        debounce.poke()
        assert changes.wait(count)
    debounce.stop()
