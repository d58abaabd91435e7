"""Which process works on which source: each on one, and few move when one joins or leaves (rendezvous hashing)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitops.compose import SourceConfig
from gitops.daemon.division import Division, holder_among
from gitops.passes.share import COMMON
from gitops.passes.sources import SourceState
from gitops.source import Target
from renderer.catalog import load
from tests.gitops.fleet import GROUP, Fleet

NAMES = tuple(f"s{number:02}" for number in range(40))
REPLICAS = st.sets(st.integers(0, 99).map("pod-{}".format), min_size=1, max_size=8)


def source(name: str, *depends_on: str) -> SourceConfig:
    return SourceConfig(name, Target(f"file:///{name}"), depends_on=depends_on)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(replicas=REPLICAS, shards=st.integers(2, 16), newcomer=st.integers(100, 199).map("pod-{}".format))
def test_each_shard_has_one_holder_and_a_newcomer_takes_from_others_alone(
    replicas: set[str], shards: int, newcomer: str
) -> None:
    leases = Division.of([*map(source, NAMES)], shards).leases
    before = {lease: holder_among(lease, replicas) for lease in leases}
    after = {lease: holder_among(lease, {*replicas, newcomer}) for lease in leases}
    assert set(before.values()) <= replicas
    assert {after[lease] for lease in leases if before[lease] != after[lease]} <= {newcomer}
    assert {lease: holder_among(lease, sorted(replicas, reverse=True)) for lease in leases} == before


def test_the_work_is_spread() -> None:
    """No process of three has more than two thirds of 64 shards, and no shard more than a quarter of 40 sources."""
    division = Division.of([*map(source, NAMES)], 64)
    held = Counter(holder_among(lease, ("a", "b", "c")) for lease in division.leases)
    assert max(held.values()) < 44
    assert max(Counter(map(division.lease_of, NAMES)).values()) <= 10


def test_another_number_of_shards_moves_few_sources() -> None:
    before, after = (Division.of([*map(source, NAMES)], shards) for shards in (8, 9))
    moved = [name for name in NAMES if before.lease_of(name) != after.lease_of(name)]
    assert {after.lease_of(name) for name in moved} <= {"levelgate-shard-8"}
    assert len(moved) < len(NAMES) / 3


def test_sources_that_depend_on_each_other_are_together() -> None:
    """Also through a third one, and whatever the order in which they are written."""
    division = Division.of([source("a"), source("d", "c"), source("b", "a"), source("c", "b"), source("z")], 5)
    assert division.groups == {"a": "a", "b": "a", "c": "a", "d": "a", "z": "z"}
    assert len({division.lease_of(name) for name in "abcd"}) == 1
    assert division.lease_of(COMMON) == "levelgate"
    assert division.lease_of("unknown") is None


def test_the_mark_differs_where_the_division_does() -> None:
    marks = {
        Division.of(sources, shards).mark
        for sources, shards in (
            ([source("a"), source("b")], 2),
            ([source("a"), source("b")], 3),
            ([source("a"), source("b", "a")], 2),
            ([source("a")], 2),
        )
    }
    assert len(marks) == 4
    assert Division.of([source("b"), source("a")], 2).mark == Division.of([source("a"), source("b")], 2).mark


@pytest.mark.parametrize("text", ["string", "nonsense"])
def test_instances_of_a_definition_of_another_group_are_not_worked_on(text: str) -> None:
    """Two processes would decide about one rollout; also while the newest version of the definition is broken."""
    with Fleet(names=()) as fleet:
        fleet.schema["text"] = text
        fleet.push()
        assert fleet.catalog
        contents = {file: found.data for file, found in fleet.catalog.contents.items()}
    instance = f"apiVersion: {GROUP}/v1\nkind: Link\nmetadata: {{name: x, namespace: default}}\n".encode()
    states = [
        SourceState(load(contents, source="platform")),
        SourceState(load({"x.yaml": instance}, source="shop")),
        SourceState(load({"m.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"}, source="other")),
    ]
    told = {
        one.catalog.source: one.suspend
        for one in Division.of([*map(source, ("platform", "shop", "other"))], 3).apart(states)
    }
    assert (told["platform"], told["other"]) == ("", "")
    assert told["shop"].endswith("let shop say dependsOn: [platform]")
    together = Division.of([source("platform"), source("shop", "platform"), source("other")], 3)
    assert [one.suspend for one in together.apart(states)] == ["", "", ""]
