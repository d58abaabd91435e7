"""Hints that a local repository, or a file, has changed, sooner than the next poll would see it.

The only module that imports watchdog. A hint carries no data and may be missing or too many; whoever gets one looks
itself. So the poll goes on whatever happens here.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_log = logging.getLogger(__name__)

_TRAILING = 0.05
_CEILING = 1.0
_WATCHED_FILES = frozenset({"HEAD", "packed-refs"})
_WATCHED_DIRECTORIES = ("refs", "reftable")
_SILENT_FILE_SYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "fuse.sshfs",
    "fuse.s3fs",
    "virtiofs",
)


class _Watch:
    """While the context is open, `changed` is called, from another thread, when what is watched at `path` has been quiet for 50 ms, but at the
    latest 1 s after the first change; where each change `is_whole` by itself, also at once for the first of them. If it cannot be watched, `warn`
    is told why once and nothing else happens.
    """

    is_whole = False

    def __init__(self, path: Path, changed: Callable[[], None], *, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._debounce = Debounce(changed, trailing=_TRAILING, ceiling=_CEILING, leading=self.is_whole)
        self._observer: Any = None

    def directories(self) -> Iterator[tuple[Path, bool]]:
        """What to watch, and whether all below it too. Raises OSError."""
        raise NotImplementedError

    def matters(self, path: Path) -> bool:
        """Can a change of this file mean anything?"""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._start()
        except OSError as error:
            self._warn(f"{self._path} is not watched ({error.strerror or error}); it is still polled")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._debounce.stop()
            self._observer = None

    def _start(self) -> None:
        from watchdog.events import (
            FileClosedEvent,
            FileCreatedEvent,
            FileDeletedEvent,
            FileMovedEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer

        handler = FileSystemEventHandler()
        handler.on_any_event = self._on_event  # type: ignore[method-assign]
        kinds = [FileClosedEvent, FileCreatedEvent, FileDeletedEvent, FileMovedEvent]
        observer = Observer()
        for directory, is_deep in self.directories():
            if kind := _silent_file_system(directory):
                raise OSError(f"a file system of type {kind} reports no changes")
            observer.schedule(handler, str(directory), recursive=is_deep, event_filter=list(kinds))
        try:
            observer.start()
        except OSError:
            observer.stop()
            raise
        self._observer = observer
        self._debounce.start()

    def _on_event(self, event: Any) -> None:
        paths = (os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)
        if any(self.matters(Path(path)) for path in paths):
            self._debounce.poke()


class RefWatch(_Watch):
    """Watches `HEAD`, `packed-refs` and the refs of the repository at `path`, bare or with a work tree. Git renames each of them into its place."""

    is_whole = True

    def directories(self) -> Iterator[tuple[Path, bool]]:
        self._top = git_directory(self._path)
        yield self._top, False
        yield from ((self._top / name, True) for name in _WATCHED_DIRECTORIES if (self._top / name).is_dir())

    def matters(self, path: Path) -> bool:
        return is_ref(path, self._top)


class FileWatch(_Watch):
    """Watches one file, and everything beside it: a mounted ConfigMap changes by a link beside the file that is moved to other contents."""

    def directories(self) -> Iterator[tuple[Path, bool]]:
        found = {self._path.absolute().parent, self._path.resolve().parent}
        yield from ((directory, False) for directory in sorted(found))

    def matters(self, path: Path) -> bool:
        return True


class Debounce:
    """Calls `action` in a thread of its own, once per burst of pokes: after `trailing` quiet seconds, at most
    `ceiling` after the first. With `leading` it is called at the first one, and only for those that follow it in this way.
    """

    def __init__(self, action: Callable[[], None], *, trailing: float, ceiling: float, leading: bool = False) -> None:
        self._action = action
        self._trailing = trailing
        self._ceiling = ceiling
        self._leading = leading
        self._quiet_from = -math.inf
        self._condition = threading.Condition()
        self._first: float | None = None
        self._last = 0.0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="ref-watch", daemon=True)

    def start(self) -> None:
        """Start the thread. Once."""
        self._thread.start()

    def poke(self) -> None:
        """Something happened. From any thread; does not block."""
        with self._condition:
            self._last = time.monotonic()
            if self._first is None:
                self._first = self._last
                self._condition.notify()

    def stop(self) -> None:
        """End the thread; a burst that has not been reported yet is dropped."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait():
            try:
                self._action()
            except Exception:
                _log.exception("a hint was not taken")

    def _wait(self) -> bool:
        """Sleep until a burst is over (True) or the thread shall end (False)."""
        with self._condition:
            while not self._stopped:
                if self._first is None:
                    self._condition.wait()
                    continue
                if (left := self._due(self._first) - time.monotonic()) <= 0:
                    self._first, self._quiet_from = None, self._last + self._trailing
                    return True
                self._condition.wait(left)
            return False

    def _due(self, first: float) -> float:
        """When the burst that began with the poke at `first` is reported."""
        if self._leading and first > self._quiet_from:
            return first
        return min(self._last + self._trailing, first + self._ceiling)


def git_directory(path: Path) -> Path:
    """The directory with the refs of the repository at `path`. Raises `FileNotFoundError` if there is none."""
    dot_git = path / ".git"
    if dot_git.is_file():
        linked = path / dot_git.read_text().partition("gitdir:")[2].strip()
        common = linked / "commondir"
        return (linked / common.read_text().strip()).resolve() if common.is_file() else linked.resolve()
    for candidate in (dot_git, path):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate.resolve()
    raise FileNotFoundError(f"{path} is no Git repository")


def is_ref(path: Path, top: Path) -> bool:
    """Whether a change of this file below the Git directory `top` can mean that a ref moved."""
    try:
        parts = path.relative_to(top).parts
    except ValueError:
        return False
    if not parts or path.suffix == ".lock":
        return False
    return parts[0] in _WATCHED_DIRECTORIES or (len(parts) == 1 and parts[0] in _WATCHED_FILES)


def _silent_file_system(path: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that `path` is on, if changes made elsewhere are not reported on it; else empty."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    best = ("", "")
    for line in lines:
        left, _, right = line.partition(" - ")
        place = left.split()[4].replace("\\040", " ")
        if path.is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, right.split()[0])
    return best[1] if best[1].startswith(_SILENT_FILE_SYSTEMS) else ""
