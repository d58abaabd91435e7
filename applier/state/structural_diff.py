"""Structural difference between two JSON values, down to the smallest fields that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from renderer.frozen import dataclass
from renderer.identity import is_same

ItemPairs: TypeAlias = list[tuple[str, Any, Any]] | None
"""Matching items of two lists, with the name of each pair, or None if the lists differ as a whole."""


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """Field that differs between two JSON values."""

    path: str
    """Path of the field, in the form `spec.template.spec.containers[web].image`."""
    old: Any = None
    """Value before the change, or None if the field is absent."""
    new: Any = None
    """Value after the change, or None if the field is absent."""


def pair_by_position(old: Sequence[Any], new: Sequence[Any]) -> ItemPairs:
    """Return the pairs of items at equal positions, or None if the lists have different lengths."""
    if len(old) != len(new):
        return None
    return [(str(position), *pair) for position, pair in enumerate(zip(old, new, strict=True))]


def diff_values(
    old: Any,
    new: Any,
    *,
    is_equal: Callable[[Any, Any], bool] = is_same,
    pair_items: Callable[[Sequence[Any], Sequence[Any]], ItemPairs] = pair_by_position,
    path: str = "",
) -> Iterator[FieldDiff]:
    """Yield the fields that differ, in the order of their names and of the pairs of items."""
    if is_equal(old, new):
        return
    parts: ItemPairs = None
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [(_join_path(path, name), old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    elif isinstance(old, list) and isinstance(new, list) and (pairs := pair_items(old, new)) is not None:
        parts = [(f"{path}[{name}]", *pair) for name, *pair in pairs]
    if parts is None:
        yield FieldDiff(path, old, new)
    for part_path, old_part, new_part in parts or ():
        yield from diff_values(old_part, new_part, is_equal=is_equal, pair_items=pair_items, path=part_path)


def _join_path(path: str, name: str) -> str:
    if not all(letter.isalnum() or letter in "_-" for letter in name):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name
