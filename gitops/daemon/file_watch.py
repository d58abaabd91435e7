"""Hints that a local repository, a file or a directory has changed, sooner than the next poll.

A hint has no data. Hints may be missing or superfluous, so polling continues. Only this module imports watchdog, whose
threads report each change to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from applier.backoff import exponential_backoff

_log = logging.getLogger(__name__)

_TRAILING_SECONDS = 0.05
_CEILING_SECONDS = 1.0

CHECK_INTERVAL_SECONDS: Final = 5.0
MAX_CHECK_INTERVAL_SECONDS: Final = 300.0
"""Longest interval in seconds between two checks of a watch. `CHECK_INTERVAL_SECONDS` is the shortest interval."""

FAILURES_WITHOUT_BACKOFF: Final = 5
"""Number of failures in a row without backoff. Each further failure doubles the interval between checks."""

STABLE_SECONDS: Final = 60.0
"""Age in seconds at which a watch counts as sound.

At this age, a notice reports the watch, and the count of failures returns to 0.
"""

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

_Directories: TypeAlias = Mapping[tuple[Path, bool], tuple[int, int]]
"""Device and inode of each directory to watch, by its path and a flag. If the flag is True, the watch is recursive."""


class _PathWatch:
    """Watch of the directories around `path`, active within its context. Enter and leave the context on the event loop.

    If the watch ends, the class restarts the watch and calls `on_change`, because the ended watch may have missed
    changes.

    Args:
        on_change: function to call on the event loop after 50 ms without a change, at the latest 1 s after the first
            change.
        warn: receiver of each reason for a failed watch, once per reason, and of a text after the recovery.
    """

    fires_on_first = False
    """True to call `on_change` at once for the first change of a burst, because each change is complete."""

    def __init__(self, path: Path, on_change: Callable[[], None], *, warn: Callable[[str], None]) -> None:
        self._path = path
        self._on_change = on_change
        self._warn = warn
        self._observer: Any = None
        self._threads: list[threading.Thread] = []
        self._watched: _Directories = {}
        self._failures = 0
        self._reported_reason = ""

    def directories(self) -> Iterator[tuple[Path, bool]]:
        """Yield each directory to watch, with True if the watch includes all directories below it. Raises: OSError."""
        raise NotImplementedError

    def is_relevant(self, path: Path) -> bool:
        """Return whether the watch reports a change of the file `path`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._debounce = Debounce(
            self._loop,
            self._on_change,
            trailing=_TRAILING_SECONDS,
            ceiling=_CEILING_SECONDS,
            leading=self.fires_on_first,
        )
        try:
            self._start(self._identify_directories())
        except OSError as error:
            self._record_failure(error.strerror or str(error))
        self._restart_task = self._loop.create_task(self._restart_when_ended(), name=f"watch {self._path}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restart_task.cancel()
        self._stop()
        self._debounce.stop()

    async def _restart_when_ended(self) -> None:
        """Restart the watch, with backoff, whenever the watch has ended. Never return."""
        while True:
            excess = max(0, self._failures - FAILURES_WITHOUT_BACKOFF)
            await asyncio.sleep(exponential_backoff(excess, CHECK_INTERVAL_SECONDS, MAX_CHECK_INTERVAL_SECONDS))
            try:
                identities = await asyncio.to_thread(self._identify_directories)
                if self._observer is not None and not self._has_ended(identities):
                    continue
                self._stop()
                self._start(identities)
            except OSError as error:
                self._stop()
                self._record_failure(error.strerror or str(error))
            else:
                self._debounce.poke()

    def _has_ended(self, identities: _Directories) -> bool:
        """Return whether the watch has ended and needs a restart. Report the reason."""
        if identities.keys() != self._watched.keys():
            return True  # a moved link is not a failure
        if identities != self._watched:
            self._record_failure("its directory was replaced")
        elif not all(thread.is_alive() for thread in self._threads):
            self._record_failure("a thread of the watch has ended")
        else:
            if self._failures and self._loop.time() - self._begun >= STABLE_SECONDS:
                self._failures, self._reported_reason = 0, ""
                self._warn(f"{self._path} is watched again")
            return False
        return True

    def _record_failure(self, reason: str) -> None:
        self._failures += 1
        if reason != self._reported_reason:
            self._reported_reason = reason
            self._warn(f"{self._path} is not watched ({reason}); Levelgate still polls it")

    def _identify_directories(self) -> _Directories:
        """Return the directories to watch with their identities. Raises: OSError if a watch is not possible."""
        identities = {}
        for directory, is_deep in self.directories():
            if kind := _silent_file_system_type(directory):
                raise OSError(f"a file system of type {kind} reports no changes")
            status = directory.stat()
            identities[directory, is_deep] = (status.st_dev, status.st_ino)
        return identities

    def _start(self, directories: _Directories) -> None:
        from watchdog.events import (
            FileClosedEvent,
            FileCreatedEvent,
            FileDeletedEvent,
            FileMovedEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer
        from watchdog.utils import BaseThread

        handler = FileSystemEventHandler()
        handler.on_any_event = self._on_event  # type: ignore[method-assign]
        kinds = [FileClosedEvent, FileCreatedEvent, FileDeletedEvent, FileMovedEvent]
        existing_threads = set(threading.enumerate())
        observer = Observer()
        readers = [
            thread
            for thread in threading.enumerate()
            if isinstance(thread, BaseThread) and thread not in existing_threads
        ]
        try:
            for directory, is_deep in directories:
                observer.schedule(handler, str(directory), recursive=is_deep, event_filter=list(kinds))
            self._threads = [observer, *observer.emitters, *readers]
            observer.start()
        except OSError:
            observer.stop()
            raise
        self._observer, self._watched, self._begun = observer, directories, self._loop.time()

    def _stop(self) -> None:
        observer, self._observer = self._observer, None
        if observer is None:
            return
        try:
            observer.stop()
        except OSError:  # the descriptor is invalid, which is why the watch has ended
            _log.debug("a watch of %s did not end properly", self._path, exc_info=True)
        observer.join()

    def _on_event(self, event: Any) -> None:
        """Handle an event in a thread of watchdog."""
        paths = (os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)
        if any(self.is_relevant(Path(path)) for path in paths):
            self._loop.call_soon_threadsafe(self._debounce.poke)


class RefWatch(_PathWatch):
    """Watch of `HEAD`, `packed-refs` and the refs of the repository at `path`. The repository may be bare."""

    fires_on_first = True  # Git moves each of these files into place with one rename

    def directories(self) -> Iterator[tuple[Path, bool]]:
        self._git_directory = git_directory(self._path)
        yield self._git_directory, False
        yield from (
            (self._git_directory / name, True) for name in _WATCHED_DIRECTORIES if (self._git_directory / name).is_dir()
        )

    def is_relevant(self, path: Path) -> bool:
        return is_ref(path, self._git_directory)


class FileWatch(_PathWatch):
    """Watch of one file and of all other files in its directory.

    If a mounted ConfigMap changes, Kubernetes replaces a link in this directory. The path of the file leads through
    that link.
    """

    def directories(self) -> Iterator[tuple[Path, bool]]:
        parents = {self._path.absolute().parent, self._path.resolve().parent}
        yield from ((directory, False) for directory in sorted(parents))

    def is_relevant(self, path: Path) -> bool:
        return True


class DirectoryWatch(_PathWatch):
    """Watch of the entries of one directory. To change a mounted Secret, Kubernetes replaces one of the entries."""

    def directories(self) -> Iterator[tuple[Path, bool]]:
        yield self._path, False

    def is_relevant(self, path: Path) -> bool:
        return True


class Debounce:
    """Debouncer that calls `action` once per burst of pokes. A poke is a report of a change.

    All calls happen on the event loop, by the monotonic time of the loop.

    Args:
        trailing: seconds from the last poke to the call.
        ceiling: longest time in seconds from the first poke to the call.
        leading: True to call `action` at once for the first poke. If further pokes follow, the debouncer calls `action`
            once more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        action: Callable[[], None],
        *,
        trailing: float,
        ceiling: float,
        leading: bool,
    ) -> None:
        self._loop = loop
        self._action = action
        self._trailing = trailing
        self._ceiling = ceiling
        self._leading = leading
        self._quiet_from = -math.inf
        self._last_poke = 0.0
        self._first_poke: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def poke(self) -> None:
        """Report a change to the debouncer."""
        if self._stopped:
            return
        self._last_poke = self._loop.time()
        if self._first_poke is None:
            self._first_poke = self._last_poke
            self._timer = self._loop.call_at(self._fire_time(self._first_poke), self._fire, self._first_poke)

    def stop(self) -> None:
        """Drop the current burst and all later pokes."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self, first: float) -> None:
        if (fire_at := self._fire_time(first)) > self._loop.time():
            self._timer = self._loop.call_at(fire_at, self._fire, first)
            return
        self._first_poke, self._quiet_from = None, self._last_poke + self._trailing
        self._action()

    def _fire_time(self, first: float) -> float:
        """Return the time at which to call `action` for a burst, in seconds of the event loop's clock.

        Args:
            first: time of the first poke of the burst.
        """
        if self._leading and first > self._quiet_from:
            return first
        return min(self._last_poke + self._trailing, first + self._ceiling)


def git_directory(path: Path) -> Path:
    """Return the directory with the refs of the repository at `path`.

    Raises: FileNotFoundError if `path` is not a repository.
    """
    dot_git = path / ".git"
    if dot_git.is_file():
        linked = path / dot_git.read_text().partition("gitdir:")[2].strip()
        common = linked / "commondir"
        return (linked / common.read_text().strip()).resolve() if common.is_file() else linked.resolve()
    for candidate in (dot_git, path):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate.resolve()
    raise FileNotFoundError(f"{path} is not a Git repository")


def is_ref(path: Path, directory: Path) -> bool:
    """Return whether a change of the file `path` can mean a moved ref of the Git directory `directory`."""
    try:
        parts = path.relative_to(directory).parts
    except ValueError:
        return False
    if not parts or path.suffix == ".lock":
        return False
    return parts[0] in _WATCHED_DIRECTORIES or (len(parts) == 1 and parts[0] in _WATCHED_FILES)


def _silent_file_system_type(path: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system of `path`, or an empty string if the file system reports all changes.

    A network file system does not report changes by other machines.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    best = ("", "")
    for line in lines:
        mount_fields, _, filesystem_fields = line.partition(" - ")
        mount_point = mount_fields.split()[4].replace("\\040", " ")
        if path.is_relative_to(mount_point) and len(mount_point) >= len(best[0]):
            best = (mount_point, filesystem_fields.split()[0])
    return best[1] if best[1].startswith(_SILENT_FILE_SYSTEMS) else ""
