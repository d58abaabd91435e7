"""Members without the label of a set; `tests/outcomes/test_left_behind.py` has what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from applier.applyset.inventory import Scope
from applier.cluster import parse_cluster_name
from applier.read.left_behind import find_unlabelled_members, is_unlabelled_member, merge_places
from applier.recorded_cluster import RecordedCluster
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.apply_sets import CONFIG_MAP, DISCOVERY, PARENT, SOURCE, key, live, observed


def unlabelled(**annotations: str) -> dict[str, Any]:
    obj = live(SOURCE, "a")
    del obj["metadata"]["labels"][well_known.PART_OF]
    obj["metadata"]["annotations"] |= annotations
    return obj


def copied() -> dict[str, Any]:
    obj = unlabelled()
    obj["metadata"]["name"] = "copy"
    return obj


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (live(SOURCE, "a"), False),
        (unlabelled(), True),
        (unlabelled(**{well_known.PRUNE: "disabled"}), False),
        (copied(), False),
        (unlabelled() | {"metadata": unlabelled()["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
    ],
)
def test_only_our_own_record_proves_a_member(obj: dict[str, Any], found: bool) -> None:
    assert is_unlabelled_member(obj, {SOURCE.id}) is found


def test_places_are_those_of_all_inventories_but_for_our_own_namespace() -> None:
    link = ObjectKey("g.test", "Link", "prod", "x")
    scopes = [(link, Scope(frozenset({CONFIG_MAP}), frozenset({"a"}))), (PARENT, Scope(frozenset({CONFIG_MAP})))]
    assert merge_places(scopes) == {CONFIG_MAP: frozenset({"", "a", "prod"})}


async def test_a_search_reads_the_named_places_alone() -> None:
    obj = unlabelled()
    cluster = RecordedCluster(parse_cluster_name("noon"), {key("a"): obj}, DISCOVERY)
    found = await find_unlabelled_members(cluster, observed(), {CONFIG_MAP: frozenset({"default"})})
    assert list(found.objects) == [key("a")]
    assert (await find_unlabelled_members(cluster, observed(), {CONFIG_MAP: frozenset({"other"})})).objects == {}
