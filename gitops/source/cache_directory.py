"""The cache directory of one mirror: its layout, its lock, and the replacement of a damaged copy.

Layout: `repository.git` is the copy. Git reads the files `gitconfig` and `askpass`. `lock` is the lock file. During a
replacement, `fresh.git` and `damaged.git` exist too. After a crash at any point, the directory has one copy or none. If
the copy is missing, the mirror fetches the repository again.

At any time, a copy has one writer or several readers in all processes together. The lock is a kernel lock (flock).
When the last process with the descriptor ends, the kernel releases the lock. The last process may be a Git process
that outlives its parent.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gitops.errors import CacheUnavailable

_RETRY_SECONDS = 0.02


@contextmanager
def hold_lock(file: Path, *, shared: bool, timeout: float, tick: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Hold the lock during the block. Yield the descriptor of the lock, which child processes inherit.

    Args:
        timeout: seconds to wait for the lock.
        tick: function to call every 20 ms while another process holds the lock.

    Raises: CacheUnavailable after `timeout` seconds; any exception that `tick` raises.
    """
    access = os.O_RDONLY if shared else os.O_RDWR  # a cache on a read-only disk can still be read
    descriptor = os.open(file, access | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, file, timeout, tick)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, kind: int, file: Path, timeout: float, tick: Callable[[], None]) -> None:
    """Try to acquire the lock until the deadline. Poll, because a blocking flock permits no calls of `tick`.

    Raises: CacheUnavailable after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise CacheUnavailable(
                    str(file.parent),
                    "another process holds the cache",
                    advice="end that process, or use another directory",
                ) from None
            tick()
            time.sleep(_RETRY_SECONDS)


class CacheDirectory:
    """The directory, below `cache`, for the repository at `location`.

    The first use creates the directory. A method that waits for the lock calls `tick`, and raises any exception of
    `tick`.

    Raises: CacheUnavailable if the disk fails, or if the lock is not free within `lock_timeout` seconds.
    """

    def __init__(self, cache: Path, location: str, *, lock_timeout: float, tick: Callable[[], None]) -> None:
        self.path = cache.absolute() / hashlib.sha256(location.encode()).hexdigest()[:32]
        self.repository = self.path / "repository.git"
        self.config = self.path / "gitconfig"
        self._lock = partial(hold_lock, self.path / "lock", timeout=lock_timeout, tick=tick)

    @contextmanager
    def prepare(self) -> Iterator[None]:
        """Create the directory, and translate errors of the disk inside the block into CacheUnavailable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.config.exists():
                # Git refuses a repository whose directory has another owner, which is common on mounted volumes. Git
                # reads this file only for a local repository that the operator named.
                self.config.write_text("[safe]\n\tdirectory = *\n")
            yield
        except OSError as error:
            message = f"cannot be used ({error.strerror})"
            raise CacheUnavailable(str(self.path), message, advice="check space and permissions") from None

    @contextmanager
    def lock_shared(self) -> Iterator[None]:
        """Keep writers out of the copy during the block."""
        with self.prepare(), self._lock(shared=True):
            yield

    @contextmanager
    def lock_exclusively(self) -> Iterator[int]:
        """Keep readers and writers out of the copy during the block. Yield the descriptor of the lock, for Git."""
        with self.prepare(), self._lock(shared=False) as descriptor:
            yield descriptor

    def replace_repository(self, build: Callable[[Path], None]) -> None:
        """Let `build` create a repository in a new directory, and replace the copy with the new repository.

        If `build` raises an exception, keep the copy. The caller has to hold the exclusive lock.
        """
        fresh, damaged = self.path / "fresh.git", self.path / "damaged.git"
        for leftover in (fresh, damaged):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            build(fresh)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if self.repository.exists():
            self.repository.rename(damaged)
        fresh.rename(self.repository)
        shutil.rmtree(damaged, ignore_errors=True)


def remove_leftovers(repository: Path) -> None:
    """Remove lock files and temporary files that a killed Git process left in the repository.

    The caller has to hold the exclusive lock. Then no other process uses the copy, so no process needs the files.
    """
    for directory, _, files in os.walk(repository):
        for name in files:
            if name.endswith(".lock") or name.startswith("tmp_"):
                Path(directory, name).unlink(missing_ok=True)
