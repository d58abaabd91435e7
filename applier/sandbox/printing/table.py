"""Rows for people: what `kubectl get` prints.

Custom kinds say their columns themselves; those of built-in kinds are in `columns`. Source: Kubernetes, "Additional
printer columns".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from applier.sandbox import jsonpath
from applier.sandbox.kinds.registry import Column, ServedKind
from applier.sandbox.printing.cells import Cell, Object, since
from applier.sandbox.printing.columns import AGE, BUILT_IN, NAME, TableColumn


def row(columns: Iterable[TableColumn], obj: Object, now: float) -> list[Any]:
    return [column.cell(obj, now) for column in columns]


def columns_of(kind: ServedKind) -> Sequence[TableColumn]:
    if not kind.custom:
        return BUILT_IN.get(kind.resource, (NAME, AGE))
    return (NAME, *(TableColumn(column, _by_path(column)) for column in kind.columns)) if kind.columns else (NAME, AGE)


def _by_path(column: Column) -> Cell:
    def cell(obj: Object, now: float) -> Any:
        found = jsonpath.find(column.path, obj)
        if not found or found == [None]:
            return None
        match column.type:
            case "integer":
                return found[0] if type(found[0]) is int else None
            case "number":
                return found[0] if isinstance(found[0], int | float) else None
            case "boolean":
                return found[0] if isinstance(found[0], bool) else None
            case "date":
                return since(found[0], now)
            case _:
                return ",".join(map(_shown, found))

    return cell


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
