"""The differences between two records, one line each: scenario, step, write and field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SHOWN = 160


def differences(expected: Any, actual: Any) -> list[str]:
    """Return a line for each difference."""
    return list(_between(expected, actual, ()))


def _between(expected: Any, actual: Any, path: tuple[str, ...]) -> Iterator[str]:
    if expected == actual:
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            inner = (*path, key)
            if key not in actual:
                yield f"{_place(inner)}: missing, was {_short(expected[key])}"
            elif key not in expected:
                yield f"{_place(inner)}: extra, is {_short(actual[key])}"
            else:
                yield from _between(expected[key], actual[key], inner)
    elif isinstance(expected, list) and isinstance(actual, list):
        if path[-1:] == ("writes",):
            yield from _between_writes(expected, actual, path[:-1])
        elif len(expected) != len(actual):
            yield f"{_place(path)}: has {len(actual)} items, had {len(expected)}; now {_short(actual)}, was {_short(expected)}"
        else:
            for index, (old, new) in enumerate(zip(expected, actual, strict=True)):
                yield from _between(old, new, (*path, str(index)))
    else:
        yield f"{_place(path)}: is {_short(actual)}, was {_short(expected)}"


def _between_writes(expected: list[Any], actual: list[Any], path: tuple[str, ...]) -> Iterator[str]:
    """Writes to the same place are compared field by field; what is left over is missing or extra."""
    missing = [write for write in expected if write not in actual]
    extra = [write for write in actual if write not in expected]
    for old in missing:
        place = f"{old['verb']} {old['path']}"
        new = next((write for write in extra if f"{write['verb']} {write['path']}" == place), None)
        if new is None:
            yield f"{_place((*path, place))}: missing write"
        else:
            extra.remove(new)
            yield from _between(old["body"], new["body"], (*path, place))
    for new in extra:
        place = f"{new['verb']} {new['path']}"
        yield f"{_place((*path, place))}: extra write"


def _place(path: tuple[str, ...]) -> str:
    return " > ".join(path)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
