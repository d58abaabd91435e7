"""Windows and policies in a graph: equal to a verdict from scratch at each moment, and asked again only at edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.decisions import definitions, rules
from gitops.decisions.rules import NO_PASSING, Passing, TargetKey, window_verdict
from gitops.queries import QueryGraph, Roots, query
from gitops.rollouts.policy import DEFAULT_POLICY, Policy, PolicySelector
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.verdict import TrustedTime, WindowVerdict, judge
from gitops.windows.window import LOCAL, Window, WindowTarget
from renderer.errors import Problem
from tests.support.graph_fleet import LINK, GraphFleet, links
from tests.support.graph_inputs import changed, new_graph
from tests.support.properties.examples import examples
from tests.support.windows.documents import window

TARGET = TargetKey(LINK, "prod", "links", "", ())
HOUR = timedelta(hours=1)


def daily(name: str, kind: str, hour: int, length: int, **spec: Any) -> Window:
    """Return a window that is active each day for `length` hours from `hour` on."""
    return window(name, kind=kind, cron=f"0 {hour} * * *", duration=f"{length}h", **spec)


def rules_of(source: str, *windows: Window, closed_reason: str = "", policies: tuple[Policy, ...] = ()) -> SourceRules:
    return SourceRules(source, {one.name: one for one in windows}, policies, closed_reason)


def ruled(*found: SourceRules, governors: tuple[str, ...] = ()) -> QueryGraph:
    """Return a graph in which `governors` govern the first source as well."""
    graph = new_graph()
    with graph.transaction() as transaction:
        transaction.set(definitions.sources.at(), tuple(one.source for one in found))
        transaction.set(rules.cluster_name.at(), LOCAL)
        transaction.set(rules.is_clock_skewed.at(), False)
        transaction.set(rules.governors.at(found[0].source), governors)
        for one in found:
            transaction.set(rules.source_rules.at(one.source), one)
    return graph


def verdict_at(graph: QueryGraph, passing: Passing = NO_PASSING, source: str = "a") -> WindowVerdict:
    return window_verdict(graph, TARGET, Operation.UPDATE, source, passing)


DRAWN = st.lists(
    st.tuples(st.sampled_from(["Allow", "Deny"]), st.integers(0, 23), st.integers(1, 12)), min_size=1, max_size=3
)


@query
def one_target(_: QueryGraph) -> frozenset[TargetKey]:
    return frozenset({TARGET})


@query
def present_verdict(graph: QueryGraph, target: TargetKey) -> WindowVerdict:
    return window_verdict(graph, target, Operation.UPDATE, "a", NO_PASSING)


VERDICTS = Roots("verdicts", order=99, members=one_target, result=present_verdict)


@examples(30)
@given(drawn=DRAWN, steps=st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_a_verdict_follows_time_as_one_from_scratch(
    drawn: Sequence[tuple[str, int, int]], steps: Sequence[int]
) -> None:
    """Steps of half an hour to twenty hours, also to the moments at which the graph says that something changes."""
    windows = [daily(f"w{number}", *one) for number, one in enumerate(drawn)]
    found = rules_of("a", *windows)
    graph = ruled(found)
    target = WindowTarget(LINK, "prod", LOCAL, "links", "", {})
    for step in steps:
        changed(graph, VERDICTS)
        expected = judge([found.window_set(None)], target, Operation.UPDATE, TrustedTime(graph.now))
        assert verdict_at(graph) == expected
        edge = graph.next_moment
        assert edge == expected.next_edge
        graph.advance(min(edge, graph.now + step * HOUR / 2) if step % 2 else graph.now + step * HOUR / 2)


def test_a_verdict_is_reached_again_only_at_an_edge() -> None:
    graph = ruled(rules_of("a", daily("night", "Allow", 22, 2)))
    changed(graph, VERDICTS)
    before = graph.cost.evaluations["window_verdict"]
    graph.advance(graph.now + HOUR)
    assert list(changed(graph, VERDICTS)) == []
    assert graph.cost.evaluations["window_verdict"] == before
    edge = graph.next_moment
    assert edge
    graph.advance(edge)
    (answer,) = changed(graph, VERDICTS)
    assert answer.value
    assert answer.value.is_open


def test_windows_of_governing_sources_count_as_well() -> None:
    graph = ruled(rules_of("a"), rules_of("b", daily("freeze", "Deny", 0, 23, zone="UTC")), governors=("b",))
    assert not verdict_at(graph).is_open
    with graph.transaction() as transaction:
        transaction.set(rules.governors.at("a"), ())
    assert verdict_at(graph).is_open


def test_all_rules_govern_a_source_that_is_not_known() -> None:
    graph = ruled(rules_of("a"), rules_of("b", daily("freeze", "Deny", 0, 23, zone="UTC")))
    assert not verdict_at(graph, source="gone").is_open
    assert rules.closed_reason(graph, "gone") == ""


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("owner", ["a", "b"])
def test_a_break_glass_from_git_passes_windows_of_its_own_source_only(owner: str, everywhere: bool) -> None:
    freeze = rules_of(owner, daily("freeze", "Deny", 0, 23, zone="UTC"))
    both = [freeze, rules_of("b")] if owner == "a" else [rules_of("a"), freeze]
    graph = ruled(*both, governors=("b",))
    end = graph.now + HOUR
    passing = Passing(end, everywhere)
    assert verdict_at(graph, passing).is_open == (everywhere or owner == "a")
    graph.advance(end)
    assert not verdict_at(graph, passing).is_open


def test_no_allow_opens_while_the_clock_cannot_be_trusted() -> None:
    graph = ruled(rules_of("a", daily("day", "Allow", 0, 23, zone="UTC")))
    assert verdict_at(graph).is_open
    with graph.transaction() as transaction:
        transaction.set(rules.is_clock_skewed.at(), True)
    assert verdict_at(graph).reason is Reason.CLOCK_SKEW


def test_a_verdict_without_a_read_clock_and_a_read_name_is_unread() -> None:
    answer = new_graph().answer(window_verdict, TARGET, Operation.UPDATE, "a", NO_PASSING)
    assert {key.family.name for key in answer.unread} >= {"cluster_name", "is_clock_skewed"}


def test_rules_that_cannot_be_read_close_every_source_that_they_govern() -> None:
    graph = ruled(rules_of("a"), rules_of("b", closed_reason="freeze.yaml cannot be read"), governors=("b",))
    assert rules.closed_reason(graph, "a") == "freeze.yaml cannot be read"
    with graph.transaction() as transaction:
        transaction.set(rules.governors.at("a"), ())
    assert rules.closed_reason(graph, "a") == ""


def fleet_of(*found: SourceRules, governors: tuple[str, ...] = ()) -> QueryGraph:
    fleet = GraphFleet(links(["x0"]))
    inputs: list[tuple[Any, Any]] = [(rules.source_rules.at(one.source), one) for one in found]
    fleet.set(*inputs, (rules.governors.at("platform"), governors))
    return fleet.graph


def policy(name: str, *definitions_named: str) -> Policy:
    return replace(DEFAULT_POLICY, name=name, selector=PolicySelector(definitions_named))


def test_the_most_specific_policy_applies_and_the_own_one_among_equals() -> None:
    own = rules_of("platform", policies=(policy("own"),))
    common = rules_of("common", policies=(policy("wide"),))
    graph = fleet_of(own, common, governors=("common",))
    found = rules.instance_policy(graph, LINK, ())
    assert not isinstance(found, Problem)
    assert found.name == "own"
    graph = fleet_of(rules_of("platform"), common, governors=("common",))
    found = rules.instance_policy(graph, LINK, ())
    assert not isinstance(found, Problem)
    assert found.name == "wide"
    assert rules.instance_policy(fleet_of(rules_of("platform")), LINK, ()) is DEFAULT_POLICY
    name = definitions.definitions(graph).current[LINK].name
    narrow = rules_of("common", policies=(policy("wide"), policy("narrow", name)))
    found = rules.instance_policy(fleet_of(own, narrow, governors=("common",)), LINK, ())
    assert not isinstance(found, Problem)
    assert found.name == "narrow"
