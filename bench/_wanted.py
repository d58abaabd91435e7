"""Limits of figures: a message for each figure above its limit, and the exit code of a bench."""

from __future__ import annotations

import sys
from collections.abc import Collection


def missed(what: str, figure: float, at_most: float) -> list[str]:
    """Return a message if `figure` exceeds `at_most`, or an empty list."""
    return [f"{what}: {figure:.3g}, wanted {at_most:g} at most"] if figure > at_most else []


def end(found: Collection[str]) -> None:
    """Print the missed limits, and end the bench with exit code 1 if there are any, otherwise with 0."""
    for one in found:
        print(f"MISSED {one}", file=sys.stderr)
    sys.exit(1 if found else 0)
