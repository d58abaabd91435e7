"""Steps of reconciliations, compared with graphs and plans that are made from scratch on the same knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest

from applier.causes import Cause
from applier.plan.constraints import PlanConstraints
from applier.plan.model import Barrier, CandidateChange, ChangePermissions, Plan
from gitops.decisions.actions import turn_of
from gitops.decisions.decision import Decision
from gitops.decisions.live_view import Lookup
from gitops.decisions.people import suspension
from gitops.decisions.permissions import SetChecks
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rules import policy_of
from gitops.queries import QueryGraph
from gitops.reconcile import decision_reads
from gitops.reconcile.context import Context
from gitops.reconcile.earlier_objects import EarlierObjects
from gitops.reconcile.graph_step import GraphDecider
from gitops.rollouts.policy import Policy
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey
from renderer.render import render
from renderer.render.model import Rendering
from renderer.render.world import ClusterView
from tests.support import reference_plan
from tests.support.fresh_graph import assert_as_fresh
from tests.support.graph_renderings import assert_renders, assert_states

Decided = tuple[Rendering, Plan, Context]
Follow = Callable[[GraphDecider, Sequence[Catalog], Context], None]


def view_of(decider: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> ClusterView:
    """Return what a rendering from scratch follows where the graph follows its inputs."""
    placed = replace(known, propagation=Decision(places=decider.inputs.placements))
    return decision_reads.view_of(placed, catalogs, decider.reads.seen.types)


@contextmanager
def after_each_look(check: Follow) -> Iterator[None]:
    """Call *check* each time the graph has followed what a reconciliation knows, before it plans."""
    follow: Follow = GraphDecider.follow
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
        patch.setattr(GraphDecider, "follow", follow_and_note)
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
        expected = render.render(catalogs, view_of(decider, catalogs, known))
        assert_renders(decider.graph, expected)
        assert_states(decider.graph, expected, known.observed)
        self._constraints, self.renderings = known.records, self.renderings + 1

    def decided(self, decider: GraphDecider, catalogs: Sequence[Catalog], decided: Decided) -> None:
        """Compare everything that the graph has computed, and the plan with one that no graph has made."""
        bundle, plan, known = decided
        if known.propagation.stopped or bundle.issued:
            return
        graph = decider.graph
        assert_as_fresh(graph)
        rendering = render.render(catalogs, view_of(decider, catalogs, known))
        rendering = with_earlier_objects(rendering, known.earlier)
        assert self._constraints is not None
        with graph.reading():
            permissions = permissions_in(graph)
            expected = reference_plan.plan(rendering, known.observed, self._constraints, permissions)
        assert [one.rendered.parent for one in plan.sets] == [one.rendered.parent for one in expected.sets]
        for ours, theirs in zip(plan.sets, expected.sets, strict=True):
            assert ours == theirs
        self.decisions += 1

    def explained(self, decider: GraphDecider) -> None:
        """Compare everything that explanations have added."""
        assert_as_fresh(decider.graph)


def with_earlier_objects(bundle: Rendering, earlier: EarlierObjects) -> Rendering:
    """Return the rendering, in which these sources know their own objects as earlier commits say them."""
    known = {name: own for name, own in earlier.items() if own and name in bundle.sources}
    if not known:
        return bundle
    sources = {
        name: replace(bundle.sources[name], applied_rendering=own.applied, begun=own.begun)
        for name, own in known.items()
    }
    return replace(bundle, sources={**bundle.sources, **sources})


def permissions_in(graph: QueryGraph) -> ChangePermissions:
    """Return the permissions that a graph gives to the changes of all sets."""

    def find_cause(change: CandidateChange) -> Cause | None:
        parent = change.set.parent
        return SetChecks(graph, parent, turn_of(graph, parent)).find_cause(change)

    def target_of(key: ObjectKey) -> int | None:
        return granted_revision(graph, key) or turn_of(graph, key).restated_revision or None

    def barrier_of(key: ObjectKey) -> Barrier | None:
        policy = policy_of(graph, key)
        return policy.barrier if isinstance(policy, Policy) else None

    return ChangePermissions(
        find_cause,
        Lookup(target_of, "granted revisions"),
        Lookup(partial(suspension, graph), "suspensions"),
        Lookup(barrier_of, "barriers"),
    )


@contextmanager
def comparing_steps() -> Iterator[ComparingStep]:
    """Compare every whole step of this process while the block runs."""
    comparing = ComparingStep()
    decide, explain = GraphDecider.decide, GraphDecider.explain

    async def decide_and_compare(self: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> Decided:
        decided = await decide(self, catalogs, known)
        comparing.decided(self, catalogs, decided)
        return decided

    def explain_and_compare(
        self: GraphDecider, bundle: Rendering, decided: Plan, known: Context
    ) -> tuple[Plan, Context]:
        explained = explain(self, bundle, decided, known)
        comparing.explained(self)
        return explained

    with after_each_look(comparing.followed), pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphDecider, "decide", decide_and_compare)
        patch.setattr(GraphDecider, "explain", explain_and_compare)
        yield comparing
