"""Bounds for what a piece of work takes, in units that are the same on every machine."""

from __future__ import annotations

import cProfile
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def bounded(*, calls: int, memory: int) -> Iterator[None]:
    """Assert that the block calls at most so many functions, built-in ones among them, and needs at most so many more
    bytes than there are: it gets a MemoryError at the next.
    """
    profile = cProfile.Profile()
    with _room_for(memory), profile:
        yield
    made = sum(entry.callcount for entry in profile.getstats())
    assert made <= calls


@contextmanager
def _room_for(memory: int) -> Iterator[None]:
    """Limit the data of this process, where the system tells how much it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except OSError:
        yield
        return
    wanted = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (min((wanted, *(each for each in (soft, hard) if each >= 0))), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
