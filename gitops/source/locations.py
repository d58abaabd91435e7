"""Places that people name on a command line: a directory in a repository or in none, or the URL of one.

Imports nothing that renders or plans, so that a command can read Git while the rest of the program is imported.
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
    """The `base` is as it was when the head left it, None where none is named; `tip` is the commit to which it has gone on since, empty where it has
    not. `path` is what of their repository they are of.
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
    """What repository commands read: a directory as it lies, one of its commits, or a commit of a URL. Of a commit only those files are read that
    are not in the snapshot `beside` it. `tick` is called now and then while the server of a URL is waited for.
    """
    if is_url(location):
        mirror = Mirror(SourceTarget(location), default_cache(), tick=tick)
        return mirror.read_snapshot(mirror.resolve(revision) if revision else mirror.fetch())
    path = Path(location)
    if not path.exists():
        raise SourceError(location, "does not exist", advice="name a directory or the URL of a repository")
    if not revision:
        return read_working_tree(path)
    repository = LocalRepository(path)
    return repository.read_snapshot(
        repository.resolve(revision), known_files=known_snapshot.files.values() if known_snapshot else ()
    )


def read_comparison(location: str, base: str, head: str, tick: Callable[[], None]) -> ComparedCommits:
    """What a plan reads: the commit `head` (empty: the directory as it lies), and the `base` where one is named.

    Raises `RevisionNotFound`, and `RefusedContent` in a shallow clone without the commit where the two parted.
    """
    read_head = read_location(location, revision=head, tick=tick)
    path = path_in_repository(location)
    if not base:
        return ComparedCommits(read_head, None, "", path)
    fork_point, tip = _find_fork_point(location, base, head)
    read_base = read_location(location, revision=fork_point, known_snapshot=read_head, tick=tick)
    return ComparedCommits(read_head, read_base, "" if fork_point == tip else tip, path)


def _find_fork_point(location: str, base: str, head: str) -> tuple[str, str]:
    """The commit at which the head left the base, since what came to the base later is no change of the head; and the base.

    Twice the base where histories are not at hand, as of a URL.
    """
    if is_url(location):
        return base, base
    repository = LocalRepository(Path(location))
    tip = repository.resolve(base)
    return repository.find_fork_point(tip, repository.resolve(head or "HEAD")) or tip, tip


def is_descendant(location: str, ancestor: str, commit: str) -> bool:
    """Is `before` part of the history of `commit`? Where histories are not at hand nothing speaks against it."""
    repository = _open_local(location) if commit else None
    return repository is None or repository.is_ancestor(ancestor, commit)


def list_identities(location: str) -> tuple[frozenset[str], str]:
    """What the `identity` of a repository may be in the record of a source, and the path inside it that `place` is."""
    if is_url(location):
        return frozenset({identity(location)}), ""
    repository = _open_local(location)
    return (frozenset(map(identity, repository.list_locations())), repository.path) if repository else (frozenset(), "")


def path_in_repository(location: str) -> str:
    """The path inside its repository that `place` is; empty for a URL, and in no repository."""
    repository = _open_local(location)
    return repository.path if repository else ""


def _open_local(location: str) -> LocalRepository | None:
    """The repository that a directory is in; None for a URL, and in no repository."""
    try:
        return None if is_url(location) else LocalRepository(Path(location))
    except SourceError:
        return None
