"""Holds of people in a graph: whose hold counts, since when, and until when."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from gitops.decisions import holds, people
from gitops.queries import QueryGraph
from gitops.rollouts.policy import DEFAULT_POLICY
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.graph_fleet import PLATFORM, GraphFleet, instance_key, links, live_object
from tests.support.graph_inputs import observe_directives
from tests.support.properties.repositories import plain

X0 = instance_key("x0")
PLAIN = ObjectKey("", "ConfigMap", "default", "p")
HELD = {well_known.HOLD: "audit"}


def unread(graph: QueryGraph, key: ObjectKey) -> set[tuple[Any, ...]]:
    """Return the first observations that the hold of an object needs."""
    answer = graph.answer(holds.hold, key)
    return {one.args for one in answer.unread if one.family is people.first_observation}


def test_a_hold_is_in_force_before_its_first_observation_is_known() -> None:
    fleet = GraphFleet({**links(["x0"]), "p.json": plain("p")})
    fleet.observe(live_object(PLAIN, HELD))
    assert unread(fleet.graph, PLAIN) == {(PLAIN, "hold", "audit")}
    assert holds.hold(fleet.graph, PLAIN)
    observe_directives(fleet.graph, holds.hold, PLAIN)
    found = holds.hold(fleet.graph, PLAIN)
    assert found
    assert found.until == fleet.graph.now + DEFAULT_POLICY.max_hold
    fleet.graph.advance(fleet.graph.now + timedelta(hours=1))
    assert holds.hold(fleet.graph, PLAIN) == found, "the first observation stays"
    fleet.graph.advance(found.until)
    assert holds.hold(fleet.graph, PLAIN) is None


def test_the_hold_of_a_source_holds_its_instances() -> None:
    fleet = GraphFleet(links(["x0"]))
    fleet.observe(live_object(PLATFORM, HELD))
    observe_directives(fleet.graph, holds.hold, X0)
    found = holds.hold(fleet.graph, X0)
    assert found
    assert found == holds.source_hold(fleet.graph, "platform")
    assert found.message.startswith("source platform is held by an unknown person until")
    assert holds.own_hold(fleet.graph, X0) is None
    fleet.observe(live_object(PLATFORM, {}))
    assert holds.hold(fleet.graph, X0) is None


def test_a_hold_in_git_counts_from_what_a_record_tells() -> None:
    """Of an instance that is about to leave, its own status tells it; of a plain object, the record of its source."""
    fleet = GraphFleet({**links(["x0"]), "p.json": plain("p")})
    since = timestamp(fleet.graph.now - timedelta(hours=1))
    asked = {"hold": {"said": "audit", "since": since}}
    fleet.observe(
        live_object(PLATFORM, {}, data={"asked": json.dumps({str(PLAIN): asked})}),
        live_object(PLAIN, HELD),
    )
    assert unread(fleet.graph, PLAIN) == set()
    found = holds.hold(fleet.graph, PLAIN)
    assert found
    assert found.until == fleet.graph.now - timedelta(hours=1) + DEFAULT_POLICY.max_hold
    assert people.first_observed(fleet.graph, X0, "hold", "audit") == people.UNSEEN
    fleet.observe(live_object(X0, HELD, status={"levelgate": {"asked": asked}}))
    assert timestamp(people.first_observed(fleet.graph, X0, "hold", "audit")) == since
    assert people.first_observed(fleet.graph, X0, "hold", "another reason") == people.UNSEEN
    assert people.first_observed(fleet.graph, X0, "breakGlass", "audit") == people.UNSEEN


def test_the_record_of_a_source_tells_the_first_observation_of_an_instance_that_does_not_exist() -> None:
    fleet = GraphFleet(links(["x0"]))
    since = timestamp(fleet.graph.now - timedelta(hours=1))
    rows = [
        {"object": str(X0), "message": "held by Git: another", "since": timestamp(fleet.graph.now)},
        {"object": str(X0), "message": "held by Git: audit", "since": since},
        {"object": str(instance_key("x1")), "message": "held by Git: audit", "since": timestamp(fleet.graph.now)},
    ]
    fleet.observe(live_object(PLATFORM, {}, data={"causes": json.dumps(rows)}))
    assert timestamp(people.first_observed(fleet.graph, X0, "hold", "audit")) == since
