"""Reader of a directory on disk, and of the local repository that contains the directory.

The reader includes uncommitted files, and omits files that Git ignores. The reader opens only regular files, and
follows no symbolic link below the named directory. No command from the repository's own configuration runs.
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
from gitops.source.remote import UNSHALLOW_ADVICE
from gitops.source.repository import Repository, hash_object
from gitops.source.snapshot import (
    DEFAULT_LIMITS,
    File,
    ReadLimits,
    SourceProblem,
    SourceSnapshot,
    content_problem,
    size_problem,
)

_LIST_COMMAND = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", ".")


def read_working_tree(path: Path, *, limits: ReadLimits = DEFAULT_LIMITS) -> SourceSnapshot:
    """Return the manifests below `path`, including uncommitted changes. `path` may be outside of a repository.

    Raises: SourceError if `path` is a file or is in a bare repository; RefusedContent if the files exceed a limit.
    """
    root = path.resolve()
    if not root.exists():
        return _make_snapshot("", f"{path} does not exist", path_exists=False)
    if not root.is_dir():
        raise SourceError(str(path), "is not a directory", advice="name the directory that holds the manifests")
    git = Git(root, timeout=limits.local_timeout_seconds)
    info = _read_directory_info(git)
    names = _list_files(git, path, info) if info else None
    listing = tree.judge(_list_entries(root, _walk(root) if names is None else names), limits)
    if message := tree.describe_excess(listing, limits):
        raise RefusedContent(str(path), message, advice="name a smaller directory")
    files, problems = _read_files(root, listing, limits, sha256=info is not None and info.is_sha256)
    all_problems = (*listing.problems, *problems)
    if info is None or names is None:
        return _make_snapshot("", f"directory {root.name or root}, not in Git", files=files, problems=all_problems)
    return _make_snapshot_of_head(LocalRepository(git, str(path), info.prefix, limits=limits), files, all_problems)


class _DirectoryInfo(NamedTuple):
    """Git's description of a directory."""

    is_work_tree: bool
    is_sha256: bool
    prefix: str
    """Path of the directory from the top of the repository."""


class LocalRepository:
    """Reader of a local repository, which needs no server. Snapshots contain the files below the directory `path`.

    Args:
        name: name of the repository in messages.
        path: directory relative to the top of the repository.
    """

    def __init__(self, git: Git, name: str, path: str, *, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self.path = path
        self._git = git
        self._name = name
        self._repository = Repository(git, name, limits=limits)

    @classmethod
    def open(cls, path: Path) -> LocalRepository:
        """Open the repository that contains the directory `path`. Raises: SourceError outside of a repository."""
        git = Git(path.resolve(), timeout=DEFAULT_LIMITS.local_timeout_seconds)
        info = _read_directory_info(git)
        if info is None:
            raise SourceError(str(path), "is not in a Git repository", advice="name a directory of a clone")
        return cls(git, str(path), info.prefix)

    def resolve_head(self) -> str:
        """Return the id of the checked-out commit, or an empty string before the first commit."""
        return self._repository.parse("HEAD") or ""

    def resolve(self, rev: str) -> str:
        """Return the full id of the commit that `rev` names. Raises: RevisionNotFound."""
        commit = self._repository.parse(rev) if rev.isprintable() else None
        if commit is None:
            advice = UNSHALLOW_ADVICE if self._is_shallow() else "check the name, or fetch the commit"
            raise RevisionNotFound(self._name, f"no branch, tag or commit is called {rev!r}", advice=advice)
        return commit

    def read_snapshot(self, revision: str, *, known_files: Iterable[File] = ()) -> SourceSnapshot:
        """Return the manifests of a commit, as `Repository.read_snapshot` does."""
        return self._repository.read_snapshot(revision, self.path, known_files=known_files)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether the history of `new` contains `old`."""
        return self._repository.is_ancestor(old, new)

    def list_first_parents(self, old: str, new: str) -> list[str]:
        """Return the commits after `old` up to `new`, as `Repository.list_first_parents` does."""
        return self._repository.list_first_parents(old, new)

    def find_fork_point(self, first: str, second: str) -> str:
        """Return the newest common commit of two histories, or an empty string if the histories share no commit.

        Raises: RefusedContent in a shallow clone, because the clone may lack that commit.
        """
        try:
            return self._git.run_text("merge-base", first, second).strip()
        except GitError:
            if self._is_shallow():
                raise RefusedContent(
                    self._name, "is a shallow clone, without the history", advice=UNSHALLOW_ADVICE
                ) from None
            return ""

    def _is_shallow(self) -> bool:
        return self._git.run_text("rev-parse", "--is-shallow-repository").strip() == "true"

    def list_locations(self) -> frozenset[str]:
        """Return the locations of the repository: the directory on disk, and the URLs of the remotes."""
        top = (
            self._git.run_text("rev-parse", "--path-format=absolute", "--git-common-dir").strip().removesuffix("/.git")
        )
        try:
            remotes = self._git.run_text("config", "--get-regexp", r"^remote\..*\.url$").splitlines()
        except GitError:
            remotes = []
        return frozenset({top, *(line.partition(" ")[2] for line in remotes)})

    def list_blobs(self, revision: str) -> dict[str, str]:
        """Return the blob ids by path of the manifests of a commit."""
        return self._repository.list_blobs(revision, self.path)


def _read_directory_info(git: Git) -> _DirectoryInfo | None:
    """Return Git's description of a directory, or None if no repository contains the directory."""
    try:
        output = git.run("rev-parse", "--is-inside-work-tree", "--show-object-format", "--show-prefix")
    except (GitError, OSError):
        return None
    is_inside, object_format, prefix = output.decode("utf-8", "replace").split("\n", 2)
    return _DirectoryInfo(is_inside == "true", object_format == "sha256", prefix.removesuffix("\n").strip("/"))


def _list_files(git: Git, path: Path, info: _DirectoryInfo) -> list[bytes] | None:
    """Return the files of the directory that Git does not ignore, or None if Git ignores the whole directory.

    Raises: SourceError if the repository is bare.
    """
    if not info.is_work_tree:
        raise SourceError(
            str(path), "is a bare repository, without a working tree", advice="name a commit with --revision"
        )
    names = [name for name in git.run(*_LIST_COMMAND).split(b"\0") if name]
    # If a directory is empty, or Git ignores all of it, Git lists no files. `check-ignore` distinguishes both cases.
    # Of the commands here, only `check-ignore` does not accept literal pathspecs.
    literal_git = replace(git, environment={"GIT_LITERAL_PATHSPECS": "0"})
    if not names and literal_git.succeeds("check-ignore", "--quiet", "--", "."):
        return None
    return names


def _walk(root: Path) -> Iterator[bytes]:
    """Yield the files below `root`, a directory outside of Git. Omit files in hidden directories."""
    for directory, children, files in os.walk(os.fsencode(root), onerror=_raise_unreadable):
        children[:] = sorted(child for child in children if not child.startswith(b"."))
        for file in files:
            # pathlib supports only text, but a file name may be any bytes.
            yield os.path.relpath(os.path.join(directory, file), os.fsencode(root))  # noqa: PTH118


def _raise_unreadable(error: OSError) -> None:
    """Raise SourceError for an unreadable directory. Without an error, the directory would look empty."""
    message = f"cannot be read ({error.strerror})"
    raise SourceError(os.fsdecode(error.filename), message, advice="check permissions") from None


def _list_entries(root: Path, names: Iterable[bytes]) -> Iterator[tree.TreeEntry]:
    """Yield the files on disk as entries of a Git tree. Omit deleted files."""
    top = os.fsencode(root)
    links: dict[bytes, bool] = {b"": False}
    for name in names:
        bare = name.rstrip(b"/")
        if _is_under_link(top, bare.rpartition(b"/")[0], links):
            yield tree.TreeEntry(b"120000", "", 0, bare)
            continue
        try:
            status = os.lstat(top + b"/" + bare)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield tree.TreeEntry(b"not accessible", "", 0, bare)
            continue
        yield tree.TreeEntry(_git_mode(status.st_mode), "", status.st_size, bare)


def _is_under_link(top: bytes, directory: bytes, cache: dict[bytes, bool]) -> bool:
    """Return whether a directory below `top`, or one of its parents below `top`, is a symbolic link."""
    if directory not in cache:
        parent = directory.rpartition(b"/")[0]
        cache[directory] = _is_under_link(top, parent, cache) or os.path.islink(top + b"/" + directory)  # noqa: PTH114
    return cache[directory]


def _git_mode(mode: int) -> bytes:
    """Return the mode that Git gives to a file. For a special file, return a description instead of a mode."""
    if stat.S_ISREG(mode):
        return b"100644"
    if stat.S_ISLNK(mode):
        return b"120000"
    return b"160000" if stat.S_ISDIR(mode) else b"a pipe, socket or device"


def _read_files(
    root: Path, listing: tree.Listing, limits: ReadLimits, *, sha256: bool
) -> tuple[dict[str, File], list[SourceProblem]]:
    """Return the manifests by path with their content, and a problem for each rejected manifest."""
    files: dict[str, File] = {}
    problems: list[SourceProblem] = []
    for name in listing.blobs:
        try:
            data = _read_bytes(f"{root}/{name}", limits.max_file_bytes + 1)
        except OSError as error:
            problems.append(SourceProblem(name, f"cannot be read ({error.strerror})"))
            continue
        if message := size_problem(len(data), limits) or content_problem(data):
            problems.append(SourceProblem(name, message))
        else:
            files[name] = File(hash_object(b"blob", data, sha256=sha256), data)
    return files, problems


def _read_bytes(file: str, limit: int) -> bytes:
    """Return at most `limit` bytes of `file`. Follow no link, and open a pipe without blocking."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, limit)
        while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _make_snapshot_of_head(
    repository: LocalRepository, files: dict[str, File], problems: tuple[SourceProblem, ...]
) -> SourceSnapshot:
    """Return the snapshot of a working tree. The description contains the number of files that differ from HEAD."""
    head = repository.resolve_head()
    if not head:
        return _make_snapshot("", "working tree without a commit", files=files, problems=problems)
    committed = repository.list_blobs(head)
    present = {name: file.blob for name, file in files.items()}
    refused = {problem.path for problem in problems}
    count = sum(present.get(name) != committed.get(name) for name in (present.keys() | committed.keys()) - refused)
    difference = f", {count} file{'s differ' if count > 1 else ' differs'}" if count else ""
    return replace(
        _make_snapshot(head, f"working tree of {head[:7]}{difference}", files=files, problems=problems),
        is_dirty=count > 0,
    )


def _make_snapshot(
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
        message="",
        time=None,
    )
