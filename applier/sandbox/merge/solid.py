"""What an object of a built-in kind always has.

The API server holds such objects as structures of Go. A structure within another one is there even when nothing of it
was given, and so is a list or map that may not be left out, as a null. That decides what a write adds: not
`.spec.template`, which was there before, but what is in it.
"""

from __future__ import annotations

from typing import Any

from applier.sandbox.merge.types import MapType, Type


def solid(type_: Type, value: Any) -> Any:
    """`value` with the structures that it has anyway; the very `value` if it has them already."""
    kind = value.__class__
    if kind is dict and type_.map:
        return _solid_map(type_.map, value)
    if kind is list and type_.list and (element := type_.list.element).map:
        items = [solid(element, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _solid_map(structure: MapType, value: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = {name: None for name in structure.obligatory if name not in value}
    for name, type_ in structure.structures.items():
        if value.get(name) is None:
            changed[name] = solid(type_, {})
    for name, member in value.items():
        if member.__class__ is dict or member.__class__ is list:
            after = solid(structure.child(name) or Type(), member)
            if after is not member:
                changed[name] = after
    return {**value, **changed} if changed else value
