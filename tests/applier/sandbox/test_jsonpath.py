"""JSONPaths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.jsonpath import find_values, get_field

CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]
OBJ: dict[str, Any] = {"spec": {"a.b": 1, "list": [1, 2, 3]}, "status": {"conditions": CONDITIONS}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [3]),
        (".spec.list[7]", []),
        (".spec.list[*]", [1, 2, 3]),
        (r".spec.a\.b", [1]),
        (".spec['a.b']", [1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Synced"]),
        ("{.spec.list[0]}", [1]),
        (".spec.list[0:2]", []),
    ],
)
def test_values_at_a_path(path: str, expected: list[Any]) -> None:
    assert find_values(path, OBJ) == expected


def test_a_missing_field_is_none() -> None:
    assert get_field(OBJ, "spec.list.x") is None
