"""Rendering and plan of everything in a graph, and the directives that bypass windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitops.decisions import instances, live, resources
from gitops.decisions.definitions import stored_revisions
from gitops.decisions.renderings import PLAN, RENDERING, whole_rendering
from gitops.decisions.rollout_records import rollout_state
from gitops.decisions.rollout_steps import ROLLOUT_STEPS
from gitops.queries import QueryGraph
from renderer.identity import ObjectKey
from renderer.render.revisions import AppliedSnapshot, StoredRevisions
from tests.support.graph_fleet import LINK, PLATFORM, GraphFleet, instance_key, live_object
from tests.support.graph_inputs import changed, load_texts
from tests.support.properties.repositories import config_map, definition, instance
from tests.support.rollout_fleet import NAME, RolloutFleet

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


def _see_instance(fleet: RolloutFleet, version: str) -> None:
    _observe(fleet, X1, version)


def _report_rollout(fleet: RolloutFleet, version: str) -> None:
    state = rollout_state(fleet.graph, NAME)
    assert state
    fleet.record(state.with_progress((), [version], (), fleet.graph.now))


def _report_source(fleet: RolloutFleet, version: str) -> None:
    _observe(fleet, PLATFORM, version, data={"target": version})


def _commit_instance(fleet: RolloutFleet, version: str) -> None:
    fleet.files["x1.json"] = instance("Link", "x1", text=version)
    fleet.catalog = load_texts("platform", fleet.files, fleet.catalog)
    stored = StoredRevisions({LINK: stored_revisions(fleet.graph, LINK)})
    with fleet.graph.transaction() as transaction:
        fleet.feed.set_catalogs(transaction, [fleet.catalog], stored)


def _observe(fleet: RolloutFleet, key: ObjectKey, version: str, **fields: Any) -> None:
    obj = live.live(fleet.graph, key)
    assert obj
    with fleet.graph.transaction() as transaction:
        live.set_objects(transaction, [{**obj, **fields, "metadata": {**obj["metadata"], "resourceVersion": version}}])


def _cost_of(event: Callable[[RolloutFleet, str], None], count: int) -> tuple[int, ...]:
    """Return the marks, checks and evaluations after an event among *count* instances."""
    fleet = RolloutFleet(count)
    if live.live(fleet.graph, PLATFORM) is None:
        fleet.observe(live_object(PLATFORM, {}))
    for version in ("100", "101"):  # The first event also follows what the preparation of the fleet has left.
        before = _cost(fleet.graph)
        event(fleet, version)
        changed(fleet.graph, PLAN)
        changed(fleet.graph, ROLLOUT_STEPS)
    return tuple(now - then for now, then in zip(_cost(fleet.graph), before, strict=True))


@pytest.mark.parametrize("event", [_see_instance, _report_rollout, _report_source, _commit_instance])
def test_an_event_costs_the_same_among_any_number_of_instances(event: Callable[[RolloutFleet, str], None]) -> None:
    """An event marks, checks and computes nothing of an instance that it does not concern."""
    assert _cost_of(event, 10) == _cost_of(event, 60)
