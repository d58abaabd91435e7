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
    """The two commits that a plan compares."""

    head: SourceSnapshot
    base: SourceSnapshot | None
    """Commit where the history of the head leaves the base branch, or None if the plan has no base."""
    tip: str
    """Id of the newest commit of the base branch, or an empty string if `base` is the newest commit."""
    path: str
    """Directory inside the repository."""


def read_location(
    location: str,
    *,
    revision: str = "",
    known_snapshot: SourceSnapshot | None = None,
    tick: Callable[[], None] = lambda: None,
) -> SourceSnapshot:
    """Return the files of a directory on disk. For a `revision` or a URL, return the files of a commit instead.

    Args:
        location: directory, or URL of a repository.
        revision: branch, tag or commit. If `revision` is empty, a URL means the default branch.
        known_snapshot: snapshot whose files a local repository does not read again.
        tick: function to call about twice a second during requests to a server.

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
    """Read the commit `head`. If `base` is not empty, also read the commit where the two histories part.

    If `head` is empty, read the directory on disk instead of a commit.

    Raises: RevisionNotFound, or RefusedContent in a shallow clone that lacks the commit where the two histories part.
    """
    read_head = read_location(location, revision=head, tick=tick)
    path = path_in_repository(location)
    if not base:
        return ComparedCommits(read_head, None, "", path)
    fork_point, tip = _find_fork_point(location, base, head)
    read_base = read_location(location, revision=fork_point, known_snapshot=read_head, tick=tick)
    return ComparedCommits(read_head, read_base, "" if fork_point == tip else tip, path)


def _find_fork_point(location: str, base: str, head: str) -> tuple[str, str]:
    """Return the commit where the history of `head` leaves `base`, and the commit of `base` itself.

    A plan compares `head` with the first commit, because `head` does not contain later commits of `base`. For a URL,
    whose history is not local, both commits are `base`.
    """
    if is_url(location):
        return base, base
    repository = LocalRepository.open(Path(location))
    tip = repository.resolve(base)
    return repository.find_fork_point(tip, repository.resolve(head or "HEAD")) or tip, tip


def is_descendant(location: str, ancestor: str, commit: str) -> bool:
    """Return whether the history of `commit` contains `ancestor`. If the history is not local, return True."""
    repository = _open_local(location) if commit else None
    return repository is None or repository.is_ancestor(ancestor, commit)


def list_identities(location: str) -> tuple[frozenset[str], str]:
    """Return every identity (`target.identity`) of the repository at `location`, and the path inside the repository.

    A source belongs to the repository if its URL has one of the identities.
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
    """Return the repository that contains a directory. For a URL, or outside of a repository, return None."""
    try:
        return None if is_url(location) else LocalRepository.open(Path(location))
    except SourceError:
        return None
