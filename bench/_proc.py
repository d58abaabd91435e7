"""Figures of processes. Source: proc(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_RESET_PEAK: Final = "5"


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process, of its living children, and of the children that it has waited for."""
    return (_ticks(pid) + sum(map(_ticks, _descendants(pid)))) / _TICKS


def memory(pid: int) -> tuple[float, float]:
    """Return the present and the largest memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+)", status, re.MULTILINE))
    return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024


def reset_peak(pid: int) -> None:
    """Reset the largest memory of a process to its present memory."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def _ticks(pid: int) -> int:
    """Return the CPU ticks of a process, or 0 for a child that has ended, whose ticks its parent counts."""
    return sum(map(int, fields[11:15])) if (fields := _fields(pid)) else 0


def _descendants(pid: int) -> Iterator[int]:
    parents = {
        int(path.name): int(fields[1]) for path in Path("/proc").glob("[0-9]*") if (fields := _fields(path.name))
    }
    found = [pid]
    while found:
        parent = found.pop()
        children = [child for child, above in parents.items() if above == parent]
        found += children
        yield from children


def _fields(pid: int | str) -> list[str]:
    """Return the fields after the name of the command, or an empty list if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
