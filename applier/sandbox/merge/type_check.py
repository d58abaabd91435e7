"""Check of a value against its type before a merge, with the server's messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from applier.sandbox.merge.path_elements import format_element
from applier.sandbox.merge.types import ATOMIC, DEDUCED, MergeListType, MergeMapType, MergeType
from applier.sandbox.merge.values import MissingListKeyError, key_of

TypeProblem = tuple[str, str]
"""Path of a value, and the problem at this path."""


class TypeMismatchError(Exception):
    """Rejection of a value that does not fit its type.

    The reasons are unknown fields, wrong types and duplicate keys.
    """


def check_type(type_: MergeType, value: Any, *, allow_duplicates: bool = False) -> None:
    """Check that `value` fits `type_`.

    Args:
        allow_duplicates: True to accept items with equal keys, because stored objects may have such items.

    Raises: TypeMismatchError if `value` does not fit.
    """
    problems = _find_problems(type_, value, allow_duplicates)
    if not problems:
        return
    texts = [f"{path}: {message}" if path else message for path, message in problems]
    raise TypeMismatchError(texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {text}" for text in texts)]))


def _find_problems(type_: MergeType, value: Any, allow_duplicates: bool) -> Collection[TypeProblem]:
    if type_ is DEDUCED or type_ is ATOMIC:
        return ()
    value_class = value.__class__
    if value_class is str:
        is_valid = type_.scalar in {"string", "untyped"}
    elif value is None:
        is_valid = True
    elif value_class is dict:
        if type_.map:
            return _find_map_problems(type_.map, value, allow_duplicates)
        is_valid = False
    elif value_class is list:
        if type_.list:
            return _find_list_problems(type_.list, value, allow_duplicates)
        is_valid = False
    else:
        is_valid = type_.scalar in {"untyped", "boolean" if value_class is bool else "numeric"}
    return () if is_valid else (_mismatch_problem(type_, value),)


def _find_map_problems(
    structure: MergeMapType, value: dict[str, Any], allow_duplicates: bool
) -> Collection[TypeProblem]:
    problems: list[TypeProblem] = []
    for name, member in value.items():
        type_ = structure.child(name)
        if type_ is None:
            return [*problems, (f".{name}", "field not declared in schema")]
        if member_problems := _find_problems(type_, member, allow_duplicates):
            problems += [(f".{name}{path}", message) for path, message in member_problems]
    return problems


def _find_list_problems(items: MergeListType, value: list[Any], allow_duplicates: bool) -> Collection[TypeProblem]:
    associative = not items.atomic
    seen = set()
    problems: list[TypeProblem] = []
    for index, item in enumerate(value):
        key = f"i:{index}"
        if associative:
            try:
                key = key_of(items, item)
            except MissingListKeyError as error:
                return [*problems, ("", f"element {index}: {error}")]
            if key in seen and not allow_duplicates:
                problems.append(("", f"duplicate entries for key {format_element(key)}"))
            seen.add(key)
        if item_problems := _find_problems(items.element, item, allow_duplicates):
            problems += [(f"{format_element(key)}{path}", message) for path, message in item_problems]
    return problems


def _mismatch_problem(type_: MergeType, value: Any) -> TypeProblem:
    if type_.map:
        return "", f"expected map, got &{{{_format_plain(value)}}}"
    match type_.scalar:
        case "numeric":
            return "", f"expected numeric (int or float), got {_go_type_name(value)}"
        case "string":
            return "", f"expected string, got &value.valueUnstructured{{Value:{_format_go_syntax(value)}}}"
        case "boolean":
            return "", f"expected boolean, got &{{{_format_plain(value)}}}"
        case "untyped":
            return "", f"expected any scalar, got &{{{_format_plain(value)}}}"
        case _:
            return "", f"expected list, got &{{{_format_plain(value)}}}"


def _go_type_name(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


def _format_plain(value: Any) -> str:
    """Return `value` in Go's form for `%v`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{_format_plain(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(_format_plain, value)) + "]"
        case _:
            return str(value)


def _format_go_syntax(value: Any) -> str:
    """Return `value` in Go's form for `%#v`."""
    match value:
        case None:
            return "interface {}(nil)"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case dict():
            inner = ", ".join(f"{_format_go_syntax(name)}:{_format_go_syntax(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(_format_go_syntax, value)) + "}"
        case _:
            return str(value)
