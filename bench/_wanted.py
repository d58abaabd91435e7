"""Figures that are wanted: what a bench has missed, and the exit code that says so."""

from __future__ import annotations

import sys
from collections.abc import Collection


def missed(what: str, figure: float, at_most: float) -> list[str]:
    """What to say where a figure is more than is wanted; nothing where it is not."""
    return [f"{what}: {figure:.3g}, wanted {at_most:g} at most"] if figure > at_most else []


def end(found: Collection[str]) -> None:
    """The end of a bench."""
    for one in found:
        print(f"MISSED {one}", file=sys.stderr)
    sys.exit(1 if found else 0)
