"""Memory that a long-running process frees goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL

import pytest

KEPT = """
import os
from gitops.cli.allocator import return_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

{setting}
before = resident()
size = 100_000
blocks = [b"x" * size for _ in range(400)]
blocks = blocks[::20]
print(resident() - before)
"""


def kept_bytes(setting: str) -> int:
    """Return the bytes that a process keeps after it has freed 38 of 40 MB."""
    run = subprocess.run([sys.executable, "-c", KEPT.format(setting=setting)], capture_output=True, check=True)
    return int(run.stdout)


@pytest.mark.skipif(not hasattr(CDLL(None), "mallopt"), reason="only glibc keeps freed blocks")
def test_freed_blocks_go_back_to_the_system() -> None:
    assert kept_bytes("") > 30_000_000
    assert kept_bytes("return_freed_memory()") < 10_000_000
