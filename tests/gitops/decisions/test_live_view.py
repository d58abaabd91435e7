"""Plans over the view of a graph against plans over an observation, during random histories of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.cluster import Discovery
from applier.plan import planner
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, Plan
from applier.state.observed import Observed
from gitops.decisions.live_view import LiveView
from gitops.queries import Input, QueryGraph, query
from renderer.identity import ObjectKey
from renderer.render.model import Rendering
from tests.support.graph_inputs import new_graph, set_observed
from tests.support.link_platform import LinkPlatform
from tests.support.properties.happenings import NAMES, PLAIN, happens, plain

Copies = Callable[[], AbstractContextManager[LinkPlatform]]
EVENTS = st.one_of(
    st.tuples(
        st.sampled_from(["delete", "unready", "ready", "commit", "edit", "label", "delete instance"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.sampled_from(["delete plain", "edit plain", "commit plain"]), st.sampled_from(PLAIN)),
    st.tuples(st.just("remove from Git"), st.sampled_from((*NAMES, *PLAIN))),
)

request: Input[[], Any] = Input(
    "request", initial=None, starts_unread=False, same=lambda before, after: before is after
)


@query
def planned(graph: QueryGraph) -> Plan:
    rendering, now, constraints, permissions, to_final_state = request(graph)
    view = LiveView(graph, now)
    return planner.plan(rendering, view, constraints, permissions, to_final_state=to_final_state)


def remove(fleet: LinkPlatform, name: str) -> None:
    """Commit that the source declares `name` no longer."""
    fleet.written = {other: spec for other, spec in fleet.written.items() if other != name}
    fleet.plain = {other: obj for other, obj in fleet.plain.items() if other != name}
    fleet.push()


@dataclass
class ComparingPlanner:
    """Planner that plans over both, and compares."""

    graph: QueryGraph = field(default_factory=new_graph)
    last: Observed = field(default_factory=lambda: Observed(Discovery({})))
    plans: int = 0

    def plan(
        self,
        rendering: Rendering,
        observed: Observed,
        constraints: PlanConstraints,
        permissions: ChangePermissions,
        comparison_cache: ComparisonCache | None = None,
        *,
        to_final_state: bool = False,
    ) -> Plan:
        expected = planner.plan(
            rendering, observed, constraints, permissions, comparison_cache, to_final_state=to_final_state
        )
        with self.graph.transaction() as transaction:
            set_observed(transaction, self.last, observed)
            transaction.set(request.at(), (rendering, observed.now, constraints, permissions, to_final_state))
        self.last = observed
        assert planned(self.graph) == expected
        self.plans += 1
        return expected


@pytest.fixture(scope="module")
def settled() -> Iterator[Copies]:
    """Copies of one settled fleet."""
    with LinkPlatform(names=NAMES, plain={name: plain(name, "one") for name in PLAIN}) as fleet:
        fleet.start()
        fleet.available("web")
        fleet.step()
        yield fleet.copied


@settings(max_examples=10, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_plans_over_the_graph_are_the_plans_over_an_observation(
    settled: Copies, steps: list[list[tuple[str, str]]]
) -> None:
    comparing = ComparingPlanner()
    with settled() as fleet, mock.patch("gitops.reconcile.step.plan", comparing.plan):
        fleet.step()
        for events in steps:
            for what, name in events:
                if what == "remove from Git":
                    remove(fleet, name)
                elif name in fleet.written or name in fleet.plain:
                    happens(fleet, what, name)
            fleet.settle()
    assert comparing.plans > len(steps)


def test_a_plan_must_not_iterate_over_all_objects() -> None:
    view = LiveView(new_graph(), None)
    with pytest.raises(TypeError, match="must not iterate over all objects"):
        list(view.objects)
    with pytest.raises(TypeError, match="must not count all objects"):
        len(view.objects)
    assert ObjectKey("", "ConfigMap", "default", "a") not in view.objects
