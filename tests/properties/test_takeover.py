"""Adoption and replacement, broken off at every single write: whatever happens to it, the next passes end where a clean run ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import Adoption
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.well_known import LAST_APPLIED
from tests.support.properties.checked_platform import CheckedPlatform, essence

PLAIN = ObjectKey("", "ConfigMap", "default", "plain")
FAULTS = ("before", "after", "unavailable", "unknown")
MOST_WRITES = 30


def config_map(name: str = "plain", *, annotations: dict[str, str] | None = None, **content: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def dependent() -> str:
    return json.dumps(
        config_map(
            "user",
            annotations={"config.kubernetes.io/depends-on": "/namespaces/default/ConfigMap/plain"},
            data={"a": "b"},
        )
    )


def adopting(platform: CheckedPlatform) -> None:
    """Somebody's client-side apply, with a field that Git does not say, is to be adopted."""
    theirs = config_map(data={"a": "theirs", "old": "x"})
    said = config_map(annotations={LAST_APPLIED: json.dumps(theirs)}, data=theirs["data"])
    platform.cluster.put(said, manager="kubectl-client-side-apply")
    platform.commit({"plain.json": json.dumps(config_map(data={"a": "ours"})), "user.json": dependent()})
    platform.sources["platform"] = replace(platform.sources["platform"], adoption=Adoption.parse("IfUnowned"))


def replacing(platform: CheckedPlatform) -> None:
    """An immutable object is to have other data, and may be replaced."""
    platform.commit({"plain.json": json.dumps(config_map(immutable=True, data={"a": "theirs"}))})
    platform.settle()
    fresh = config_map(annotations={well_known.REPLACE: "allowed"}, immutable=True, data={"a": "ours"})
    platform.commit({"plain.json": json.dumps(fresh)})


def end(start: Callable[[CheckedPlatform], None], faults: dict[int, str]) -> tuple[dict[str, Any], Any, list[str], int]:
    """What the cluster ends as: what we decide of it, the object's data, broken invariants, and the writes of the first pass."""
    with CheckedPlatform() as platform:
        start(platform)
        before = len(platform.cluster.writes)
        platform.run(faults)
        written = len(platform.cluster.writes) - before
        platform.settle()
        return essence(platform.cluster), platform.cluster.objects[PLAIN]["data"], platform.broken, written


@pytest.mark.parametrize("start", [adopting, replacing])
def test_broken_off_anywhere_it_ends_as_a_clean_run(start: Callable[[CheckedPlatform], None]) -> None:
    """I7, I1: killed before and after each write, refused, or left without an answer."""
    clean, data, broken, written = end(start, {})
    assert data == {"a": "ours"}
    assert broken == []
    assert 0 < written < MOST_WRITES
    for point in range(written + 1):
        for fault in FAULTS:
            assert end(start, {point: fault})[:3] == (clean, data, []), (point, fault)


@pytest.mark.parametrize("start", [adopting, replacing])
def test_a_plan_of_it_writes_nothing(start: Callable[[CheckedPlatform], None]) -> None:
    with CheckedPlatform() as platform:
        start(platform)
        before, world = len(platform.cluster.writes), platform.cluster.objects
        found = platform.preview()
        actions = {str(node.action) for one in found.due.plan.sets for node in one.nodes if node.node.key == PLAIN}
        assert actions == {"adopt" if start is adopting else "replace"}
        assert (len(platform.cluster.writes), platform.cluster.objects) == (before, world)
