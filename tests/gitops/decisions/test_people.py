"""Directives of people in a graph: whose word counts, for which objects, and until when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from applier.causes import Cause, Reason
from gitops.decisions import people
from gitops.queries import QueryGraph, Roots, query
from gitops.records.installation import INSTALLATION
from gitops.rollouts.directives import NO_DIRECTIVES
from renderer import well_known
from renderer.definition.crd import key_of
from renderer.identity import ObjectKey, applyset_id
from tests.support.graph_fleet import LINK, PLATFORM, GraphFleet, instance_key, labelled, links, live_object
from tests.support.graph_inputs import changed
from tests.support.properties.repositories import plain

X0 = instance_key("x0")
CRD = key_of(LINK)
PLAIN = ObjectKey("", "ConfigMap", "default", "p")


def crd(fleet: GraphFleet, **annotations: str) -> Any:
    """Return the CRD of the definition as the server has it, with annotations that a person set."""
    obj = fleet.catalog.definitions[LINK].crd
    own = {**(obj["metadata"].get("annotations") or {}), well_known.DEFINITION: "links", **annotations}
    return {**obj, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "1", "annotations": own}}


def suspended(fleet: GraphFleet, *keys: ObjectKey) -> list[str]:
    """Return the message of the suspension of each key, or an empty text."""
    found = (people.suspension(fleet.graph, key) for key in keys)
    return [cause.message if cause else "" for cause in found]


def test_a_suspension_counts_for_all_that_belongs_to_the_suspended_object() -> None:
    fleet = GraphFleet({**links(["x0"]), "p.json": plain("p")})
    everything = PLATFORM, CRD, X0, PLAIN
    assert suspended(fleet, *everything) == ["", "", "", ""]
    fleet.observe(live_object(X0, {well_known.SUSPEND: "audit"}))
    assert suspended(fleet, *everything) == ["", "", "suspended: audit", ""]
    fleet.observe(crd(fleet, **{well_known.SUSPEND: "migration"}))
    name = next(iter(fleet.catalog.definitions.values())).name
    of_kind = f"definition {name} is suspended: migration"
    assert suspended(fleet, *everything) == ["", of_kind, of_kind, ""]
    fleet.observe(live_object(PLATFORM, {well_known.SUSPEND: "freeze"}))
    of_source = "source platform is suspended: freeze"
    assert suspended(fleet, *everything) == [of_source, of_kind, of_source, ""]


def test_a_plain_object_is_suspended_in_git_or_by_a_person() -> None:
    fleet = GraphFleet({"p.json": plain("p")})
    fleet.observe(live_object(PLAIN, {well_known.SUSPEND: "audit"}))
    assert suspended(fleet, PLAIN) == ["suspended: audit"]
    fleet.observe(held_by("another-set", live_object(PLAIN, {well_known.SUSPEND: "audit"})))
    assert suspended(fleet, PLAIN) == [""], "the object belongs to another set"
    fleet.commit({})
    fleet.observe(held_by(applyset_id(PLATFORM), live_object(PLAIN, {well_known.SUSPEND: "audit"})))
    assert suspended(fleet, PLAIN) == ["suspended: audit"], "the source still has the object"


def held_by(set_id: str, obj: Any) -> Any:
    return {**obj, "metadata": {**obj["metadata"], "labels": {well_known.PART_OF: set_id}}}


def test_a_suspension_ends_at_its_time() -> None:
    fleet = GraphFleet(links(["x0"]))
    end = fleet.graph.now + timedelta(hours=1)
    fleet.observe(live_object(X0, {well_known.SUSPEND: "audit", well_known.SUSPEND_UNTIL: end.isoformat()}))
    assert people.suspension(fleet.graph, X0) == Cause(
        Reason.SUSPENDED, f"suspended until {end:%Y-%m-%dT%H:%MZ}: audit", until=end
    )
    assert fleet.graph.next_moment == end
    fleet.graph.advance(end)
    assert people.suspension(fleet.graph, X0) is None


def test_the_configuration_and_the_order_of_sources_come_before_people() -> None:
    fleet = GraphFleet(links(["x0"]))
    fleet.observe(live_object(PLATFORM, {well_known.SUSPEND: "freeze"}))
    fleet.set((people.prerequisites.at("platform"), ("base",)))
    waits = "source platform waits until base has been applied once"
    assert suspended(fleet, PLATFORM, X0) == [waits, waits]
    fleet.set((people.suspended_by_configuration.at("platform"), "maintenance"))
    configured = "source platform is suspended by the configuration: maintenance"
    assert suspended(fleet, PLATFORM, X0) == [configured, configured]
    fleet.set((people.suspended_by_configuration.at("platform"), ""))
    labels = {well_known.PARENT_ID: applyset_id(PLATFORM)}
    parent = live_object(PLATFORM, {})
    fleet.observe({**parent, "metadata": {**parent["metadata"], "labels": labels}})
    assert suspended(fleet, PLATFORM) == [""], "a source with an inventory waits for no other source"


def test_another_source_suspends_a_definition_that_it_owns() -> None:
    fleet = GraphFleet(links(["x0"]))
    cause = Cause(Reason.SUSPENDED, "the source of the definition suspends it")
    fleet.set((people.foreign_suspension.at(LINK), cause))
    assert people.suspension(fleet.graph, X0) == cause
    assert people.suspension(fleet.graph, CRD) == cause


def test_everything_is_suspended_by_the_record_of_the_installation() -> None:
    fleet = GraphFleet({})
    assert people.installation_suspension(fleet.graph) is None
    fleet.observe(live_object(INSTALLATION, {well_known.SUSPEND: "freeze"}))
    found = people.installation_suspension(fleet.graph)
    assert found
    assert found.message == "everything is suspended: freeze"


@pytest.mark.parametrize("carrier", [X0, CRD, PLATFORM], ids=["own", "definition", "source"])
def test_a_break_glass_of_something_wider_counts_without_an_own_one(carrier: ObjectKey) -> None:
    fleet = GraphFleet(links(["x0"]))
    reasons = {PLATFORM: "wide", CRD: "kind", X0: "own"}
    order = [PLATFORM, CRD, X0]
    for key in order[: order.index(carrier) + 1]:
        annotations = {well_known.BREAK_GLASS_REASON: reasons[key]}
        fleet.observe(crd(fleet, **annotations) if key == CRD else live_object(key, annotations))
    assert people.instance_directives(fleet.graph, X0).break_glass_reason == reasons[carrier]


def test_an_unwanted_instance_belongs_to_the_source_of_the_set_that_holds_it() -> None:
    fleet = GraphFleet(links(["x0"]))
    gone, nested = instance_key("gone"), instance_key("nested")
    fleet.observe(labelled(gone, PLATFORM), labelled(nested, gone))
    assert [people.source_of(fleet.graph, key) for key in (X0, gone, nested)] == ["platform"] * 3
    assert people.source_of(fleet.graph, instance_key("unknown")) == ""
    fleet.observe(live_object(PLATFORM, {well_known.SUSPEND: "freeze"}))
    assert suspended(fleet, nested) == ["source platform is suspended: freeze"]


def test_the_crd_of_a_definition_and_an_instance_are_no_plain_objects() -> None:
    fleet = GraphFleet(links(["x0"]))
    fleet.observe(crd(fleet, **{well_known.SUSPEND: "audit"}), live_object(X0, {well_known.SUSPEND: "audit"}))
    assert people.object_directives(fleet.graph, CRD) is NO_DIRECTIVES
    assert people.object_directives(fleet.graph, X0) is NO_DIRECTIVES


@query
def suspendable(_: QueryGraph) -> frozenset[ObjectKey]:
    return frozenset(map(instance_key, ("x0", "x1")))


SUSPENSIONS = Roots("suspensions", order=99, members=suspendable, result=people.suspension)


def test_a_directive_on_one_instance_concerns_that_instance_alone() -> None:
    fleet = GraphFleet(links(["x0", "x1"]))
    changed(fleet.graph, SUSPENSIONS)
    before = fleet.graph.cost.evaluations["instance_suspension"]
    fleet.observe(live_object(X0, {well_known.SUSPEND: "audit"}))
    (answer,) = changed(fleet.graph, SUSPENSIONS)
    assert answer.key == X0
    assert fleet.graph.cost.evaluations["instance_suspension"] == before + 1
