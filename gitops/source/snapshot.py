"""The files of one commit, or of a directory as it lies, as a value.

Invariant: a snapshot is complete. Every manifest below the path is in `files` or named in `problems`. A reader that
cannot ensure this raises an error instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from renderer.frozen import dataclass

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json", ".ics")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class File(NamedTuple):
    """The bytes of a file and their Git blob id. Equal ids mean equal bytes."""

    blob: str
    data: bytes


@dataclass(frozen=True, slots=True, order=True)
class SourceProblem:
    """A file that is refused, and the reason. Other files are read all the same."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of reading, in bytes and seconds.

    `max_file_bytes` refuses one file; every other limit refuses the commit.
    """

    max_file_bytes: int = 1 << 20
    max_total_bytes: int = 50 << 20
    max_files: int = 20_000
    max_listing_bytes: int = 64 << 20
    max_repository_bytes: int = 4 << 30
    local_timeout_seconds: float = 120.0
    network_timeout_seconds: float = 300.0
    lock_timeout_seconds: float = 600.0


DEFAULT_LIMITS = ReadLimits()


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """The files below a path of a repository."""

    revision: str
    """Commit id; of a working tree that of its HEAD, empty if there is none."""
    description: str
    """Subject of the commit, or a phrase about the working tree."""
    files: Mapping[str, File]
    """Files by path relative to the target's path, sorted."""
    problems: tuple[SourceProblem, ...]
    path_exists: bool
    """False if the target's path does not exist in the commit."""
    subject: str
    author: str
    message: str
    """The whole commit message."""
    time: datetime | None
    """Time of the committer in UTC; None without a commit."""
    plan: str = ""
    """Hash from the trailer `Levelgate-Plan`, which names the plan that the commit was made for; empty without it."""
    is_dirty: bool = False
    """True if the files of a working tree differ from its HEAD."""
    since: str = field(default="", compare=False)
    """Id of an earlier commit from which only the content of the files `changed` differs; empty if unknown."""
    changed: frozenset[str] = field(default=frozenset(), compare=False)

    def describe(self, ref: str) -> str:
        """Return a phrase for messages: the working tree, or the commit that *ref* names (empty: the head)."""
        if not ref and self.time is None:
            return self.description
        return f"{ref} {self.revision[:7]} ({self.subject})".strip()


def is_hidden(path: str) -> bool:
    """Return whether a part of the path has a leading dot, except for `.` and `..`."""
    if not path.startswith(".") and "/." not in path:
        return False
    return any(part.startswith(".") and part not in {".", ".."} for part in PurePosixPath(path).parts)


def content_problem(data: bytes) -> str:
    """Return why these bytes are not the file's content; empty if they are."""
    if data.startswith(_LFS_POINTER):
        return "is a Git LFS pointer, not the content; store manifests in Git itself"
    return ""


def size_problem(size: int, limits: ReadLimits) -> str:
    """Return why a file of `size` bytes is refused; empty if it is not."""
    return f"has {size} bytes, more than {limits.max_file_bytes}" if size > limits.max_file_bytes else ""
