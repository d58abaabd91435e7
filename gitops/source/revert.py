"""Commits that revert earlier commits, as git-revert(1) does, but file by file, and in a temporary index.

Only files below the directory `RevertRequest.path` change. If a later commit changes the same lines, the revert fails.
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
_FILE_MODES: Final = frozenset({b"100644", b"100755"})
_IDENTITY: Final = ("levelgate", "levelgate@localhost")


class RevertError(GitopsError):
    """Failure to revert commits, with the reason in its text."""


class Blob(NamedTuple):
    """A file in a tree: its mode and the id of its content."""

    mode: bytes
    id: str


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """The commits to revert, and the commit to make.

    Along first parents, the new commit reverts each commit after `settled` up to `halted` that changes `file`. The new
    commit undoes all changes of a reverted commit below the directory `path`. A merge commit includes all changes that
    it merges. Equal requests yield the same commit id, because time and author are fixed.
    """

    onto: str
    """Id of the parent of the new commit."""
    settled: str
    halted: str
    file: str
    path: str
    message: str
    """Message of the new commit."""
    committed_at: datetime


def list_commits(git: Git, request: RevertRequest) -> list[str]:
    """Return the commits to revert, newest first."""
    arguments = (
        "rev-list",
        "--first-parent",
        "--end-of-options",
        request.halted,
        f"^{request.settled}",
        "--",
        request.file,
    )
    return git.run_text(*arguments).split()


def create_revert(git: Git, request: RevertRequest) -> str:
    """Create the commit on top of `request.onto`, without a ref, and return its id. Raises: RevertError, GitError."""
    old_blobs = dict(_list_tree(git, request.onto, request.path))
    new_blobs: dict[bytes, Blob | None] = dict(old_blobs)
    for commit in list_commits(git, request):
        for name, old, new in _list_changes(git, commit, request.path):
            new_blobs[name] = _revert_file(git, name, current=new_blobs.get(name), old=old, new=new)
    changed = {name: blob for name, blob in new_blobs.items() if blob != old_blobs.get(name)}
    if not changed:
        raise RevertError("the changes of the rollout are already undone in the branch; nothing to revert")
    _check_paths_free(
        {name for name, blob in new_blobs.items() if blob}, {name for name, blob in changed.items() if blob}
    )
    return _write_commit(git, request, changed)


def _revert_file(git: Git, name: bytes, *, current: Blob | None, old: Blob | None, new: Blob | None) -> Blob | None:
    """Undo the change from `old` to `new` in the file `current`. Return the result, or None for a deleted file.

    Raises: RevertError if a later commit changes the same lines.
    """
    if current == new:
        return old
    if current == old:
        return current
    if not (current and old and new) or not {current.mode, old.mode, new.mode} <= _FILE_MODES:
        raise _conflict_error(name)
    with tempfile.TemporaryDirectory(prefix="levelgate-") as directory:
        files = [Path(directory, word) for word in ("current", "base", "other")]
        for file, blob in zip(files, (current, new, old), strict=True):
            file.write_bytes(git.run("cat-file", "blob", blob.id))
        try:
            merged = git.run("merge-file", "-p", "--quiet", *map(str, files))
        except GitError:
            raise _conflict_error(name) from None
    mode = old.mode if current.mode == new.mode else current.mode
    return Blob(mode, git.run("hash-object", "-w", "--stdin", stdin=merged).decode().strip())


def _check_paths_free(names: set[bytes], new: set[bytes]) -> None:
    """Check that no restored file, and no parent directory of a restored file, replaces other content.

    A file may not replace a directory, and a directory may not replace a file. Without the check, Git would delete the
    current content without a warning.

    Raises: RevertError if the check fails.
    """
    directories = {parent for name in names for parent in _parent_directories(name)}
    for name in sorted(new):
        if name in directories or any(parent in names for parent in _parent_directories(name)):
            raise RevertError(
                f"{_printable_name(name)} cannot be restored: its path is in use; revert the file by hand"
            )


def _parent_directories(name: bytes) -> Iterator[bytes]:
    return (name[:index] for index, letter in enumerate(name) if letter == ord("/"))


def _write_commit(git: Git, request: RevertRequest, changed: Mapping[bytes, Blob | None]) -> str:
    """Write the changed files to a temporary index, and the tree of the index to a commit. Return the commit's id."""
    null_id = "0" * len(request.onto)
    # Deletions come first, because a restored file may need the path of a deleted file as its directory.
    lines = [
        b"%b %b\t%b\0" % ((blob.mode, blob.id.encode(), name) if blob else (b"0", null_id.encode(), name))
        for name, blob in sorted(changed.items(), key=lambda pair: (pair[1] is not None, pair[0]))
    ]
    with tempfile.TemporaryDirectory(prefix="levelgate-") as directory:
        index_git = replace(git, environment={**git.environment, "GIT_INDEX_FILE": str(Path(directory, "index"))})
        index_git.run("read-tree", request.onto)
        index_git.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
        tree = index_git.run_text("write-tree")
    identity = {
        f"GIT_{role}_{field_name}": value
        for role in ("AUTHOR", "COMMITTER")
        for field_name, value in _signature_fields(request.committed_at)
    }
    author_git = replace(git, environment={**git.environment, **identity})
    return author_git.run("commit-tree", tree, "-p", request.onto, stdin=request.message.encode()).decode().strip()


def _signature_fields(moment: datetime) -> Iterable[tuple[str, str]]:
    return zip(("NAME", "EMAIL", "DATE"), (*_IDENTITY, f"{int(moment.timestamp())} +0000"), strict=True)


def _list_tree(git: Git, commit: str, path: str) -> Iterator[tuple[bytes, Blob]]:
    """Yield each file below the directory `path`, with its path from the top of the repository."""
    listing = git.run("ls-tree", "-r", "-z", "--full-tree", commit, *_path_arguments(path))
    for line in listing.split(b"\0")[:-1]:
        metadata, _, name = line.partition(b"\t")
        mode, _, blob = metadata.split(b" ")
        yield name, Blob(mode, blob.decode())


def _list_changes(git: Git, commit: str, path: str) -> Iterator[tuple[bytes, Blob | None, Blob | None]]:
    """Yield path, old blob and new blob of each file that differs between a commit and its first parent.

    Source: git-diff-tree(1), "Raw output format".
    """
    arguments = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", f"{commit}^1", commit)
    fields = git.run(*arguments, *_path_arguments(path)).split(b"\0")[:-1]
    for metadata, name in zip(fields[::2], fields[1::2], strict=True):
        modes = metadata.removeprefix(b":").split(b" ")
        yield name, _parse_blob(modes[0], modes[2]), _parse_blob(modes[1], modes[3])


def _parse_blob(mode: bytes, blob: bytes) -> Blob | None:
    return None if mode == _NO_MODE else Blob(mode, blob.decode())


def _path_arguments(path: str) -> tuple[str, ...]:
    return ("--", path) if path else ()


def _conflict_error(name: bytes) -> RevertError:
    return RevertError(f"a later commit changes the same lines of {_printable_name(name)}; revert the file by hand")


def _printable_name(name: bytes) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in name.decode(errors="replace"))
