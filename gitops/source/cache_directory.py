"""The cache directory of one mirror: its layout, its lock, and the exchange of a damaged copy.

Layout: `repository.git` is the copy. Git reads `gitconfig` and `askpass`. `lock` is the lock file. During an exchange
there are also `fresh.git` and `damaged.git`. A crash at any point leaves one copy or none, and a missing copy is
fetched again.

Across all processes, one writer or several readers use a copy. The lock is the kernel's (flock). It ends with the last
process that holds the descriptor, which may be a Git process that outlives its parent.
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
    """Hold the lock, and yield its descriptor for child processes to inherit.

    `tick` is called every 20 ms while the lock is taken by another process.

    Raises: CacheUnavailable after `timeout` seconds, or what `tick` raises.
    """
    access = os.O_RDONLY if shared else os.O_RDWR  # a cache on a read-only disk can still be read
    descriptor = os.open(file, access | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, file, timeout, tick)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, kind: int, file: Path, timeout: float, tick: Callable[[], None]) -> None:
    """Try to take the lock until the deadline. Polling leaves room for `tick`, which a blocking flock does not.

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
                    str(file.parent), "another process holds the cache", advice="end it, or use another directory"
                ) from None
            tick()
            time.sleep(_RETRY_SECONDS)


class CacheDirectory:
    """The directory for the repository at `location`, below `cache`. It is created before its first use.

    While a method waits for the lock, it calls `tick` and passes on what `tick` raises.

    Raises: CacheUnavailable if the disk refuses, or if the lock is not free within `lock_timeout` seconds.
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
                # Git refuses repositories of another owner, and a volume may have one. Only a local repository that the
                # operator named is read with this file.
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
        """Keep all others out of the copy during the block, and yield the descriptor of the lock for Git to inherit."""
        with self.prepare(), self._lock(shared=False) as descriptor:
            yield descriptor

    def replace_repository(self, build: Callable[[Path], None]) -> None:
        """Let `build` create a repository in a new directory, and replace the copy by that repository.

        If `build` raises, the copy stays. Requires the exclusive lock.
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
    """Remove lock files and temporary files of a Git process that was killed.

    Requires the exclusive lock: without another process in the copy, none of them is in use.
    """
    for directory, _, files in os.walk(repository):
        for name in files:
            if name.endswith(".lock") or name.startswith("tmp_"):
                Path(directory, name).unlink(missing_ok=True)
