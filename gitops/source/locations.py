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
from gitops.source.target import SourceTarget, identity, is_url, parse_ref
from gitops.source.worktree import LocalRepository, working_tree


class ComparedCommits(NamedTuple):
    """The `base` is as it was when the head left it, None where none is named; `tip` is the commit to which it has gone on since, empty where it has
    not. `path` is what of their repository they are of.
    """

    head: SourceSnapshot
    base: SourceSnapshot | None
    tip: str
    path: str


def read(
    place: str,
    *,
    revision: str = "",
    ref: str = "",
    beside: SourceSnapshot | None = None,
    tick: Callable[[], None] = lambda: None,
) -> SourceSnapshot:
    """What repository commands read: a directory as it lies, one of its commits, or a commit of a URL. Of a commit only those files are read that
    are not in the snapshot `beside` it. `tick` is called now and then while the server of a URL is waited for.
    """
    if is_url(place):
        mirror = Mirror(SourceTarget(place, parse_ref(ref)), default_cache(), tick=tick)
        return mirror.snapshot(mirror.resolve(revision) if revision else mirror.fetch())
    path = Path(place)
    if not path.exists():
        raise SourceError(place, "does not exist", advice="name a directory or the URL of a repository")
    if not revision:
        return working_tree(path)
    local = LocalRepository(path)
    return local.snapshot(local.resolve(revision), at_hand=beside.files.values() if beside else ())


def compared(place: str, base: str, head: str, tick: Callable[[], None] = lambda: None) -> ComparedCommits:
    """What a plan reads: the commit `head` (empty: the directory as it lies), and the `base` where one is named.

    Raises `RevisionNotFound`, and `RefusedContent` in a shallow clone without the commit where the two parted.
    """
    read_head = read(place, revision=head, tick=tick)
    path = path_within(place)
    if not base:
        return ComparedCommits(read_head, None, "", path)
    left, tip = _fork(place, base, head)
    read_base = read(place, revision=left, beside=read_head, tick=tick)
    return ComparedCommits(read_head, read_base, "" if left == tip else tip, path)


def _fork(place: str, base: str, head: str) -> tuple[str, str]:
    """The commit at which the head left the base, since what came to the base later is no change of the head; and the base.

    Twice the base where histories are not at hand, as of a URL.
    """
    if is_url(place):
        return base, base
    local = LocalRepository(Path(place))
    tip = local.resolve(base)
    return local.fork(tip, local.resolve(head or "HEAD")) or tip, tip


def follows(place: str, before: str, commit: str) -> bool:
    """Is `before` part of the history of `commit`? Where histories are not at hand nothing speaks against it."""
    local = _local(place) if commit else None
    return local is None or local.is_ancestor(before, commit)


def locations(place: str) -> tuple[frozenset[str], str]:
    """What the `identity` of a repository may be in the record of a source, and the path inside it that `place` is."""
    if is_url(place):
        return frozenset({identity(place)}), ""
    local = _local(place)
    return (frozenset(map(identity, local.locations())), local.path) if local else (frozenset(), "")


def path_within(place: str) -> str:
    """The path inside its repository that `place` is; empty for a URL, and in no repository."""
    local = _local(place)
    return local.path if local else ""


def _local(place: str) -> LocalRepository | None:
    """The repository that a directory is in; None for a URL, and in no repository."""
    try:
        return None if is_url(place) else LocalRepository(Path(place))
    except SourceError:
        return None
