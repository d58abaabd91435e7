"""What becomes of a rollout when its definition gets another name (rulings, *One catalog per cluster*), and of objects when their source does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from applier.causes import Reason
from gitops.records.rollout_records import Rollouts
from gitops.rollouts.state import RolloutState
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

LINK, CHAIN = f"Link.{GROUP}", f"Chain.{GROUP}"


@pytest.fixture
def platform() -> Iterator[CheckedPlatform]:
    with CheckedPlatform() as found:
        yield found


def named(kind: str, name: str, *nodes: str) -> str:
    found = json.loads(definition(kind, [config_map(node) for node in nodes]))
    found["metadata"]["name"] = name
    return json.dumps(found)


def states(platform: CheckedPlatform) -> dict[str, RolloutState]:
    """As they are stored."""
    stored = Rollouts.from_objects(obj for obj in platform.cluster.objects.values() if obj["kind"] == "ConfigMap")
    return stored.states(platform.clock.moment)


def test_a_kind_that_takes_the_name_of_another_starts_its_rollout_anew(platform: CheckedPlatform) -> None:
    """Nothing that was decided and completed of the other kind counts for this one."""
    platform.commit({"d.json": named("Link", "app", "a"), "x.json": instance("Link", "x")})
    platform.settle()
    platform.commit({"d.json": named("Link", "app", "a", "b"), "x.json": instance("Link", "x")})
    platform.settle()
    assert (states(platform)["app"].of, str(states(platform)["app"].completed)) == (LINK, "r2")
    platform.commit({"d.json": named("Chain", "app", "c"), "y.json": instance("Chain", "y")})
    platform.settle()
    found = states(platform)["app"]
    assert (found.of, str(found.completed)) == (CHAIN, "r1")
    assert [one.subject for one in found.decisions] == ["r1: all", "r1, wave all: default/y", "r1"]
    assert "y-c" in platform.members()


def test_a_definition_that_gets_another_name_goes_on_with_its_rollout(platform: CheckedPlatform) -> None:
    """The record under the name that it had says nothing any more."""
    platform.commit({"d.json": named("Link", "app", "a"), "x.json": instance("Link", "x")})
    platform.settle()
    before = states(platform)["app"]
    platform.commit({"d.json": named("Link", "shop", "a"), "x.json": instance("Link", "x")})
    platform.settle()
    found = states(platform)
    assert (found["shop"].of, found["shop"].completed, found["shop"].decisions) == (
        LINK,
        before.completed,
        before.decisions,
    )
    assert found["app"] == RolloutState()


def test_definitions_of_one_name_and_two_kinds_have_rollouts_of_their_own(platform: CheckedPlatform) -> None:
    """Two teams may both call theirs `app`. Who was there first keeps the name, though the other kind comes first in the alphabet.

    In one source they are one object that is declared twice.
    """
    link = {"l.json": named("Link", "app", "a"), "x.json": instance("Link", "x")}
    chain = {"c.json": named("Chain", "app", "c"), "y.json": instance("Chain", "y")}
    platform.commit(link)
    platform.settle()
    platform.commit(chain, source="other")
    found = platform.settle().propagation
    assert {name: one.of for name, one in found.states.items()} == {"app": LINK, "app.chain": CHAIN}
    assert {name: list(one.keys.values()) for name, one in found.rollouts.items()} == {
        "app": [ObjectKey(GROUP, "Link", "default", "x")],
        "app.chain": [ObjectKey(GROUP, "Chain", "default", "y")],
    }


def told(platform: CheckedPlatform, source: str, passes: int = 4) -> dict[str, str]:
    """What the record of the source says of objects that others have."""
    for _ in range(passes):
        platform.go_on()
    record = platform.record(source)
    rows = [row for row in record.causes if row["reason"] == Reason.OWNED_ELSEWHERE]
    return {str(row["object"]): str(row["message"]) for row in rows}


def test_a_source_under_a_new_name_is_told_whose_its_objects_are(platform: CheckedPlatform) -> None:
    """What a source deployed belongs to its name (docs/configuration.md, *Rename a source*); followed under both it is handed over, nothing goes."""
    files = {"d.json": named("Link", "app", "a"), "x.json": instance("Link", "x"), "p.json": plain("p", text="1")}
    platform.commit(files, source="shop")
    platform.settle()
    del platform.sources["shop"]
    platform.commit(files, source="team-shop")
    refused = told(platform, "team-shop")
    assert refused.keys() == {
        "ConfigMap/default/p",
        f"Link.{GROUP}/default/x",
        f"CustomResourceDefinition.apiextensions.k8s.io/links.{GROUP}",
    }
    assert all("belongs to source shop; remove the object from that source" in why for why in refused.values())
    assert all("configure the source here too, with an empty path" in why for why in refused.values())
    platform.commit({}, source="shop")
    assert told(platform, "team-shop") == {}
    assert platform.deleted() == []


def test_whose_an_object_is_costs_one_list_where_one_is_refused(platform: CheckedPlatform) -> None:
    """Other sources are asked for by no pass that does not need them, and by none twice, whoever it turns out to be."""

    def lists() -> int:
        before = platform.cluster.requests["list"]
        platform.go_on()
        return platform.cluster.requests["list"] - before

    platform.commit({"p.json": plain("p", text="1"), "q.json": plain("q", text="1")}, source="shop")
    platform.settle()
    usual = lists()
    taken = {well_known.PART_OF: "applyset-of-others-v1"}
    platform.cluster.edit(
        ObjectKey("", "ConfigMap", "default", "p"), lambda obj: obj["metadata"]["labels"].update(taken)
    )
    platform.go_on()
    assert lists() == usual + 1
