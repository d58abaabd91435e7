"""How much of the bench runs: a short part with the other tests, the whole by `make faults`, which sets LEVELGATE_FAULTS=all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

WHOLE = os.environ.get("LEVELGATE_FAULTS") == "all"


def first(count: int, items: Sequence[T]) -> Sequence[T]:
    """The first `count`, in the whole bench all."""
    return items if WHOLE else items[:count]
