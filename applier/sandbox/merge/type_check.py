"""Whether a value is of a type, before anything is merged. The messages are the server's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from applier.sandbox.merge.path_elements import element_text
from applier.sandbox.merge.types import ATOMIC, DEDUCED, MergeListType, MergeMapType, MergeType
from applier.sandbox.merge.values import NoKey, key_of

Fault = tuple[str, str]
"""Where and what."""


class NotTyped(Exception):
    """A value that cannot be merged because it does not fit its type: unknown fields, wrong types, duplicate keys."""


def check(type_: MergeType, value: Any, *, duplicates: bool = False) -> None:
    """Raises `NotTyped`; `duplicates` allows items with equal keys, as stored objects may have them."""
    faults = _faults(type_, value, duplicates)
    if not faults:
        return
    texts = [f"{path}: {message}" if path else message for path, message in faults]
    raise NotTyped(texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {text}" for text in texts)]))


def _faults(type_: MergeType, value: Any, duplicates: bool) -> Collection[Fault]:
    if type_ is DEDUCED or type_ is ATOMIC:
        return ()
    kind = value.__class__
    if kind is str:
        fits = type_.scalar in {"string", "untyped"}
    elif value is None:
        fits = True
    elif kind is dict:
        if type_.map:
            return _map_faults(type_.map, value, duplicates)
        fits = False
    elif kind is list:
        if type_.list:
            return _list_faults(type_.list, value, duplicates)
        fits = False
    else:
        fits = type_.scalar in {"untyped", "boolean" if kind is bool else "numeric"}
    return () if fits else (_mismatch(type_, value),)


def _map_faults(structure: MergeMapType, value: dict[str, Any], duplicates: bool) -> Collection[Fault]:
    found: list[Fault] = []
    for name, member in value.items():
        type_ = structure.child(name)
        if type_ is None:
            return [*found, (f".{name}", "field not declared in schema")]
        if faults := _faults(type_, member, duplicates):
            found += [(f".{name}{path}", message) for path, message in faults]
    return found


def _list_faults(items: MergeListType, value: list[Any], duplicates: bool) -> Collection[Fault]:
    associative = not items.atomic
    seen = set()
    found: list[Fault] = []
    for index, item in enumerate(value):
        key = f"i:{index}"
        if associative:
            try:
                key = key_of(items, item)
            except NoKey as error:
                return [*found, ("", f"element {index}: {error}")]
            if key in seen and not duplicates:
                found.append(("", f"duplicate entries for key {element_text(key)}"))
            seen.add(key)
        if faults := _faults(items.element, item, duplicates):
            found += [(f"{element_text(key)}{path}", message) for path, message in faults]
    return found


def _mismatch(type_: MergeType, value: Any) -> Fault:
    if type_.map:
        return "", f"expected map, got &{{{_plain(value)}}}"
    match type_.scalar:
        case "numeric":
            return "", f"expected numeric (int or float), got {_go_type(value)}"
        case "string":
            return "", f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean":
            return "", f"expected boolean, got &{{{_plain(value)}}}"
        case "untyped":
            return "", f"expected any scalar, got &{{{_plain(value)}}}"
        case _:
            return "", f"expected list, got &{{{_plain(value)}}}"


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


def _plain(value: Any) -> str:
    """A value as Go prints it by `%v`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{_plain(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(_plain, value)) + "]"
        case _:
            return str(value)


def _go_syntax(value: Any) -> str:
    """A value as Go prints it by `%#v`."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case dict():
            inner = ", ".join(f"{_go_syntax(name)}:{_go_syntax(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
        case _:
            return str(value)
