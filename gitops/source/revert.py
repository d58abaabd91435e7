"""Taking commits back by a new one, as git-revert(1) does, without a work tree: file by file, in an index of its own.

Nothing but files below one directory is touched. Where somebody has changed a file since, in the lines that are to be taken back, nothing is made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from gitops.errors import GitopsError
from gitops.source.git import Git, GitError
from renderer.frozen import dataclass

_NO_MODE: Final = b"000000"
_FILES: Final = frozenset({b"100644", b"100755"})
_WHO: Final = ("levelgate", "levelgate@localhost")


class RevertError(GitopsError):
    """These commits cannot be taken back; the text says why."""


class Blob(NamedTuple):
    """What a tree has at one path."""

    mode: bytes
    id: str


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """What to take back on top of the commit `onto`: the commits after `settled` up to `halted`, of a merge all that it merged, as far as they change
    `file`; of each what it changed below the directory `path`. `message` is that of the new commit, `at` its time: the same reversal is the same
    commit.
    """

    onto: str
    settled: str
    halted: str
    file: str
    path: str
    message: str
    at: datetime


def commits_of(git: Git, one: RevertRequest) -> list[str]:
    """The commits to take back, the newest first."""
    asked = ("rev-list", "--first-parent", "--end-of-options", one.halted, f"^{one.settled}", "--", one.file)
    return git.text(*asked).split()


def reverted(git: Git, one: RevertRequest) -> str:
    """The new commit, whose parent is `onto`; no ref names it. Raises Irreversible, GitError."""
    before = dict(_tree(git, one.onto, one.path))
    after: dict[bytes, Blob | None] = dict(before)
    for commit in commits_of(git, one):
        for name, old, new in _changes(git, commit, one.path):
            after[name] = _undone(git, name, current=after.get(name), old=old, new=new)
    changed = {name: blob for name, blob in after.items() if blob != before.get(name)}
    if not changed:
        raise RevertError("nothing of it is left to take back")
    _check_places({name for name, blob in after.items() if blob}, {name for name, blob in changed.items() if blob})
    return _commit(git, one, changed)


def _undone(git: Git, name: bytes, *, current: Blob | None, old: Blob | None, new: Blob | None) -> Blob | None:
    """What takes the place of `current` once the step from `old` to `new` is taken back."""
    if current == new:
        return old
    if current == old:
        return current
    if not (current and old and new) or not {current.mode, old.mode, new.mode} <= _FILES:
        raise _conflict(name)
    with tempfile.TemporaryDirectory(prefix="levelgate-") as directory:
        files = [Path(directory, word) for word in ("current", "base", "other")]
        for file, blob in zip(files, (current, new, old), strict=True):
            file.write_bytes(git.run("cat-file", "blob", blob.id))
        try:
            merged = git.run("merge-file", "-p", "--quiet", *map(str, files))
        except GitError:
            raise _conflict(name) from None
    mode = old.mode if current.mode == new.mode else current.mode
    return Blob(mode, git.run("hash-object", "-w", "--stdin", stdin=merged).decode().strip())


def _check_places(names: set[bytes], new: set[bytes]) -> None:
    """Git would make room for a file by taking away what has become of its place since. Raises Irreversible."""
    directories = {parent for name in names for parent in _parents(name)}
    for name in sorted(new):
        if name in directories or any(parent in names for parent in _parents(name)):
            raise RevertError(f"{_shown(name)} cannot come back: its place was taken since")


def _parents(name: bytes) -> Iterator[bytes]:
    return (name[:place] for place, letter in enumerate(name) if letter == ord("/"))


def _commit(git: Git, one: RevertRequest, changed: Mapping[bytes, Blob | None]) -> str:
    nothing = "0" * len(one.onto)
    lines = [
        b"%b %b\t%b\0" % ((blob.mode, blob.id.encode(), name) if blob else (b"0", nothing.encode(), name))
        for name, blob in sorted(changed.items(), key=lambda pair: (pair[1] is not None, pair[0]))
    ]
    with tempfile.TemporaryDirectory(prefix="levelgate-") as directory:
        index = replace(git, environment={**git.environment, "GIT_INDEX_FILE": str(Path(directory, "index"))})
        index.run("read-tree", one.onto)
        index.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
        tree = index.text("write-tree")
    said = {f"GIT_{role}_{what}": word for role in ("AUTHOR", "COMMITTER") for what, word in _signature(one.at)}
    author = replace(git, environment={**git.environment, **said})
    return author.run("commit-tree", tree, "-p", one.onto, stdin=one.message.encode()).decode().strip()


def _signature(at: datetime) -> Iterable[tuple[str, str]]:
    return zip(("NAME", "EMAIL", "DATE"), (*_WHO, f"{int(at.timestamp())} +0000"), strict=True)


def _tree(git: Git, commit: str, path: str) -> Iterator[tuple[bytes, Blob]]:
    """All files below a directory, by their paths from the top."""
    listing = git.run("ls-tree", "-r", "-z", "--full-tree", commit, *_below(path))
    for line in listing.split(b"\0")[:-1]:
        about, _, name = line.partition(b"\t")
        mode, _, blob = about.split(b" ")
        yield name, Blob(mode, blob.decode())


def _changes(git: Git, commit: str, path: str) -> Iterator[tuple[bytes, Blob | None, Blob | None]]:
    """What a commit changed against its first parent: path, before, after. Source of the form: git-diff-tree(1), "Raw output format"."""
    asked = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", f"{commit}^1", commit)
    fields = git.run(*asked, *_below(path)).split(b"\0")[:-1]
    for about, name in zip(fields[::2], fields[1::2], strict=True):
        modes = about.removeprefix(b":").split(b" ")
        yield name, _blob(modes[0], modes[2]), _blob(modes[1], modes[3])


def _blob(mode: bytes, blob: bytes) -> Blob | None:
    return None if mode == _NO_MODE else Blob(mode, blob.decode())


def _below(path: str) -> tuple[str, ...]:
    return ("--", path) if path else ()


def _conflict(name: bytes) -> RevertError:
    return RevertError(f"{_shown(name)} was changed again since, in the same lines")


def _shown(name: bytes) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in name.decode(errors="replace"))
