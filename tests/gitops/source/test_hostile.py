"""Content made to do harm: it is refused by name, the rest is read, and nothing of it ever runs."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.source import Mirror, ReadLimits, SourceSnapshot, SourceTarget
from gitops.source.tree import TreeEntry, judge, name_problem
from tests.support.git.repository import WorkTree

FILE, LINK, MODULE, DIRECTORY = "100644", "120000", "160000", "40000"


def read(work: WorkTree, cache: Path, path: str = "", *, limits: ReadLimits = ReadLimits()) -> SourceSnapshot:  # noqa: B008 - a value
    mirror = Mirror(SourceTarget(str(work.path), path=path), cache, limits=limits)
    return mirror.read_snapshot(mirror.fetch())


def refused(snapshot: SourceSnapshot) -> dict[str, str]:
    return {problem.path: problem.message.partition(";")[0] for problem in snapshot.problems}


def test_links_and_submodules(work: WorkTree, cache: Path) -> None:
    good, link = work.blob(b"good"), work.blob(b"/etc/passwd")
    commit = work.commit()
    work.commit_tree(
        work.tree(
            (FILE, "blob", good, b"good.yaml"),
            (LINK, "blob", link, b"link"),
            (LINK, "blob", link, b"link.yaml"),
            (MODULE, "commit", commit, b"module"),
        )
    )
    snapshot = read(work, cache)
    assert list(snapshot.files) == ["good.yaml"]
    assert refused(snapshot) == {"link.yaml": "is a symbolic link", "module": "is a submodule"}


@pytest.mark.parametrize("name", [b"..", b".", b".git", b".GIT"])
def test_directories_that_climb_out(work: WorkTree, cache: Path, tmp_path: Path, name: bytes) -> None:
    good, evil = work.blob(b"good"), work.blob(b"evil")
    inner = work.tree((FILE, "blob", evil, b"x.yaml"))
    work.commit_tree(work.tree((DIRECTORY, "tree", inner, name), (FILE, "blob", good, b"good.yaml")))
    snapshot = read(work, cache)
    assert list(snapshot.files) == ["good.yaml"]
    assert set(refused(snapshot).values()) <= {"the path leaves the directory"}
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (b"../x.yaml", "the path leaves the directory"),
        (b"a/../../x.yaml", "the path leaves the directory"),
        (b"a//x.yaml", "the path leaves the directory"),
        (b"a\\x.yaml", "the name holds a control character or a backslash"),
        (b"\x1b[2J.yaml", "the name holds a control character or a backslash"),
        (b"a\nb.yaml", "the name holds a control character or a backslash"),
        (b"\xff.yaml", "the name is not UTF-8"),
    ],
)
def test_crafted_names(work: WorkTree, cache: Path, name: bytes, why: str) -> None:
    good, evil = work.blob(b"good"), work.blob(b"evil")
    work.commit_tree(
        work.tree(*sorted([(FILE, "blob", evil, name), (FILE, "blob", good, b"zz.yaml")], key=itemgetter(3)))
    )
    snapshot = read(work, cache)
    assert list(snapshot.files) == ["zz.yaml"]
    assert list(refused(snapshot).values()) == [why]
    assert all(problem.path.isprintable() for problem in snapshot.problems)


def test_names_that_differ_in_case_only(work: WorkTree, cache: Path) -> None:
    for name in ("app.yaml", "App.yaml", "stra\u00dfe.yaml", "STRASSE.yaml", "other.yaml"):
        work.write(name, "x")
    work.commit()
    snapshot = read(work, cache)
    assert list(snapshot.files) == ["other.yaml"]
    assert refused(snapshot)["App.yaml"] == "differs only in case from app.yaml"
    assert len(snapshot.problems) == 4


def test_sizes_are_judged_before_reading(work: WorkTree, cache: Path) -> None:
    work.write("large.yaml", "x" * 1001)
    work.write("fits.yaml", "x" * 1000)
    work.write("large.bin", "x" * 100_000)
    work.commit()
    snapshot = read(work, cache, limits=ReadLimits(max_file_bytes=1000, max_total_bytes=1000))
    assert list(snapshot.files) == ["fits.yaml"]
    assert refused(snapshot) == {"large.yaml": "has 1001 bytes, but the limit is 1000"}


def test_pointers_of_large_file_storage(work: WorkTree, cache: Path) -> None:
    work.write("a.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    work.commit(b="x")
    snapshot = read(work, cache)
    assert list(snapshot.files) == ["b.yaml"]
    assert refused(snapshot) == {"a.yaml": "is a Git LFS pointer, not the content"}


def test_nothing_in_a_repository_is_run(work: WorkTree, cache: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    script = f"#!/bin/sh\ntouch {canary}\n"
    for hook in (
        "post-checkout",
        "reference-transaction",
        "post-update",
        "update",
        "pre-receive",
        "fsmonitor-watchman",
    ):
        work.write(f".git/hooks/{hook}", script)
        (work.path / ".git/hooks" / hook).chmod(0o755)
    work.write(".gitattributes", "* filter=evil diff=evil\n")
    work.write(".lfsconfig", f"[lfs]\n\turl = ssh://-oProxyCommand=touch${{IFS}}{canary}/x\n")
    work.write(
        ".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% {canary}\n\tupdate = !touch {canary}\n'
    )
    commit = work.commit(a="x")
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "core.fsmonitor",
        "uploadpack.packObjectsHook",
        "diff.evil.textconv",
    ):
        work.git("config", name, f"touch {canary}")
    canary.unlink(missing_ok=True)

    snapshot = read(work, cache)

    assert snapshot.revision == commit
    assert list(snapshot.files) == ["a.yaml"]
    assert not canary.exists()


def test_the_path_of_a_source_is_a_link_or_a_file(work: WorkTree, cache: Path) -> None:
    target, file = work.blob(b"/etc"), work.blob(b"x")
    work.commit_tree(work.tree((FILE, "blob", file, b"file"), (LINK, "blob", target, b"prod")))
    for path in ("prod", "file"):
        snapshot = read(work, cache, path)
        assert (snapshot.files, snapshot.path_exists) == ({}, False)
        assert list(refused(snapshot).values()) == ["the path of this source is not a directory"]


def test_a_prefix_of_the_path_is_not_the_path(work: WorkTree, cache: Path) -> None:
    work.write("prod/a.yaml", "1")
    work.write("prod-eu/b.yaml", "2")
    work.write("pro*/c.yaml", "3")
    work.commit()
    assert list(read(work, cache, "prod").files) == ["a.yaml"]
    assert list(read(work, cache, "pro*").files) == ["c.yaml"]


def test_repositories_that_break_the_rules_of_git(work: WorkTree, cache: Path) -> None:
    blob = work.blob(b"x")
    work.commit_tree(work.tree((FILE, "blob", blob, b"z.yaml"), (FILE, "blob", blob, b"a.yaml")))
    with pytest.raises(Exception, match="breaks Git's rules"):
        read(work, cache)


names = st.binary(min_size=1, max_size=12).map(lambda name: name.replace(b"\0", b"/") + b".yaml")


@given(
    st.lists(
        st.tuples(st.sampled_from([b"100644", b"100755", b"120000", b"160000", b"40000"]), st.integers(0, 2000), names)
    )
)
def test_every_entry_is_read_refused_or_hidden(entries: list[tuple[bytes, int, bytes]]) -> None:
    listing = judge(
        (TreeEntry(mode, "id", size, name) for mode, size, name in entries), ReadLimits(max_file_bytes=1000)
    )
    for path, (_, size) in listing.blobs.items():
        assert not name_problem(path.encode())
        assert size <= 1000
        assert not {"..", ".git", ""} & set(path.split("/"))
    folded = [path.casefold() for path in listing.blobs]
    assert len(folded) == len(set(folded))
    assert all(problem.path.isprintable() for problem in listing.problems)
