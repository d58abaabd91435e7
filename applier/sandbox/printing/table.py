"""Rows for people: what `kubectl get` prints.

Custom kinds say their columns themselves; those of built-in kinds are in `columns`. Source: Kubernetes, "Additional
printer columns".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from applier.sandbox import jsonpath
from applier.sandbox.kinds.registry import Column, ServedKind
from applier.sandbox.printing.cells import Cell, Object, format_age
from applier.sandbox.printing.columns import AGE_COLUMN, BUILT_IN_COLUMNS, NAME_COLUMN, TableColumn


def build_row(columns: Iterable[TableColumn], obj: Object, now: float) -> list[Any]:
    return [column.cell(obj, now) for column in columns]


def columns_of(kind: ServedKind) -> Sequence[TableColumn]:
    if not kind.is_custom:
        return BUILT_IN_COLUMNS.get(kind.resource, (NAME_COLUMN, AGE_COLUMN))
    return (
        (NAME_COLUMN, *(TableColumn(column, _path_cell(column)) for column in kind.columns))
        if kind.columns
        else (NAME_COLUMN, AGE_COLUMN)
    )


def _path_cell(column: Column) -> Cell:
    def cell(obj: Object, now: float) -> Any:
        values = jsonpath.find_values(column.path, obj)
        if not values or values == [None]:
            return None
        match column.type:
            case "integer":
                return values[0] if type(values[0]) is int else None
            case "number":
                return values[0] if isinstance(values[0], int | float) else None
            case "boolean":
                return values[0] if isinstance(values[0], bool) else None
            case "date":
                return format_age(values[0], now)
            case _:
                return ",".join(map(_format_value, values))

    return cell


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
