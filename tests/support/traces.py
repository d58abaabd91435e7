"""What is run, watched by a trace function: what it counts is the same each time, unlike seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Trace = Callable[[FrameType, str, Any], Any]


def run_under(trace: Trace, act: Callable[[], object]) -> None:
    """Whoever traced before, such as coverage, goes on afterwards."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
