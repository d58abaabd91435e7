"""One writer at a time in a cache directory, or several readers, also across processes and after a crash.

The lock is the kernel's (flock), so it ends with the last process that holds the descriptor; a Git process that
outlives its parent keeps it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
