"""The annotation of kubectl's client-side apply."""

from __future__ import annotations

from typing import Any

import orjson

from applier.sandbox.merge.field_set import EMPTY_SET
from applier.sandbox.merge.last_applied import find_unchanged_fields, with_last_applied
from applier.sandbox.merge.types import DEDUCED
from renderer.well_known import LAST_APPLIED

APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}}


def live(**data: str) -> dict[str, Any]:
    metadata = {"name": "x", "annotations": {LAST_APPLIED: orjson.dumps(APPLIED).decode()}}
    return {**APPLIED, "metadata": metadata, "data": data}


def test_fields_that_others_changed_are_not_taken_back() -> None:
    found = find_unchanged_fields(live(a="1", b="2"), DEDUCED, "v1")
    assert "f:a" in found["f:data"]
    assert "f:b" not in found["f:data"]
    assert find_unchanged_fields(live(a="1"), DEDUCED, "v2") == EMPTY_SET
    assert find_unchanged_fields({"metadata": {}}, DEDUCED, "v1") == EMPTY_SET


def test_the_annotation_follows_where_there_is_one() -> None:
    intent = {**APPLIED, "data": {"a": "3"}}
    annotations = with_last_applied(live(), intent)["metadata"]["annotations"]
    assert orjson.loads(annotations[LAST_APPLIED]) == intent
    assert with_last_applied(APPLIED, intent) is APPLIED
