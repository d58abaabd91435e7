"""JSON patches (RFC 6902)."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge.json_patch import PatchError, apply_json_patch

LIVE = {"a": [1, 2], "b/c": {"d": 1}}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "b/c": {"d": 1}}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "b/c": {"d": 1}}),
        ({"op": "replace", "path": "/b~1c/d", "value": 2}, {"a": [1, 2], "b/c": {"d": 2}}),
        ({"op": "replace", "path": "/new", "value": 2}, {"a": [1, 2], "b/c": {"d": 1}, "new": 2}),
        ({"op": "remove", "path": "/a"}, {"b/c": {"d": 1}}),
        ({"op": "move", "from": "/a/1", "path": "/x"}, {"a": [1], "b/c": {"d": 1}, "x": 2}),
        ({"op": "test", "path": "/a/0", "value": 1.0}, LIVE),
    ],
)
def test_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    assert apply_json_patch(LIVE, [operation]) == expected
    assert LIVE == {"a": [1, 2], "b/c": {"d": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "remove", "path": "/x"},
        {"op": "add", "path": "/a/7", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "other"},
    ],
)
def test_operations_that_cannot_be_applied(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        apply_json_patch(LIVE, [operation])
