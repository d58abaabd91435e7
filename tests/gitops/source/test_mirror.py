"""Reading a remote repository: when it is asked, what it costs, what a move of the ref looks like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitops.errors import RefusedContent, RefusedUrl, RevisionNotFound
from gitops.source import (
    BranchRef,
    CommitRef,
    Credentials,
    DefaultBranchRef,
    Mirror,
    ReadLimits,
    SourceTarget,
    TagRef,
    Tip,
    VersionRange,
    VersionRef,
    read_working_tree,
)
from gitops.source.git import Git
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer, asked_from_now_on, give_away


def test_first_fetch_brings_the_files(work: WorkTree, cache: Path) -> None:
    work.write("apps/shop/web.yaml", "kind: Web")
    work.write("apps/values.json", "{}")
    work.write("apps/README.md", "text")
    work.write("apps/.hidden/x.yaml", "kind: X")
    work.write("elsewhere.yaml", "kind: Y")
    commit = work.commit("Add the shop\n\nBody")
    mirror = Mirror(SourceTarget(work.path.as_uri(), BranchRef("main"), "apps"), cache)

    assert mirror.fetch() == commit
    snapshot = mirror.read_snapshot(commit)

    assert list(snapshot.files) == ["shop/web.yaml", "values.json"]
    assert snapshot.files["shop/web.yaml"].data == b"kind: Web"
    assert snapshot.files["shop/web.yaml"].blob == work.git("rev-parse", "HEAD:apps/shop/web.yaml")
    assert (snapshot.subject, snapshot.author) == ("Add the shop", "Ana Example")
    assert snapshot.time == datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert snapshot.path_exists
    assert snapshot.problems == ()


def test_an_unmoved_ref_costs_no_fetch(work: WorkTree, cache: Path, server: GitServer) -> None:
    first = work.commit(a="1")
    mirror = Mirror(SourceTarget(server.url()), cache)
    assert mirror.fetch() == first
    assert server.fetches == 1
    assert [mirror.fetch(), mirror.fetch()] == [first, first]
    assert server.fetches == 1
    second = work.commit(a="2")
    assert mirror.find_tip().commit == second
    assert server.fetches == 1
    assert mirror.fetch() == second
    assert server.fetches == 2


def test_a_tick_is_one_process_of_git_and_a_commit_nine_more(
    work: WorkTree, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs more than what it does. Whether a fetched commit follows the one before is asked once, the daemon's question included."""
    before = work.commit(a="1")
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    mirror.read_snapshot(mirror.fetch())
    commands = list[str]()
    told = Git.run_with_stderr

    def counted(git: Git, *arguments: str, **more: Any) -> tuple[bytes, str]:
        commands.append(next(word for word in arguments if word[0] not in "-g" or word == "gc"))
        return told(git, *arguments, **more)

    monkeypatch.setattr(Git, "run_with_stderr", counted)
    assert mirror.find_tip().commit == before
    assert commands == ["ls-remote"]
    after = work.commit(a="2")
    mirror.fetch(mirror.find_tip())
    assert mirror.is_ancestor(before, after)
    mirror.read_snapshot(after)
    fetched = ["rev-parse", "fetch", "rev-parse", "rev-list", "merge-base", "update-ref", "gc"]
    assert commands == ["ls-remote", "ls-remote", *fetched, "diff-tree", "cat-file"]


def test_the_copy_survives_a_restart(work: WorkTree, cache: Path, server: GitServer) -> None:
    commit = work.commit(a="1")
    Mirror(SourceTarget(server.url()), cache).fetch()
    again = Mirror(SourceTarget(server.url()), cache)
    assert again.fetch() == commit
    assert again.read_snapshot(commit).files["a.yaml"].data == b"1"
    assert server.fetches == 1


def test_sources_with_one_url_share_the_copy(work: WorkTree, cache: Path, server: GitServer) -> None:
    main = work.commit(a="1")
    work.git("branch", "other")
    Mirror(SourceTarget(server.url(), BranchRef("main")), cache).fetch()
    assert Mirror(SourceTarget(server.url(), BranchRef("other")), cache).fetch() == main
    assert len(list(cache.iterdir())) == 1


def test_one_request_tells_where_all_targets_of_a_url_stand(work: WorkTree, cache: Path, server: GitServer) -> None:
    main = work.commit(a="1")
    work.git("tag", "--annotate", "--message", "first", "v1.0.0")
    other = work.commit(a="2")
    refs = (
        BranchRef("main"),
        TagRef("v1.0.0"),
        VersionRef(VersionRange.parse("1.x")),
        CommitRef(main),
        DefaultBranchRef(),
    )
    mirrors = [Mirror(SourceTarget(server.url(), ref), cache) for ref in refs]
    asked = mirrors[0].list_refs(*(name for mirror in mirrors for name in mirror.ref_names))
    requests = len(server.requests)
    assert [mirror.find_tip(asked).commit for mirror in mirrors] == [other, main, main, main, other]
    assert len(server.requests) == requests


def test_one_answer_is_not_for_those_with_other_credentials(work: WorkTree, cache: Path, server: GitServer) -> None:
    """Who may not see a repository learns nothing of it from what somebody else is told."""
    one, other = (Credentials(token_file=cache / name) for name in ("one", "other"))
    target = SourceTarget(server.url(), BranchRef("main"))
    found = [Mirror(target, cache, credentials=given).repository for given in (one, replace(one), other, None)]
    assert (found[0] == found[1], len(set(found))) == (True, 3)


@pytest.mark.parametrize("annotated", [False, True])
def test_a_range_of_versions_follows_the_highest_tag_in_it(work: WorkTree, cache: Path, *, annotated: bool) -> None:
    kind = ("--annotate", "--message", "release") if annotated else ()
    commits = {}
    for tag in ("v1.9.0", "v1.10.0", "v2.0.0", "v1.11.0-rc.1", "nightly"):
        commits[tag] = work.commit(a=tag)
        work.git("tag", *kind, tag)
    mirror = Mirror(SourceTarget(str(work.path), VersionRef(VersionRange.parse(">=1.0.0 <2.0.0"))), cache)
    assert mirror.find_tip() == Tip("refs/tags/v1.10.0", commits["v1.10.0"])
    assert mirror.read_snapshot(mirror.fetch()).files["a.yaml"].data == b"v1.10.0"
    work.git("tag", *kind, "v1.10.1")
    assert mirror.fetch() == commits["nightly"]


def test_a_range_that_no_tag_is_in(work: WorkTree, cache: Path) -> None:
    work.commit(a="1")
    work.git("tag", "v0.9.0")
    with pytest.raises(RevisionNotFound, match=r"no tag has a version in the range \^1"):
        Mirror(SourceTarget(str(work.path), VersionRef(VersionRange.parse("^1"))), cache).find_tip()


def test_only_changed_blobs_are_read_again(work: WorkTree, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = work.commit(a="1", b="2")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    mirror.fetch()
    before = mirror.read_snapshot(first)
    work.commit(b="3")
    second = mirror.fetch()
    asked = asked_from_now_on(monkeypatch)
    after = mirror.read_snapshot(second)
    assert after.files["a.yaml"] is before.files["a.yaml"]
    assert asked.given == [second, after.files["b.yaml"].blob]


@pytest.mark.parametrize(
    ("change", "is_listed"),
    [
        (lambda work: work.write("d/a.yaml", "2"), False),
        (lambda work: (work.write("d/a.yaml", "2"), work.write("d/README", "2"), work.write("e.yaml", "2")), False),
        (lambda work: work.write("d/README", "2"), False),
        (lambda work: work.git("rm", "--quiet", "d/README"), False),
        (lambda work: work.write("d/new.yaml", "1"), True),
        (lambda work: work.write("d/.hidden.yaml", "1"), True),
        (lambda work: work.git("rm", "--quiet", "d/a.yaml"), True),
        (lambda work: work.git("rm", "-r", "--quiet", "d"), True),
        (lambda work: work.git("mv", "d/a.yaml", "d/c.yaml"), True),
        (lambda work: (work.path / "d/a.yaml").chmod(0o755), True),
        (lambda work: ((work.path / "d/a.yaml").unlink(), (work.path / "d/a.yaml").symlink_to("b.yaml")), True),
        (lambda work: work.write("d/a.yaml", "2" * 2_000_000), True),
        (lambda work: work.write("d/a.yaml", "version https://git-lfs.github.com/spec/v1"), True),
        (
            lambda work: (
                (work.path / "d/module").mkdir(),
                work.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},d/module"),
            ),
            True,
        ),
        (lambda work: [work.write(f"d/b{number}.yaml", "2") for number in range(20)], True),
    ],
)
def test_a_commit_read_after_another_is_what_it_is_alone(
    work: WorkTree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[WorkTree], object],
    *,
    is_listed: bool,
) -> None:
    """Only where more differs than the contents of a few manifests the whole tree is listed again."""
    work.write("d/README", "1")
    for name in ("e", "d/a", "d/b", *(f"d/b{number}" for number in range(20))):
        work.write(f"{name}.yaml", "1")
    first = work.commit()
    target = SourceTarget(str(work.path), path="d")
    mirror = Mirror(target, tmp_path / "one")
    assert mirror.fetch() == first
    mirror.read_snapshot(first)
    change(work)
    second = work.commit()
    asked = asked_from_now_on(monkeypatch)
    monkeypatch.setattr("gitops.source.repository._MAX_DIFF_BYTES", 1_000)
    found = mirror.read_snapshot(mirror.fetch())
    assert ("ls-tree" in asked.arguments) is is_listed
    fresh = Mirror(target, tmp_path / "other")
    assert found == fresh.read_snapshot(fresh.fetch())
    assert list(found.files) == sorted(found.files)
    assert found.revision == second
    assert found.since == ("" if is_listed else first)
    before = {name: file for name, file in found.files.items() if name not in found.changed}
    assert is_listed or before.items() <= mirror.read_snapshot(first).files.items()


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_is_read_as_its_commit(work: WorkTree, cache: Path, *, annotated: bool) -> None:
    commit = work.commit(a="1")
    work.git("tag", *(["-a", "-m", "release"] if annotated else []), "v1")
    work.commit(a="2")
    mirror = Mirror(SourceTarget(str(work.path), TagRef("v1")), cache)
    assert mirror.find_tip().commit == commit
    assert mirror.fetch() == commit
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"
    assert mirror.find_tip() == Tip("refs/tags/v1", commit)


def test_a_branch_and_a_tag_of_one_name_are_told_apart(work: WorkTree, cache: Path) -> None:
    tagged = work.commit(a="1")
    work.git("tag", "x")
    work.git("checkout", "--quiet", "-b", "x")
    tip = work.commit(a="2")
    assert Mirror(SourceTarget(str(work.path), TagRef("x")), cache).fetch() == tagged
    assert Mirror(SourceTarget(str(work.path), BranchRef("x")), cache).fetch() == tip


def test_a_commit_is_fetched_once_and_then_never_asked_for(work: WorkTree, cache: Path, server: GitServer) -> None:
    commit = work.commit(a="1")
    work.commit(a="2")
    mirror = Mirror(SourceTarget(server.url(), CommitRef(commit)), cache)
    assert mirror.fetch() == commit
    seen = len(server.requests)
    assert mirror.fetch() == commit
    assert len(server.requests) == seen


def test_a_commit_from_a_server_that_gives_out_refs_only(work: WorkTree, cache: Path, server: GitServer) -> None:
    commit = work.commit(a="1")
    work.commit(a="2")
    server.oldest_protocol = True
    mirror = Mirror(SourceTarget(server.url(), CommitRef(commit)), cache)
    assert mirror.fetch() == commit
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"
    with pytest.raises(RevisionNotFound, match="has no commit 222222222222 on any branch or tag"):
        Mirror(SourceTarget(server.url(), CommitRef("2" * 40)), cache).fetch()


def test_the_default_branch_is_followed_when_it_changes(work: WorkTree, cache: Path) -> None:
    old = work.commit(a="1")
    mirror = Mirror(SourceTarget(str(work.path), DefaultBranchRef()), cache)
    assert mirror.fetch() == old
    work.git("checkout", "--quiet", "-b", "trunk")
    new = work.commit(a="2")
    assert mirror.fetch() == new


def test_branches_that_cannot_exist_together(work: WorkTree, cache: Path) -> None:
    work.commit(a="1")
    work.git("branch", "team")
    Mirror(SourceTarget(str(work.path), BranchRef("team")), cache).fetch()
    work.git("branch", "--delete", "--force", "team")
    work.git("branch", "team/shop")
    assert Mirror(SourceTarget(str(work.path), BranchRef("team/shop")), cache).fetch() == work.git(
        "rev-parse", "team/shop"
    )


def test_a_search_finds_its_way_past_branches_that_are_gone(work: WorkTree, cache: Path) -> None:
    """All branches are fetched for it, and `team` would be in the way of `team/shop`. What was found stays here, on a branch or not."""
    first = work.commit(a="1")
    work.git("checkout", "--quiet", "-b", "team")
    lost = work.commit(a="2")
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    assert mirror.resolve(lost[:9]) == lost
    work.git("checkout", "--quiet", "main")
    work.git("branch", "--delete", "--force", "team")
    work.git("checkout", "--quiet", "-b", "team/shop")
    found = work.commit(a="3")
    assert mirror.resolve(found[:9]) == found
    WorkTree(next(cache.glob("*/repository.git"))).git("gc", "--quiet", "--prune=now")
    assert mirror.find_commit(lost[:9]) == lost
    assert mirror.is_ancestor(first, lost)


def test_a_force_push_is_seen(work: WorkTree, cache: Path) -> None:
    base = work.commit(a="1")
    lost = work.commit(a="2")
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    mirror.fetch()
    work.git("reset", "--quiet", "--hard", base)
    rewritten = work.commit(a="3")
    assert mirror.fetch() == rewritten
    assert mirror.is_ancestor(base, rewritten)
    assert not mirror.is_ancestor(lost, rewritten)
    assert mirror.read_snapshot(lost).files["a.yaml"].data == b"2"


def test_a_force_push_is_seen_with_an_empty_cache(work: WorkTree, cache: Path) -> None:
    work.commit(a="1")
    lost = work.commit(a="2")
    work.git("reset", "--quiet", "--hard", "HEAD^")
    new = work.commit(a="3")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    mirror.fetch()
    assert not mirror.is_ancestor(lost, new)
    with pytest.raises(RevisionNotFound):
        mirror.is_ancestor(new, lost)


def test_commits_that_were_current_outlive_the_tidying(
    work: WorkTree, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("-c", "gc.autoPackLimit=1", "-c", "gc.auto=1", "-c", "gc.pruneExpire=now", "-c", "gc.autoDetach=false")
    monkeypatch.setattr("gitops.source.local_copy._GC_COMMAND", (*settings, "gc", "--auto", "--quiet"))
    work.commit(a="1")
    lost = work.commit(a="2")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    mirror.fetch()
    work.git("reset", "--quiet", "--hard", "HEAD^")
    for number in range(3):
        work.commit(a=f"new {number}")
        mirror.fetch()
    fresh = Mirror(mirror.target, cache)
    work.path.rename(work.path.with_name("away"))
    assert fresh.read_snapshot(lost).files["a.yaml"].data == b"2"
    assert len(list(cache.rglob("*.pack"))) == 1


def test_missing_refs_are_named(work: WorkTree, cache: Path) -> None:
    work.commit(a="1")
    with pytest.raises(RevisionNotFound, match="branch nowhere does not exist"):
        Mirror(SourceTarget(str(work.path), BranchRef("nowhere")), cache).fetch()
    with pytest.raises(RevisionNotFound, match="has no commit 1111111"):
        Mirror(SourceTarget(str(work.path), CommitRef("1" * 40)), cache).fetch()


def test_an_empty_repository_has_no_revision(work: WorkTree, cache: Path) -> None:
    with pytest.raises(RevisionNotFound, match="the default branch does not exist"):
        Mirror(SourceTarget(str(work.path)), cache).fetch()


def test_a_deleted_branch_leaves_the_old_snapshot_readable(work: WorkTree, cache: Path) -> None:
    commit = work.commit(a="1")
    work.git("branch", "gone")
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("gone")), cache)
    mirror.fetch()
    work.git("branch", "--delete", "--force", "gone")
    with pytest.raises(RevisionNotFound):
        mirror.fetch()
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"


def test_a_tag_of_something_else_than_a_commit(work: WorkTree, cache: Path) -> None:
    work.commit(a="1")
    work.git("tag", "data", work.blob(b"x"))
    with pytest.raises(RevisionNotFound, match="does not name a commit"):
        Mirror(SourceTarget(str(work.path), TagRef("data")), cache).fetch()


def test_what_people_write_for_a_revision(work: WorkTree, cache: Path) -> None:
    first = work.commit(a="1")
    work.git("tag", "v1")
    second = work.commit(a="2")
    work.git("checkout", "--quiet", "-b", "fix/one")
    third = work.commit(a="3")
    mirror = Mirror(SourceTarget(str(work.path), BranchRef("main")), cache)
    expected = {
        "main": second,
        "HEAD": third,
        "v1": first,
        "refs/tags/v1": first,
        "refs/heads/main": second,
        "fix/one": third,
        "fix/one~2": first,
        "HEAD^": second,
        third: third,
        first[:9]: first,
    }
    assert {rev: mirror.resolve(rev) for rev in expected} == expected
    assert mirror.read_snapshot(mirror.resolve("fix/one")).files["a.yaml"].data == b"3"


@pytest.mark.parametrize("rev", ["nowhere", "deadbeef", "v1~3", "", "~1", "--all", "-n1", "HEAD^{tree}", "main:a.yaml"])
def test_revisions_that_name_no_commit(work: WorkTree, cache: Path, rev: str) -> None:
    work.commit(a="1")
    work.git("tag", "v1")
    with pytest.raises((RevisionNotFound, RefusedUrl)):
        Mirror(SourceTarget(str(work.path)), cache).resolve(rev)


def test_an_emptied_and_a_vanished_path(work: WorkTree, cache: Path) -> None:
    work.write("clusters/prod/a.yaml", "x")
    work.write("clusters/staging/README", "x")
    commit = work.commit()
    at = {
        path: Mirror(SourceTarget(str(work.path), path=path), cache)
        for path in ("clusters/prod", "clusters/staging", "gone", "")
    }
    for mirror in at.values():
        mirror.fetch()
    found = {path: mirror.read_snapshot(commit) for path, mirror in at.items()}
    assert {path: (len(snapshot.files), snapshot.path_exists) for path, snapshot in found.items()} == {
        "clusters/prod": (1, True),
        "clusters/staging": (0, True),
        "gone": (0, False),
        "": (1, True),
    }
    work.git("rm", "-r", "--quiet", ".")
    empty = Mirror(SourceTarget(str(work.path)), cache)
    work.commit("empty")
    snapshot = empty.read_snapshot(empty.fetch())
    assert (snapshot.files, snapshot.path_exists, snapshot.subject) == ({}, True, "empty")


def test_commits_with_odd_headers(work: WorkTree, cache: Path) -> None:
    tree = work.git("hash-object", "-w", "-t", "tree", "--stdin")
    people = "author  <x> 1 +0000\ncommitter A <x> 9999999999 +0000\nencoding idna\n"
    text = f"tree {tree}\n{people}\n\x1b[2J Gr\u00fc\u00dfe\t!\n".encode("latin-1")
    commit = work.git("hash-object", "-w", "-t", "commit", "--stdin", stdin=text)
    work.git("update-ref", "refs/heads/main", commit)
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    snapshot = mirror.read_snapshot(mirror.fetch())
    assert snapshot.subject.isprintable()
    assert "[2J" in snapshot.subject
    assert (snapshot.author, snapshot.time) == ("", datetime(2286, 11, 20, 17, 46, 39, tzinfo=UTC))


def test_five_thousand_files(work: WorkTree, cache: Path) -> None:
    lines = []
    for number in range(5000):
        text = f"kind: ConfigMap\nmetadata: {{name: c{number}}}\n"
        lines.append(f"M 100644 inline d{number % 70}/f{number}.yaml\ndata {len(text)}\n{text}\n")
    stream = f"commit refs/heads/main\ncommitter A <a@x> 0 +0000\ndata 1\nx\n{''.join(lines)}"
    work.git("fast-import", "--quiet", stdin=stream.encode())
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    snapshot = mirror.read_snapshot(mirror.fetch())
    assert len(snapshot.files) == 5000
    assert list(snapshot.files) == sorted(snapshot.files)


def test_sha256_repositories(tmp_path: Path, cache: Path) -> None:
    work = _made(tmp_path / "sha256", "sha256")
    commit = work.commit(a="1")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    assert mirror.fetch() == commit
    assert len(commit) == 64
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"
    assert read_working_tree(work.path).files == mirror.read_snapshot(commit).files


def test_a_short_id_in_a_sha256_repository_with_an_empty_cache(tmp_path: Path, cache: Path) -> None:
    """Before the server was asked nobody knows how it names objects."""
    work = _made(tmp_path / "sha256", "sha256")
    commit = work.commit(a="1")
    mirror = Mirror(SourceTarget(str(work.path)), cache)
    assert mirror.resolve(commit[:9]) == commit
    assert mirror.fetch() == commit


@pytest.mark.parametrize("place", ["path", "http"])
def test_a_repository_that_is_made_anew_with_another_object_format(
    work: WorkTree, cache: Path, server: GitServer, place: str
) -> None:
    old = work.commit(a="1")
    mirror = Mirror(SourceTarget(str(work.path) if place == "path" else server.url()), cache)
    assert mirror.fetch() == old
    shutil.rmtree(work.path)
    new = _made(work.path, "sha256").commit(a="2")
    assert mirror.fetch() == new
    assert mirror.read_snapshot(new).files["a.yaml"].data == b"2"
    assert not mirror.is_ancestor(old, new)


def _made(path: Path, form: str) -> WorkTree:
    path.mkdir()
    work = WorkTree(path)
    work.git("init", "--quiet", "--initial-branch=main", f"--object-format={form}")
    return work


@pytest.mark.parametrize("place", ["path", "http"])
def test_a_clone_without_history_is_told_as_what_it_is(
    work: WorkTree, cache: Path, server: GitServer, place: str, tmp_path: Path
) -> None:
    """Rulings, *Sources*: whether a commit follows the one before cannot be said of it. What a CI job checks out by default is one."""
    work.commit(a="1")
    commit = work.commit(a="2")
    clone = WorkTree(tmp_path / "clone")
    work.git("clone", "--quiet", "--depth=1", f"file://{work.path}", str(clone.path))
    mirror = Mirror(SourceTarget(str(clone.path) if place == "path" else server.url("clone")), cache)
    with pytest.raises(RefusedContent, match=r"is a shallow clone, without the history; run `git fetch --unshallow`"):
        mirror.fetch()
    clone.git("fetch", "--quiet", "--unshallow")
    assert mirror.fetch() == commit


def test_two_processes_at_once(work: WorkTree, cache: Path) -> None:
    commit = work.commit(a="1")
    code = (
        "import sys, pathlib; from gitops.source import Mirror, SourceTarget;"
        "m = Mirror(SourceTarget(sys.argv[1]), pathlib.Path(sys.argv[2])); r = m.fetch(); print(r, len(m.read_snapshot(r).files))"
    )
    running = [
        subprocess.Popen(
            (sys.executable, "-c", code, str(work.path), str(cache)),
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for _ in range(3)
    ]
    assert {process.communicate(timeout=60)[0].strip() for process in running} == {f"{commit} 1"}


def test_limits_of_the_whole_commit(work: WorkTree, cache: Path) -> None:
    commit = work.commit(a="1" * 60, b="2" * 60)

    def refused(limits: ReadLimits) -> str:
        mirror = Mirror(SourceTarget(str(work.path)), cache, limits=limits)
        mirror.fetch()
        with pytest.raises(RefusedContent, match=r"more than|but the limit is") as caught:
            mirror.read_snapshot(commit)
        return caught.value.message

    assert refused(ReadLimits(max_total_bytes=100)) == "holds 120 bytes of manifests, but the limit is 100"
    assert refused(ReadLimits(max_files=1)) == "holds 2 manifests, but the limit is 1"
    assert refused(ReadLimits(max_listing_bytes=50)) == "has a file list of more than 50 bytes"


def test_a_repository_larger_than_its_share_of_the_disk(work: WorkTree, cache: Path) -> None:
    for number in range(150):
        work.write(f"{number}.bin", f"{number}")
    work.commit()
    work.git("repack", "-adq")
    with pytest.raises(RefusedContent, match="is larger than 100 bytes"):
        Mirror(SourceTarget(work.path.as_uri()), cache, limits=ReadLimits(max_repository_bytes=100)).fetch()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user(work: WorkTree, cache: Path) -> None:
    commit = work.commit(a="1")
    give_away(work.path)
    assert Mirror(SourceTarget(work.path.as_uri()), cache).fetch() == commit


def test_a_copied_commit_is_found_by_the_beginning_of_its_id(work: WorkTree, cache: Path) -> None:
    commit = work.commit(a="1")
    mirror = Mirror(SourceTarget(work.path.as_uri(), BranchRef("main")), cache)
    assert mirror.find_copied_commit(commit[:12]) is None
    mirror.fetch()
    assert mirror.find_copied_commit(commit[:12]) == commit
    assert mirror.find_copied_commit("0" * 12) is None
    assert mirror.find_copied_commit("main") is None
