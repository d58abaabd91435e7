"""A directory as it lies: what is read, what is left out, and how it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitops.errors import DamagedCache, RefusedContent, RevisionNotFound, SourceError
from gitops.source import LocalRepository, ReadLimits, read_working_tree
from tests.support.git.repository import WorkTree
from tests.support.git.server import asked_from_now_on, give_away


def test_uncommitted_files_are_in_and_ignored_ones_are_not(work: WorkTree) -> None:
    commit = work.commit(same="1", changed="1", deleted="1")
    work.write(".gitignore", "*.tmp.yaml\nbuild/\n")
    work.write("changed.yaml", "2")
    work.write("added.yml", "3")
    work.write("x.tmp.yaml", "ignored")
    work.write("build/y.yaml", "ignored")
    work.write(".github/workflows/z.yaml", "hidden")
    work.write(".pre-commit-config.yaml", "hidden")
    (work.path / "deleted.yaml").unlink()
    snapshot = read_working_tree(work.path)
    assert {name: file.data for name, file in snapshot.files.items()} == {
        "added.yml": b"3",
        "changed.yaml": b"2",
        "same.yaml": b"1",
    }
    assert list(snapshot.files) == sorted(snapshot.files)
    assert snapshot.revision == commit
    assert snapshot.description == f"working tree of {commit[:7]}, 3 files differ"
    assert snapshot.files["same.yaml"].blob == work.git("rev-parse", "HEAD:same.yaml")
    assert snapshot.problems == ()


def test_what_the_description_counts(work: WorkTree) -> None:
    assert read_working_tree(work.path).description == "working tree without a commit"
    commit = work.commit(a="1", b="1")
    assert read_working_tree(work.path).description == f"working tree of {commit[:7]}"
    work.write("a.yaml", "2")
    work.write("notes.txt", "2")
    assert read_working_tree(work.path).description == f"working tree of {commit[:7]}, 1 file differs"


def test_a_directory_below_the_top(work: WorkTree) -> None:
    work.write("clusters/prod/a.yaml", "1")
    work.write("other.yaml", "1")
    commit = work.commit()
    work.write("other.yaml", "2")
    snapshot = read_working_tree(work.path / "clusters/prod")
    assert list(snapshot.files) == ["a.yaml"]
    assert snapshot.description == f"working tree of {commit[:7]}"


def test_a_directory_in_no_repository(tmp_path: Path) -> None:
    for name in ("a.yaml", "sub/b.json", ".hidden/c.yaml", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    snapshot = read_working_tree(tmp_path)
    assert list(snapshot.files) == ["a.yaml", "sub/b.json"]
    assert snapshot.revision == ""
    assert snapshot.description == f"directory {tmp_path.name}, not in Git"


def test_an_ignored_directory_named_on_purpose(work: WorkTree) -> None:
    work.write(".gitignore", "build/\n")
    work.commit()
    work.write("build/a.yaml", "1")
    assert list(read_working_tree(work.path / "build").files) == ["a.yaml"]


def test_directories_without_manifests(work: WorkTree, tmp_path: Path) -> None:
    empty = read_working_tree(work.path)
    absent = read_working_tree(tmp_path / "absent")
    assert (empty.files, empty.path_exists) == ({}, True)
    assert (absent.files, absent.path_exists) == ({}, False)


def test_what_cannot_be_read_as_a_directory(work: WorkTree, tmp_path: Path) -> None:
    work.commit(a="1")
    with pytest.raises(SourceError, match="is not a directory"):
        read_working_tree(work.path / "a.yaml")
    work.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    with pytest.raises(SourceError, match=r"is a bare repository.*--revision"):
        read_working_tree(tmp_path / "bare.git")
    with pytest.raises(SourceError, match="is not in a Git repository"):
        LocalRepository.open(tmp_path)


@pytest.mark.parametrize("tracked", [True, False])
def test_links_and_special_files_are_not_followed(work: WorkTree, tmp_path: Path, *, tracked: bool) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.yaml").write_text("secret")
    work.write("real/a.yaml", "1")
    work.write("was/b.yaml", "1")
    work.commit()
    (work.path / "link.yaml").symlink_to(tmp_path / "outside/secret.yaml")
    (work.path / "directory").symlink_to(tmp_path / "outside")
    (work.path / "was/b.yaml").unlink()
    (work.path / "was").rmdir()
    (work.path / "was").symlink_to(work.path / "real")
    (work.path / "was.yaml").symlink_to("nowhere")
    if tracked:
        work.git("add", "--all")
    os.mkfifo(work.path / "pipe.yaml")
    snapshot = read_working_tree(work.path)
    assert list(snapshot.files) == ["real/a.yaml"]
    reasons = {problem.path: problem.message.partition(";")[0] for problem in snapshot.problems}
    assert reasons["link.yaml"] == "is a symbolic link"
    assert not any(b"secret" in file.data for file in snapshot.files.values())


def test_repositories_inside(work: WorkTree) -> None:
    inner = WorkTree(work.path / "inner")
    inner.path.mkdir()
    inner.git("init", "--quiet")
    inner.commit(a="1")
    snapshot = read_working_tree(work.path)
    assert snapshot.files == {}
    assert [problem.path for problem in snapshot.problems] == ["inner"]


def test_sizes_and_pointers(work: WorkTree) -> None:
    work.write("large.yaml", "x" * 101)
    work.write("pointer.yaml", "version https://git-lfs.github.com/spec/v1\n")
    work.write("fits.yaml", "x")
    snapshot = read_working_tree(work.path, limits=ReadLimits(max_file_bytes=100))
    assert list(snapshot.files) == ["fits.yaml"]
    assert [problem.path for problem in snapshot.problems] == ["large.yaml", "pointer.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user(work: WorkTree) -> None:
    work.commit(a="1")
    give_away(work.path)
    assert list(read_working_tree(work.path).files) == ["a.yaml"]


def test_nothing_is_run_and_nothing_is_written(work: WorkTree, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    work.write(".gitattributes", "* filter=evil\n")
    work.commit(a="1")
    for name in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
        work.git("config", name, f"touch {canary}; cat")
    work.write("a.yaml", "2")
    index = (work.path / ".git/index").read_bytes()
    assert read_working_tree(work.path).files["a.yaml"].data == b"2"
    assert not canary.exists()
    assert (work.path / ".git/index").read_bytes() == index


def test_commits_of_the_local_repository(work: WorkTree) -> None:
    work.write("apps/a.yaml", "1")
    first = work.commit("one")
    work.git("tag", "v1")
    work.write("apps/a.yaml", "2")
    second = work.commit("two")
    work.git("update-ref", "refs/remotes/origin/main", first)
    local = LocalRepository.open(work.path / "apps")
    assert local.resolve_head() == second
    assert {local.resolve(rev) for rev in ("v1", "HEAD~1", "origin/main", first[:8])} == {first}
    assert local.read_snapshot(first).files["a.yaml"].data == b"1"
    assert local.read_snapshot(second).subject == "two"
    assert local.is_ancestor(first, second)
    assert not local.is_ancestor(second, first)
    for rev in ("nowhere", "--help", "HEAD~9", "a\0b"):
        with pytest.raises(RevisionNotFound):
            local.resolve(rev)


def test_of_a_commit_only_those_files_are_read_that_are_not_at_hand(
    work: WorkTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal ids mean equal bytes: of what is at hand Git is asked nothing, not even for sizes, which shows where it could not give it."""
    commit = work.commit(same="1", changed="0")
    blob = work.git("rev-parse", "HEAD:same.yaml")
    work.write("changed.yaml", "2")
    head = read_working_tree(work.path)
    (work.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    asked = asked_from_now_on(monkeypatch)
    found = LocalRepository.open(work.path).read_snapshot(commit, known_files=head.files.values())
    assert {name: file.data for name, file in found.files.items()} == {"changed.yaml": b"0", "same.yaml": b"1"}
    words = {*asked.arguments, *asked.given}
    assert found.files["changed.yaml"].blob in words
    assert not {blob, "-l", "--long"} & words
    with pytest.raises(DamagedCache):
        LocalRepository.open(work.path).read_snapshot(commit)


def test_limits_of_the_whole_directory(work: WorkTree) -> None:
    work.commit(a="1", b="2")
    with pytest.raises(RefusedContent, match="holds 2 manifests, but the limit is 1"):
        read_working_tree(work.path, limits=ReadLimits(max_files=1))


def test_without_git(work: WorkTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit(a="1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="git: cannot be started; install Git"):
        read_working_tree(work.path)


def test_importing_costs_no_library() -> None:
    libraries = {"git", "apscheduler", "watchdog"}
    code = f"import sys, gitops.source, gitops.daemon.timers, gitops.daemon.file_watch; print({libraries} & set(sys.modules))"
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "set()"


def test_git_is_run_without_the_rest_of_its_package(work: WorkTree) -> None:
    """It would be four times as much to import, and ask Git for its version. Who asks for it gets it."""
    commit = work.commit(a="1")
    code = (
        "import sys; from pathlib import Path; from gitops.source import LocalRepository; "
        f"print(LocalRepository.open(Path({str(work.path)!r})).resolve_head(), *{{'git.repo', 'git.remote'}} & set(sys.modules)); "
        f"import git; print(git.Repo({str(work.path)!r}).head.commit, git.cmd.Git is git.Git)"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.split() == [commit, commit, "True"], done.stderr


def test_a_checkout_of_a_ci_job_without_the_history_says_what_to_fetch(work: WorkTree, tmp_path: Path) -> None:
    """Else what came to the base since would count as taken back by the head."""
    work.commit(a="1")
    work.git("checkout", "--quiet", "-b", "topic")
    topic = work.commit(b="1")
    work.git("checkout", "--quiet", "main")
    main = work.commit(a="2")
    clone = WorkTree(tmp_path / "clone")
    work.git("clone", "--quiet", "--depth=1", "--branch=topic", f"file://{work.path}", str(clone.path))
    advice = "fetch-depth: 0"
    with pytest.raises(RevisionNotFound, match=advice):
        LocalRepository.open(clone.path).resolve("origin/main")
    clone.git("fetch", "--quiet", "--depth=1", "origin", "main:main")
    with pytest.raises(RefusedContent, match=advice):
        LocalRepository.open(clone.path).find_fork_point(main, topic)
    clone.git("fetch", "--quiet", "--unshallow")
    assert LocalRepository.open(clone.path).find_fork_point(main, topic) == work.git("rev-parse", "main~1")
