"""Locations that a person names on the command line: a directory inside or outside of a repository, or a URL.

This module imports no code that renders or plans. So a command can read Git while the rest of the program loads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gitops.errors import SourceError
from gitops.source.mirror import Mirror, default_cache
from gitops.source.snapshot import SourceSnapshot
from gitops.source.target import SourceTarget, identity, is_url
from gitops.source.worktree import LocalRepository, read_working_tree


class ComparedCommits(NamedTuple):
    """The two commits that a plan compares.

    `base` is the commit where the history of the head left the base branch, or None without a base. `tip` is the newest
    commit of the base branch. It is empty if the newest commit is `base` itself. `path` is the directory inside the
    repository.
    """

    head: SourceSnapshot
    base: SourceSnapshot | None
    tip: str
    path: str


def read_location(
    location: str,
    *,
    revision: str = "",
    known_snapshot: SourceSnapshot | None = None,
    tick: Callable[[], None] = lambda: None,
) -> SourceSnapshot:
    """Return the files of a directory on disk, or the files of a commit.

    If `revision` is given or `location` is a URL, the files of a commit are returned. In a local repository, files of
    `known_snapshot` are not read again. `tick` is called about twice a second during requests to a server.

    Raises: SourceError.
    """
    if is_url(location):
        mirror = Mirror(SourceTarget(location), default_cache(), tick=tick)
        return mirror.read_snapshot(mirror.resolve(revision) if revision else mirror.fetch())
    path = Path(location)
    if not path.exists():
        raise SourceError(location, "does not exist", advice="name a directory or the URL of a repository")
    if not revision:
        return read_working_tree(path)
    repository = LocalRepository.open(path)
    return repository.read_snapshot(
        repository.resolve(revision), known_files=known_snapshot.files.values() if known_snapshot else ()
    )


def read_comparison(location: str, base: str, head: str, tick: Callable[[], None]) -> ComparedCommits:
    """Read the commit `head`. If `base` is not empty, also read the commit where the histories of both parted.

    If `head` is empty, read the directory on disk instead of a commit.

    Raises: RevisionNotFound, or RefusedContent in a shallow clone that lacks the commit where both histories parted.
    """
    read_head = read_location(location, revision=head, tick=tick)
    path = path_in_repository(location)
    if not base:
        return ComparedCommits(read_head, None, "", path)
    fork_point, tip = _find_fork_point(location, base, head)
    read_base = read_location(location, revision=fork_point, known_snapshot=read_head, tick=tick)
    return ComparedCommits(read_head, read_base, "" if fork_point == tip else tip, path)


def _find_fork_point(location: str, base: str, head: str) -> tuple[str, str]:
    """Return the commit where the history of `head` left `base`, and the commit of `base` itself.

    A plan compares `head` with the first of these commits, because `head` does not contain later commits of `base`. For
    a URL, whose history is not local, both commits are `base`.
    """
    if is_url(location):
        return base, base
    repository = LocalRepository.open(Path(location))
    tip = repository.resolve(base)
    return repository.find_fork_point(tip, repository.resolve(head or "HEAD")) or tip, tip


def is_descendant(location: str, ancestor: str, commit: str) -> bool:
    """Return whether the history of `commit` contains `ancestor`. Return True if the history is not local."""
    repository = _open_local(location) if commit else None
    return repository is None or repository.is_ancestor(ancestor, commit)


def list_identities(location: str) -> tuple[frozenset[str], str]:
    """Return every identity (`target.identity`) of the repository at `location`, and the path inside the repository.

    A source whose URL has one of these identities is in this repository.
    """
    if is_url(location):
        return frozenset({identity(location)}), ""
    repository = _open_local(location)
    return (frozenset(map(identity, repository.list_locations())), repository.path) if repository else (frozenset(), "")


def path_in_repository(location: str) -> str:
    """Return the path of `location` inside its repository, or an empty string for a URL or outside of a repository."""
    repository = _open_local(location)
    return repository.path if repository else ""


def _open_local(location: str) -> LocalRepository | None:
    """Return the repository that contains a directory. Return None for a URL or outside of a repository."""
    try:
        return None if is_url(location) else LocalRepository.open(Path(location))
    except SourceError:
        return None
