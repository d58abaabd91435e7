"""Rendering and plan of everything in a graph, and the directives that bypass windows."""

from __future__ import annotations

from gitops.decisions import instances, live, resources
from gitops.decisions.renderings import PLAN, RENDERING, whole_rendering
from gitops.queries import QueryGraph
from renderer.identity import ObjectKey
from renderer.render.revisions import AppliedSnapshot
from tests.support.graph_fleet import PLATFORM, GraphFleet, instance_key
from tests.support.graph_inputs import changed
from tests.support.properties.repositories import config_map, definition, instance
from tests.support.rollout_fleet import RolloutFleet

X0, X1 = map(instance_key, ("x0", "x1"))
FILES = {
    "l.json": definition("Link", [config_map("a")]),
    "x0.json": instance("Link", "x0"),
    "x1.json": instance("Link", "x1"),
}


def test_the_rendering_has_the_sets_of_sources_and_instances_in_their_order() -> None:
    fleet = GraphFleet(FILES)
    found = whole_rendering(fleet.graph)
    assert list(found.instances) == [X0, X1]
    assert [rendered.parent for rendered in found.sets] == [PLATFORM, X0, X1]
    assert found.commits == {"platform": fleet.catalog.commit}
    assert found.owners == dict.fromkeys(found.definitions, "platform")
    assert found.leaving == found.former == {}


def test_an_unwanted_instance_that_waits_at_a_gate_is_rendered_as_it_was_applied() -> None:
    fleet = GraphFleet(FILES)
    manifest = fleet.catalog.objects[1].manifest
    snapshot = AppliedSnapshot(1, "digest", "record", "platform", manifest)
    fleet.commit({name: text for name, text in FILES.items() if name != "x1.json"})
    fleet.observe({**manifest, "metadata": {**manifest["metadata"], "namespace": "default", "uid": "1"}})
    fleet.set((resources.applied_snapshot.at(X1), snapshot))
    assert whole_rendering(fleet.graph).leaving == {}
    fleet.set((instances.is_gated.at(X1), True))
    found = whole_rendering(fleet.graph)
    assert list(found.leaving) == [X1]
    assert list(found.instances) == [X0]


def test_only_a_change_of_the_rendering_is_reported() -> None:
    fleet = GraphFleet(FILES)
    assert len(list(changed(fleet.graph, RENDERING))) == len(list(changed(fleet.graph, PLAN))) == 1
    unrelated = ObjectKey("", "ConfigMap", "default", "unrelated")
    with fleet.graph.transaction() as transaction:
        live.set_absent(transaction, [unrelated])
    assert list(changed(fleet.graph, RENDERING)) == list(changed(fleet.graph, PLAN)) == []
    fleet.commit({**FILES, "x0.json": instance("Link", "x0", text="two")})
    assert len(list(changed(fleet.graph, RENDERING))) == len(list(changed(fleet.graph, PLAN))) == 1


def _cost(graph: QueryGraph) -> tuple[int, int, int]:
    return graph.cost.marks.total(), graph.cost.checks.total(), graph.cost.evaluations.total()


def _cost_of_event(count: int) -> tuple[int, ...]:
    """Return the marks, checks and evaluations after an event on one of *count* instances."""
    fleet = RolloutFleet(count)
    for version in ("100", "101"):  # The first event also follows what the preparation of the fleet has left.
        obj = live.live(fleet.graph, X1)
        assert obj
        before = _cost(fleet.graph)
        with fleet.graph.transaction() as transaction:
            live.set_objects(transaction, [{**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}])
        assert changed(fleet.graph, PLAN)
    return tuple(now - then for now, then in zip(_cost(fleet.graph), before, strict=True))


def test_an_event_costs_the_same_among_any_number_of_instances() -> None:
    """An event on an instance marks, checks and computes nothing of another instance."""
    assert _cost_of_event(10) == _cost_of_event(60)
