"""Locations that a person names on the command line: a directory, in a repository or not, or the URL of a repository.

This module imports no code that renders or plans, so that a command reads Git while the rest of the program loads.
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

    `base` is the commit where the head left its base, or None without a base. `tip` is the newest commit of the base.
    It is empty if that is `base` itself. `path` is the directory inside the repository.
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
    """Return the files of a directory as it lies, or the files of a commit.

    If `revision` is given or `location` is a URL, the files are those of a commit. In a local repository, files of
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
    """Read the commit `head` and, if `base` is not empty, the commit where both histories parted.

    An empty `head` is the directory as it lies.

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
    """Return the commit where `head` left `base`, and the commit of `base`.

    A plan compares with the first commit, because later commits of the base do not belong to the head. For a URL
    without a local history, both commits are `base`.
    """
    if is_url(location):
        return base, base
    repository = LocalRepository.open(Path(location))
    tip = repository.resolve(base)
    return repository.find_fork_point(tip, repository.resolve(head or "HEAD")) or tip, tip


def is_descendant(location: str, ancestor: str, commit: str) -> bool:
    """Return whether the history of `commit` contains `ancestor`, or True if no local history can tell."""
    repository = _open_local(location) if commit else None
    return repository is None or repository.is_ancestor(ancestor, commit)


def list_identities(location: str) -> tuple[frozenset[str], str]:
    """Return every identity (`target.identity`) of the repository at `location`, and the path of `location` in it.

    If a source has one of these identities, it follows this repository.
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
    """Return the repository that a directory is in, or None for a URL or outside of a repository."""
    try:
        return None if is_url(location) else LocalRepository.open(Path(location))
    except SourceError:
        return None
