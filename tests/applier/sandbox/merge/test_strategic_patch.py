"""Strategic merge patches; `tests/conformance/test_strategic.py` compares them with the real server."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge.json_patch import PatchError
from applier.sandbox.merge.strategic_patch import apply_strategic_merge

KEYED = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
SCHEMA = {"properties": {"items": KEYED, "names": {"x-kubernetes-patch-strategy": "merge"}}}
LIVE = {"items": [{"name": "a", "v": 1}, {"name": "b"}], "names": ["x", "y"], "map": {"k": 1}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"items": [{"name": "a", "v": 2}]}, {"items": [{"name": "a", "v": 2}, {"name": "b"}]}),
        ({"items": [{"name": "a", "$patch": "delete"}]}, {"items": [{"name": "b"}]}),
        ({"items": [{"name": "c"}, {"$patch": "replace"}]}, {"items": [{"name": "c"}]}),
        ({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]}, {"items": [{"name": "b"}, {"name": "a", "v": 1}]}),
        ({"$deleteFromPrimitiveList/names": ["x"]}, {"names": ["y"]}),
        ({"names": ["z"]}, {"names": ["x", "y", "z"]}),
        ({"map": {"$patch": "replace", "n": 2}}, {"map": {"n": 2}}),
        ({"map": None}, {"map": None}),
    ],
)
def test_patches(patch: dict[str, Any], expected: dict[str, Any]) -> None:
    merged = apply_strategic_merge(LIVE, patch, SCHEMA, lambda schema: schema)
    assert {**LIVE, **merged, "map": merged.get("map")} == {**LIVE, **expected}


def test_keys_that_are_not_retained_go() -> None:
    merged = apply_strategic_merge(LIVE, {"$retainKeys": ["map"]}, SCHEMA, lambda schema: schema)
    assert merged == {"map": {"k": 1}}


@pytest.mark.parametrize("patch", [{"$patch": "other"}, {"items": [{"v": 1}]}, {"$retainKeys": 1}])
def test_patches_that_cannot_be_applied(patch: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        apply_strategic_merge(LIVE, patch, SCHEMA, lambda schema: schema)
