"""The cache directory of one mirror: its layout, its lock, and the exchange of a damaged copy.

Layout: `repository.git`, the copy; `lock`; `gitconfig` and `askpass`, for Git to read; `fresh.git` and `damaged.git`
during an exchange. A crash at any point leaves one copy or none; a missing copy is fetched again.

One writer or several readers, also across processes and after a crash. The lock is the kernel's (flock): it ends with the
last process that holds the descriptor, also a Git process that outlives its parent.
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
    """Hold the lock; gives its descriptor, for child processes to inherit. Raises `CacheUnavailable` after `timeout`
    seconds, and what `tick` raises while the lock is waited for.
    """
    access = os.O_RDONLY if shared else os.O_RDWR  # what has become read-only can still be read
    descriptor = os.open(file, access | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, file, timeout, tick)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, kind: int, file: Path, timeout: float, tick: Callable[[], None]) -> None:
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
    """The directory for the repository at `location`, below `cache`. Nothing is made before it is needed.

    All methods raise `CacheUnavailable` if the disk does not let them, or if the lock is not free in `lock_timeout`
    seconds, and what `tick` raises while they wait for it.
    """

    def __init__(self, cache: Path, location: str, *, lock_timeout: float, tick: Callable[[], None]) -> None:
        self.path = cache.absolute() / hashlib.sha256(location.encode()).hexdigest()[:32]
        self.repository = self.path / "repository.git"
        self.config = self.path / "gitconfig"
        self._lock = partial(hold_lock, self.path / "lock", timeout=lock_timeout, tick=tick)

    @contextmanager
    def prepare(self) -> Iterator[None]:
        """The directory is there."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.config.exists():
                # Used only for a local repository that the operator named: it may be a volume with another owner.
                self.config.write_text("[safe]\n\tdirectory = *\n")
            yield
        except OSError as error:
            message = f"cannot be used ({error.strerror})"
            raise CacheUnavailable(str(self.path), message, advice="check space and permissions") from None

    @contextmanager
    def lock_shared(self) -> Iterator[None]:
        """Nobody changes the copy meanwhile."""
        with self.prepare(), self._lock(shared=True):
            yield

    @contextmanager
    def lock_exclusively(self) -> Iterator[int]:
        """Nobody else is in the copy. Gives the lock's descriptor, for Git to hold as well."""
        with self.prepare(), self._lock(shared=False) as descriptor:
            yield descriptor

    def replace_repository(self, build: Callable[[Path], None]) -> None:
        """Put what `make` makes in the place of the copy, if it does not raise. To be called under the exclusive
        lock.
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
    """Remove what a killed Git left behind. To be called under the exclusive lock: then nothing of it is in use."""
    for directory, _, files in os.walk(repository):
        for name in files:
            if name.endswith(".lock") or name.startswith("tmp_"):
                Path(directory, name).unlink(missing_ok=True)
