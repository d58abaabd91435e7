"""A definition is its kind, whatever it is called (rulings, *One catalog per cluster*): what becomes of its rollout when names change."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gitops.propagation.state import State
from gitops.records.rollouts import Rollouts
from renderer.identity import ObjectKey
from tests.properties.platform import Platform
from tests.properties.repositories import GROUP, config_map, definition, instance

LINK, CHAIN = f"Link.{GROUP}", f"Chain.{GROUP}"


@pytest.fixture
def platform() -> Iterator[Platform]:
    with Platform() as found:
        yield found


def named(kind: str, name: str, *nodes: str) -> str:
    found = json.loads(definition(kind, [config_map(node) for node in nodes]))
    found["metadata"]["name"] = name
    return json.dumps(found)


def states(platform: Platform) -> dict[str, State]:
    """As they are stored."""
    stored = Rollouts.of(obj for obj in platform.cluster.objects.values() if obj["kind"] == "ConfigMap")
    return stored.states(platform.clock.moment)


def test_a_kind_that_takes_the_name_of_another_starts_its_rollout_anew(platform: Platform) -> None:
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


def test_a_definition_that_gets_another_name_goes_on_with_its_rollout(platform: Platform) -> None:
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
    assert found["app"] == State()


@pytest.mark.parametrize("second", ["platform", "other"])
def test_definitions_of_one_name_and_two_kinds_have_rollouts_of_their_own(platform: Platform, second: str) -> None:
    """Two teams may both call theirs `app`. Who was there first keeps the name, though the other kind comes first in the alphabet."""
    link = {"l.json": named("Link", "app", "a"), "x.json": instance("Link", "x")}
    chain = {"c.json": named("Chain", "app", "c"), "y.json": instance("Chain", "y")}
    platform.commit(link)
    platform.settle()
    platform.commit({**(link if second == "platform" else {}), **chain}, source=second)
    found = platform.settle().propagation
    assert {name: one.of for name, one in found.states.items()} == {"app": LINK, "app.chain": CHAIN}
    assert {name: list(one.keys.values()) for name, one in found.rollouts.items()} == {
        "app": [ObjectKey(GROUP, "Link", "default", "x")],
        "app.chain": [ObjectKey(GROUP, "Chain", "default", "y")],
    }
