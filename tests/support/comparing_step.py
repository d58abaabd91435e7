"""Steps of reconciliations, compared with what a graph decides that follows the same knowledge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from applier.plan import planner
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, Plan
from applier.state.observed import Observed
from gitops.decisions import decide
from gitops.decisions.decision import Decision
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.source_sets import SourceProgress, source_progress
from gitops.reconcile import step
from gitops.reconcile.context import Context
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from tests.support.graph_inputs import GraphFeed, set_observed
from tests.support.graph_renderings import (
    assert_directives,
    assert_holds,
    assert_plans,
    assert_renders,
    assert_rules,
    assert_states,
)
from tests.support.graph_rollouts import assert_rollouts

ORIGINAL = step._rendered
ORIGINAL_DECISION = decide.decide_changes


@dataclass
class ComparingStep:
    """Rendering of a step, compared with the decisions of a graph that follows the same knowledge."""

    feed: GraphFeed = field(default_factory=GraphFeed)
    plans: int = 0
    decisions: int = 0
    """Number of decisions that stood, so that the graph had to come to the same."""
    _constraints: PlanConstraints = field(default_factory=PlanConstraints)
    _permissions: ChangePermissions = field(default_factory=ChangePermissions)

    def rendered(self, catalogs: Sequence[Catalog], known: Context, types: KindSchemas, memo: RenderCache) -> Rendering:
        whole = (*catalogs, *known.elsewhere)
        expected = render.render(whole, step._world(known, whole, types), RenderCache())
        with self.feed.following(whole, known) as transaction:
            transaction.now = known.observed.now
        assert_renders(self.feed.graph, expected)
        assert_states(self.feed.graph, expected, known.observed)
        return ORIGINAL(catalogs, known, types, memo)

    def planned(
        self,
        rendering: Rendering,
        observed: Observed,
        constraints: PlanConstraints,
        permissions: ChangePermissions,
        comparison_cache: ComparisonCache,
        *,
        to_final_state: bool = False,
    ) -> Plan:
        expected = planner.plan(
            rendering, observed, constraints, permissions, comparison_cache, to_final_state=to_final_state
        )
        with self.feed.graph.transaction() as transaction:
            set_observed(transaction, self.feed.observed, observed)
            transaction.now = observed.now
            for source, rendered in rendering.sources.items():
                progress = SourceProgress(rendered.is_applied, rendered.applied_rendering, rendered.begun)
                transaction.set(source_progress.at(source), progress)
            self.feed.set_plan_inputs(transaction, rendering.sources, constraints, to_final_state=to_final_state)
        self.feed.observed, self._constraints, self._permissions = observed, constraints, permissions
        if to_final_state:
            with self.feed.assuming(permissions):
                assert_plans(self.feed.graph, expected)
        self.plans += 1
        return expected

    def decided(self, here: DecisionInputs) -> Decision:
        decision = ORIGINAL_DECISION(here)
        with self.feed.graph.transaction() as transaction:
            self.feed.set_decision_inputs(transaction, here)
        assert_directives(self.feed.graph, here)
        assert_rules(self.feed.graph, here)
        if (again := self._planned_again(here, decision)) == here.plan:
            self._assert_stands(here, decision, again)
        elif not here.conditions.is_part:
            # The plan follows from an earlier decision, and so do the items of its rollouts.
            with self.feed.assuming(self._permissions):
                assert_rollouts(self.feed, here)
        return decision

    def _planned_again(self, here: DecisionInputs, decision: Decision) -> Plan:
        """Return the plan that follows from a decision about an earlier plan."""
        return planner.plan(here.bundle, here.observed, self._constraints, decision.gates)

    def _assert_stands(self, here: DecisionInputs, decision: Decision, expected: Plan) -> None:
        """Assert that the graph decides by itself what a decision says that changes nothing any more."""
        with self.feed.graph.transaction() as transaction:
            self.feed.set_rollouts(transaction, here.states, here.requests, decision.gates.targets)
        if here.conditions.is_part:
            self.feed.observe_progress()
        else:
            assert_rollouts(self.feed, here)
        assert_holds(self.feed.graph, here, decision)
        assert_plans(self.feed.graph, expected)
        self.decisions += 1


@contextmanager
def comparing_steps() -> Iterator[ComparingStep]:
    """Compare every whole step of this process while the block runs."""
    comparing = ComparingStep()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "_rendered", comparing.rendered)
        patch.setattr(step, "plan", comparing.planned)
        patch.setattr(decide, "decide_changes", comparing.decided)
        yield comparing
