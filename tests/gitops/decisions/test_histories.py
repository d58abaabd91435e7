"""What a graph decides, during random histories of a repository: equal to what is decided from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.plan import planner
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, Plan
from applier.state.observed import Observed
from gitops.decisions.source_sets import SourceProgress, source_progress
from gitops.reconcile import step
from gitops.reconcile.context import Context
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from tests.support.graph_inputs import GraphFeed, set_observed
from tests.support.graph_renderings import assert_plans, assert_renders, assert_states
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import repositories


@dataclass
class ComparingStep:
    """Rendering of a step, compared with the decisions of a graph that follows the same knowledge."""

    feed: GraphFeed = field(default_factory=GraphFeed)
    plans: int = 0

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
            self.feed.set_plan_inputs(
                transaction, rendering.sources, constraints, permissions, to_final_state=to_final_state
            )
        self.feed.observed = observed
        assert_plans(self.feed.graph, expected)
        self.plans += 1
        return expected


ORIGINAL = step._rendered


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_the_graph_decides_what_is_decided_from_scratch(history: Sequence[Files], instant: bool) -> None:
    """Over commits, and over the rounds and passes of each, with controllers at work."""
    comparing = ComparingStep()
    with pytest.MonkeyPatch.context() as patch, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        patch.setattr(step, "_rendered", comparing.rendered)
        patch.setattr(step, "plan", comparing.planned)
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []
    assert comparing.plans > len(history)
