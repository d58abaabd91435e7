"""Steps of reconciliations, compared with what is decided from scratch on the same knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from applier.plan import planner
from applier.plan.constraints import PlanConstraints
from applier.plan.model import Plan
from gitops.decisions import decide
from gitops.decisions.decision import Decision
from gitops.decisions.inputs import DecisionInputs
from gitops.reconcile import step
from gitops.reconcile.context import Context
from gitops.reconcile.earlier_objects import with_earlier_objects
from gitops.reconcile.graph_reports import explained_decision
from gitops.reconcile.graph_step import GraphDecider
from renderer.catalog.catalog import Catalog
from renderer.identity import source_parent
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from renderer.render.world import ClusterView
from tests.support.graph_renderings import assert_directives, assert_holds, assert_renders, assert_rules, assert_states
from tests.support.graph_rollouts import assert_rollouts

Decided = tuple[Rendering, Plan, Context]
Follow = Callable[[GraphDecider, Sequence[Catalog], Context], None]


def view_of(decider: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> ClusterView:
    """Return what a rendering from scratch follows where the graph follows its inputs."""
    placed = replace(known, propagation=Decision(places=decider.inputs.placements))
    return step._world(placed, catalogs, decider.helper.seen.types)


@contextmanager
def after_each_look(check: Follow) -> Iterator[None]:
    """Call *check* each time the graph has followed what a reconciliation knows, before it plans."""
    follow: Follow = GraphDecider._follow
    plan: Callable[[GraphDecider], Plan] = GraphDecider._plan
    followed: dict[int, tuple[Sequence[Catalog], Context]] = {}

    def follow_and_note(self: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> None:
        follow(self, catalogs, known)
        followed[id(self)] = catalogs, known

    def check_and_plan(self: GraphDecider) -> Plan:
        if found := followed.pop(id(self), None):
            check(self, *found)
        return plan(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphDecider, "_follow", follow_and_note)
        patch.setattr(GraphDecider, "_plan", check_and_plan)
        yield


@dataclass
class ComparingStep:
    """Steps of a graph, compared with renderings, plans and decisions from scratch."""

    renderings: int = 0
    decisions: int = 0
    """Number of decisions that stood, so that the graph had to come to the same."""
    _constraints: PlanConstraints | None = None

    def followed(self, decider: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> None:
        """Compare the rendering, and how everything in it is."""
        expected = render.render(catalogs, view_of(decider, catalogs, known), RenderCache())
        assert_renders(decider.graph, expected)
        assert_states(decider.graph, expected, known.observed)
        self._constraints, self.renderings = known.records, self.renderings + 1

    def decided(self, decider: GraphDecider, catalogs: Sequence[Catalog], decided: Decided) -> None:
        """Compare the plan and the decisions about it, if no rollout lets another instance move."""
        bundle, plan, known = decided
        if known.propagation.stopped or bundle.issued:
            return
        rendering = render.render(catalogs, view_of(decider, catalogs, known), RenderCache())
        rendering = with_earlier_objects(rendering, known.earlier)
        before = replace(known.propagation, places=dict(decider.inputs.placements), states={}, grants={})
        here = DecisionInputs(known.conditions, rendering, plan, known.observed, known.archive.stored_revisions, before)
        assert_directives(decider.graph, here)
        assert_rules(decider.graph, here)
        decision = decide.decide_changes(here)
        assert_rollouts(decider.inputs, here, decision)
        assert_holds(decider.graph, here, decision)
        if known.propagation.grants:
            return
        assert self._constraints is not None
        gates = replace(decision.gates, targets=known.propagation.gates.targets)
        expected = planner.plan(rendering, known.observed, self._constraints, gates)
        with decider.graph.transaction() as transaction:
            decider.inputs.set_outlook(transaction, {})
        found = decider._plan()
        assert [one.rendered.parent for one in found.sets] == [one.rendered.parent for one in expected.sets]
        for ours, theirs in zip(found.sets, expected.sets, strict=True):
            assert ours == theirs
        _assert_explains(decider, here, found, known, decision.explain(decision))
        self.decisions += 1


def _assert_explains(
    decider: GraphDecider,
    here: DecisionInputs,
    plan: Plan,
    known: Context,
    expected: Decision,
) -> None:
    """Assert that reports tell of the decisions of the graph what is told from scratch."""
    found = explained_decision(decider.inputs, here.bundle, plan, known)
    assert found.stays == expected.stays
    assert found.remembered == expected.remembered
    assert found.counted == expected.counted
    assert found.awaited == expected.awaited
    assert found.frozen == expected.frozen
    assert found.source_requests == expected.source_requests
    assert found.problems == expected.problems
    for name in expected.rollouts:
        assert found.rollouts[name].closed == expected.rollouts[name].closed
        ours, theirs = found.states[name], expected.states[name]
        assert ours.waves == theirs.waves
    parents = {source_parent(source) for source in here.bundle.sources}
    assert found.gates.suspended == {key: why for key, why in expected.gates.suspended.items() if key in parents}
    # A time that is now has been decided. At the end of a break-glass, only what still waits is decided anew.
    passings = {one.directives.break_glass_until for one in here.asked_of_plain_objects.values()}
    for moment, at_latest in ((found.next_edge, expected.next_edge), (found.wake_at, expected.wake_at)):
        is_decided = at_latest is None or at_latest <= known.now or at_latest in passings
        assert is_decided or (moment and at_latest and moment <= at_latest), (moment, at_latest)


@contextmanager
def comparing_steps() -> Iterator[ComparingStep]:
    """Compare every whole step of this process while the block runs."""
    comparing = ComparingStep()
    original = GraphDecider.decide

    async def decide_and_compare(self: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> Decided:
        decided = await original(self, catalogs, known)
        comparing.decided(self, catalogs, decided)
        return decided

    with after_each_look(comparing.followed), pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphDecider, "decide", decide_and_compare)
        yield comparing
