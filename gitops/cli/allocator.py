"""Settings of the memory allocator for a process that runs for a long time."""

from __future__ import annotations

from ctypes import CDLL
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MAX_ARENAS = -1, -3, -8

_SETTINGS: Final = {_MMAP_THRESHOLD: 2**16, _TRIM_THRESHOLD: 2**17, _MAX_ARENAS: 1}
"""Values of the options of `mallopt`, in bytes, and the number of arenas.

Python's lock lets only one thread allocate at a time, so one arena is enough.

Source: glibc, `malloc.h` and mallopt(3).
"""


def return_freed_memory() -> None:
    """Make the C library return large blocks to the system as soon as the process frees the blocks.

    By default, glibc raises its thresholds after each large block, and then keeps freed blocks. At 10,000 objects, a
    process keeps up to 50 MiB. C libraries other than glibc have no such settings.
    """
    mallopt = getattr(CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _SETTINGS.items():
            mallopt(option, value)
