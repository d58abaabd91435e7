"""What was read: the files of one commit, or of a directory as it lies.

Invariant: a snapshot is complete. Every manifest below the path is in `files` or named in `problems`; when that
cannot be had, an error is raised instead.
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
    """One file that is not read, and why. The others are."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Sizes in bytes, times in seconds. `file` refuses one file, all others refuse the commit."""

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
    """The files below a path.

    `revision` is the commit id; of a working tree: its HEAD, empty if there is none, and `is_dirty` where the files say
    anything else. `files` is sorted by path, relative to the target's path. `path_exists` is False if that directory is not
    there at all. `message` is the commit's, whole; `time` is the committer's, in UTC, None where there is no commit.
    `plan` is the hash of the plan that the commit was made for, by its trailer `Levelgate-Plan`; empty where it has none.
    Where `since` is the id of a commit, nothing was refused there either, and only the contents of the files in `changed`
    differ from it.
    """

    revision: str
    description: str
    files: Mapping[str, File]
    problems: tuple[SourceProblem, ...]
    path_exists: bool
    subject: str
    author: str
    message: str
    time: datetime | None
    plan: str = ""
    is_dirty: bool = False
    since: str = field(default="", compare=False)
    changed: frozenset[str] = field(default=frozenset(), compare=False)

    def describe(self, ref: str) -> str:
        """Return what was read: the working tree, or the commit that *ref* names (empty: the head)."""
        if not ref and self.time is None:
            return self.description
        return f"{ref} {self.revision[:7]} ({self.subject})".strip()


def is_hidden(path: str) -> bool:
    """Whether the file, or a directory that it is in, has a name with a leading dot (`..` is not hiding but
    climbing).
    """
    if not path.startswith(".") and "/." not in path:
        return False
    return any(part.startswith(".") and part not in {".", ".."} for part in PurePosixPath(path).parts)


def content_problem(data: bytes) -> str:
    """Why these bytes are not the file's content; empty if they are."""
    if data.startswith(_LFS_POINTER):
        return "is a Git LFS pointer, not the content; store manifests in Git itself"
    return ""


def size_problem(size: int, limits: ReadLimits) -> str:
    """Why a file of `size` bytes is refused; empty if it is not."""
    return f"has {size} bytes, more than {limits.max_file_bytes}" if size > limits.max_file_bytes else ""
