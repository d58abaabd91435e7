"""JSONPaths of printer columns: fields, indexes, `[*]`, and filters that compare a field with a string.

A path in another form finds no values.

Source: Kubernetes, "JSONPath Support", as far as CustomResourceDefinitions use it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\'"]|\\.)+)"""
    r"""|\[\s*'(?P<quoted>[^']*)'\s*\]|\[\s*"(?P<double>[^"]*)"\s*\]"""
    r"""|\[(?P<index>-?[0-9]+)\]|(?P<all>\[\*\]|\.\*)"""
    r"""|\[\?\(\s*@(?P<left>(?:\.[A-Za-z0-9_-]+)+)\s*(?P<compare>==|!=)\s*(?P<right>'[^']*'|"[^"]*"|[^\s)'"]+)\s*\)\]"""
)


def find_values(path: str, document: Any) -> list[Any]:
    """Return all values at `path`, such as `.status.conditions[?(@.type=="Ready")].status`.

    The order is the order of `document`.
    """
    values = [document]
    for step in _parse_steps(path):
        values = [value for item in values for value in _apply_step(step, item)]
    return values


@lru_cache(maxsize=1024)
def _parse_steps(path: str) -> tuple[dict[str, str | None], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[dict[str, str | None]] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return ({"field": "\0"},)
        steps.append(step.groupdict())
        position = step.end()
    return tuple(steps)


def _apply_step(step: dict[str, str | None], value: Any) -> list[Any]:
    name = step.get("field") or step.get("quoted") or step.get("double")
    if name is not None:
        name = re.sub(r"\\(.)", r"\1", name)
        return [value[name]] if isinstance(value, dict) and name in value else []
    if step.get("all"):
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if not isinstance(value, list):
        return []
    if (index := step.get("index")) is not None:
        return [value[int(index)]] if -len(value) <= int(index) < len(value) else []
    field_path, literal = step.get("left") or "", (step.get("right") or "").strip("'\"")
    expects_equal = step.get("compare") == "=="
    return [
        item
        for item in value
        if ([format_value(candidate) for candidate in find_values(field_path, item)] == [literal]) is expects_equal
    ]


def format_value(value: Any) -> str:
    """Return the scalar `value` in the form in which Go prints the value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def get_field(obj: Any, path: str) -> Any:
    """Return the value at `path` in `obj`, or None if the value is absent.

    Args:
        path: dotted path of field names, such as `spec.replicas`.
    """
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj
