"""A directory as it lies, and the local repository around it.

What Git ignores is left out, what is not committed is in. Only regular files are opened, and no symbolic link is
followed below the directory that was named. Nothing of the repository's own configuration is run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gitops.errors import RefusedContent, RevisionNotFound, SourceError
from gitops.source import tree
from gitops.source.git import Git, GitError
from gitops.source.remote import UNSHALLOW
from gitops.source.repository import Repository, blob_id
from gitops.source.snapshot import (
    DEFAULT_LIMITS,
    File,
    ReadLimits,
    SourceProblem,
    SourceSnapshot,
    content_problem,
    size_problem,
)

_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", ".")


def working_tree(path: Path, *, limits: ReadLimits = DEFAULT_LIMITS) -> SourceSnapshot:
    """The manifests below `path`, uncommitted changes included; `path` may be anywhere in a repository, or in none.

    Raises `SourceError` if `path` is a file or lies in a bare repository.
    """
    root = path.resolve()
    if not root.exists():
        return _snapshot("", f"{path} does not exist", path_exists=False)
    if not root.is_dir():
        raise SourceError(str(path), "is not a directory", advice="name the directory that holds the manifests")
    git = Git(root, timeout=limits.local_timeout)
    place = _place(git)
    names = _tracked(git, path, place) if place else None
    listing = tree.judge(_entries(root, _walk(root) if names is None else names), limits)
    if why := tree.excess(listing, limits):
        raise RefusedContent(str(path), why, advice="name a smaller directory")
    files, problems = _read(root, listing, limits, sha256=place is not None and place.is_sha256)
    found = (*listing.problems, *problems)
    if place is None or names is None:
        return _snapshot("", f"directory {root.name or root}, not in Git", files=files, problems=found)
    return _described(LocalRepository(path, limits=limits, place=place), files, found)


class _Place(NamedTuple):
    """What Git says of a directory in a repository: `prefix` is the path to it from the top."""

    is_work_tree: bool
    is_sha256: bool
    prefix: str


class LocalRepository:
    """The commits of the repository that `path` is in; snapshots are of `path` within it. Asks no server. Of its `place` Git need not be asked where
    that is known.

    Raises `SourceError` if `path` is in no repository.
    """

    def __init__(self, path: Path, *, limits: ReadLimits = DEFAULT_LIMITS, place: _Place | None = None) -> None:
        git = Git(path.resolve(), timeout=limits.local_timeout)
        place = place or _place(git)
        if place is None:
            raise SourceError(str(path), "is not in a Git repository")
        self.path = place.prefix
        self._git = git
        self._name = str(path)
        self._repository = Repository(git, self._name, limits=limits)

    def head(self) -> str:
        """The id of the commit that is checked out; empty before the first one."""
        return self._repository.parse("HEAD") or ""

    def resolve(self, rev: str) -> str:
        """The full id of any commit that Git finds by this name. Raises `RevisionNotFound`."""
        commit = self._repository.parse(rev) if rev.isprintable() else None
        if commit is None:
            advice = UNSHALLOW if self._is_shallow() else "check the name, or fetch it"
            raise RevisionNotFound(self._name, f"no branch, tag or commit is called {rev!r}", advice=advice)
        return commit

    def snapshot(self, revision: str, *, at_hand: Iterable[File] = ()) -> SourceSnapshot:
        """The manifests of that commit; see `Repository.snapshot`."""
        return self._repository.snapshot(revision, self.path, at_hand=at_hand)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether the history of `new` contains `old`."""
        return self._repository.is_ancestor(old, new)

    def first_parents(self, old: str, new: str) -> list[str]:
        """See `Repository.first_parents`."""
        return self._repository.first_parents(old, new)

    def fork(self, one: str, other: str) -> str:
        """The last commit that both histories have; empty where there is none. Raises `RefusedContent` where it may be cut off."""
        try:
            return self._git.text("merge-base", one, other).strip()
        except GitError:
            if self._is_shallow():
                raise RefusedContent(self._name, "is a shallow clone, without the history", advice=UNSHALLOW) from None
            return ""

    def _is_shallow(self) -> bool:
        return self._git.text("rev-parse", "--is-shallow-repository").strip() == "true"

    def locations(self) -> frozenset[str]:
        """Where this repository is known to be: its own directory and the URLs of its remotes."""
        top = self._git.text("rev-parse", "--path-format=absolute", "--git-common-dir").strip().removesuffix("/.git")
        try:
            remotes = self._git.text("config", "--get-regexp", r"^remote\..*\.url$").splitlines()
        except GitError:
            remotes = []
        return frozenset({top, *(line.partition(" ")[2] for line in remotes)})

    def blobs(self, revision: str) -> dict[str, str]:
        """Blob id by path of the manifests of that commit."""
        return self._repository.blobs(revision, self.path)


def _place(git: Git) -> _Place | None:
    """None for a directory that is in no repository, or not there."""
    try:
        said = git.run("rev-parse", "--is-inside-work-tree", "--show-object-format", "--show-prefix")
    except (GitError, OSError):
        return None
    inside, objects, prefix = said.decode("utf-8", "replace").split("\n", 2)
    return _Place(inside == "true", objects == "sha256", prefix.removesuffix("\n").strip("/"))


def _tracked(git: Git, path: Path, place: _Place) -> list[bytes] | None:
    """What Git would show of the directory; None if it is ignored as a whole."""
    if not place.is_work_tree:
        raise SourceError(
            str(path), "is a bare repository, without a working tree", advice="name a commit with --revision"
        )
    names = [name for name in git.run(*_LIST).split(b"\0") if name]
    # check-ignore is the one command that refuses to take its arguments literally.
    plain = replace(git, environment={"GIT_LITERAL_PATHSPECS": "0"})
    if not names and plain.succeeds("check-ignore", "--quiet", "--", "."):
        return None
    return names


def _walk(root: Path) -> Iterator[bytes]:
    for directory, children, files in os.walk(os.fsencode(root), onerror=_unreadable):
        children[:] = sorted(child for child in children if not child.startswith(b"."))
        for file in files:
            yield os.path.relpath(os.path.join(directory, file), os.fsencode(root))  # noqa: PTH118 - bytes, which pathlib does not know


def _unreadable(error: OSError) -> None:
    """What cannot be read must not look as if it were empty."""
    why = f"cannot be read ({error.strerror})"
    raise SourceError(os.fsdecode(error.filename), why, advice="check permissions") from None


def _entries(root: Path, names: Iterable[bytes]) -> Iterator[tree.TreeEntry]:
    """What lies there, in the words of a Git tree; what was deleted is left out."""
    top = os.fsencode(root)
    links: dict[bytes, bool] = {b"": False}
    for name in names:
        bare = name.rstrip(b"/")
        if _under_link(top, bare.rpartition(b"/")[0], links):
            yield tree.TreeEntry(b"120000", "", 0, bare)
            continue
        try:
            found = os.lstat(top + b"/" + bare)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield tree.TreeEntry(b"not accessible", "", 0, bare)
            continue
        yield tree.TreeEntry(_mode(found.st_mode), "", found.st_size, bare)


def _under_link(top: bytes, directory: bytes, known: dict[bytes, bool]) -> bool:
    if directory not in known:
        parent = directory.rpartition(b"/")[0]
        known[directory] = _under_link(top, parent, known) or os.path.islink(top + b"/" + directory)  # noqa: PTH114
    return known[directory]


def _mode(mode: int) -> bytes:
    if stat.S_ISREG(mode):
        return b"100644"
    if stat.S_ISLNK(mode):
        return b"120000"
    return b"160000" if stat.S_ISDIR(mode) else b"a pipe, socket or device"


def _read(
    root: Path, listing: tree.Listing, limits: ReadLimits, *, sha256: bool
) -> tuple[dict[str, File], list[SourceProblem]]:
    files: dict[str, File] = {}
    problems: list[SourceProblem] = []
    for name in listing.blobs:
        try:
            data = _contents(f"{root}/{name}", limits.file + 1)
        except OSError as error:
            problems.append(SourceProblem(name, f"cannot be read ({error.strerror})"))
            continue
        if message := size_problem(len(data), limits) or content_problem(data):
            problems.append(SourceProblem(name, message))
        else:
            files[name] = File(blob_id(data, sha256=sha256), data)
    return files, problems


def _contents(file: str, limit: int) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, limit)
        while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _described(
    repository: LocalRepository, files: dict[str, File], problems: tuple[SourceProblem, ...]
) -> SourceSnapshot:
    head = repository.head()
    if not head:
        return _snapshot("", "working tree without a commit", files=files, problems=problems)
    committed = repository.blobs(head)
    present = {name: file.blob for name, file in files.items()}
    refused = {problem.path for problem in problems}
    count = sum(present.get(name) != committed.get(name) for name in (present.keys() | committed.keys()) - refused)
    differ = f", {count} file{'s differ' if count > 1 else ' differs'}" if count else ""
    return replace(
        _snapshot(head, f"working tree of {head[:7]}{differ}", files=files, problems=problems), is_dirty=count > 0
    )


def _snapshot(
    revision: str,
    description: str,
    *,
    files: dict[str, File] | None = None,
    problems: tuple[SourceProblem, ...] = (),
    path_exists: bool = True,
) -> SourceSnapshot:
    return SourceSnapshot(
        revision,
        description,
        MappingProxyType(files or {}),
        tuple(sorted(problems)),
        path_exists=path_exists,
        subject="",
        author="",
        time=None,
    )
