"""The files of one commit, or of a directory on disk, as a value.

Invariant: a snapshot is complete. `files` contains, or `problems` names, every manifest below the path. If a reader
cannot ensure a complete snapshot, the reader raises an error.
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
    """Rejection of one file, with the reason. The reader still reads all other files."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on reads, in bytes and seconds.

    If a file exceeds `max_file_bytes`, the reader rejects the file, and reads the rest of the commit. If a commit
    exceeds any other limit, the reader rejects the whole commit.
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
    """Id of the commit, or of the HEAD of a working tree. Before the first commit, the id is empty."""
    description: str
    """Subject of the commit, or a phrase about the working tree."""
    files: Mapping[str, File]
    """Files by path, in sorted order. Paths are relative to the path of the target."""
    problems: tuple[SourceProblem, ...]
    path_exists: bool
    """False if the target's path does not exist in the commit."""
    subject: str
    author: str
    message: str
    """The whole commit message."""
    time: datetime | None
    """Time of the committer in UTC, or None if the snapshot has no commit."""
    plan: str = ""
    """Plan hash from the trailer `Levelgate-Plan` of the commit message. Without the trailer, the hash is empty."""
    is_dirty: bool = False
    """True if the files of a working tree differ from its HEAD."""
    since: str = field(default="", compare=False)
    """Id of an earlier commit that differs only in the content of the files `changed`, or an empty string."""
    changed: frozenset[str] = field(default=frozenset(), compare=False)

    def describe(self, ref: str) -> str:
        """Return a phrase about the snapshot for messages: the working tree, or the commit and its subject.

        Args:
            ref: name by which the user asked for the commit. An empty name means the head.
        """
        if not ref and self.time is None:
            return self.description
        return f"{ref} {self.revision[:7]} ({self.subject})".strip()


def is_hidden(path: str) -> bool:
    """Return whether a part of `path` begins with a dot. The parts `.` and `..` do not count."""
    if not path.startswith(".") and "/." not in path:
        return False
    return any(part.startswith(".") and part not in {".", ".."} for part in PurePosixPath(path).parts)


def content_problem(data: bytes) -> str:
    """Return why a reader rejects `data` as the content of a file, or an empty string for valid content."""
    if data.startswith(_LFS_POINTER):
        return "is a Git LFS pointer, not the content; store manifests in Git itself"
    return ""


def size_problem(size: int, limits: ReadLimits) -> str:
    """Return why a reader rejects a file of `size` bytes, or an empty string for a permitted size."""
    limit = limits.max_file_bytes
    return f"has {size} bytes, but the limit is {limit}; split the file" if size > limit else ""
