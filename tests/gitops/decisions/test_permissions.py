"""Permissions of changes in a graph: holds, turns, gates and windows, and what a change of each costs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from applier.causes import Cause, Reason
from applier.errors import Invalid, Unavailable
from applier.plan.constraints import RefusedWrite, refusal_relevant_state
from gitops.decisions import holds, live, people, permissions, plan_inputs, rules
from gitops.decisions.actions import set_plan
from gitops.queries import QueryGraph, Roots, query
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.window import LOCAL, Window
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.graph_fleet import LINKS, PLATFORM, GraphFleet, instance_key, links, live_object, named
from tests.support.graph_inputs import changed, observe_directives
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import config_map, definition, instance, plain
from tests.support.windows.documents import window

X0 = instance_key("x0")
PLAIN = ObjectKey("", "ConfigMap", "default", "p")
OPEN_AT = timedelta(hours=8)
"""Time from the start of the graph, which is midnight, until the window `office` opens."""


def gated(node: dict[str, Any], *names: str, text: str = "one") -> Files:
    """Return a definition with one node, and its instances."""
    instances = {f"{name}.json": instance("Link", name, text=text) for name in names or ("x0",)}
    return {"l.json": definition("Link", [node]), **instances}


def office(**spec: Any) -> Window:
    """Return a window that is open from 8:00 to 9:00 UTC."""
    return window("office", zone="UTC", cron="0 8 * * *", duration="1h", **spec)


def ruled(files: Files, *windows: Window) -> GraphFleet:
    """Return a fleet whose sets are applied, under these windows."""
    fleet = GraphFleet(files)
    fleet.apply(PLATFORM)
    for key in files:
        if key.startswith("x"):
            fleet.apply(instance_key(key.removesuffix(".json")))
    found = SourceRules("platform", {one.name: one for one in windows})
    fleet.set(
        (rules.source_rules.at("platform"), found),
        (rules.cluster_name.at(), LOCAL),
        (rules.is_clock_skewed.at(), False),
    )
    return fleet


def waits(fleet: GraphFleet, parent: ObjectKey = X0) -> dict[str, Cause | None]:
    """Return the cause that bars the change of each node of a set, or None for a permitted change."""
    observe_directives(fleet.graph, set_plan, parent)
    plan = set_plan(fleet.graph, parent)
    assert plan
    return {node.node.id.rpartition("/")[2]: node.blocked for node in plan.nodes}


def reasons(fleet: GraphFleet, parent: ObjectKey = X0) -> dict[str, Reason | None]:
    return {name: cause.reason if cause else None for name, cause in waits(fleet, parent).items()}


def messages(fleet: GraphFleet, parent: ObjectKey = X0) -> str:
    return "; ".join(cause.message for cause in waits(fleet, parent).values() if cause)


def test_a_gate_of_a_node_is_asked_again_when_what_it_reads_changes() -> None:
    node = config_map("a", propagateWhen=["${schema.spec.text != 'later'}"])
    fleet = ruled(gated(node))
    fleet.commit(gated(node, text="later"))
    assert reasons(fleet) == {"a": Reason.GATE_CLOSED}
    fleet.commit(gated(node, text="now"))
    assert reasons(fleet) == {"a": None}


def test_a_gate_counts_failed_items_whatever_the_gate_itself_says() -> None:
    """The write of `i1` was refused. So the gate stays closed for all items, and counts that failure again."""
    node = config_map(
        "a",
        name="${schema.metadata.name}-${n}",
        forEach=[{"n": "${['i0', 'i1', 'i2']}"}],
        propagateWhen=["${failed(a) == 0}"],
    )
    fleet = ruled(gated(node))
    fleet.commit(gated(node, text="two"))
    assert reasons(fleet) == {"0": None, "1": None, "2": None}
    plan = set_plan(fleet.graph, X0)
    assert plan
    failed = plan.nodes[1]
    assert failed.node.key
    refused = RefusedWrite(Invalid("no"), failed.node.manifest, refusal_relevant_state(failed.live))
    fleet.set((plan_inputs.refused_writes.at(X0), {failed.node.key: refused}))
    assert reasons(fleet) == {"0": Reason.GATE_CLOSED, "1": Reason.APPLY_FAILED, "2": Reason.GATE_CLOSED}


def test_a_closed_window_holds_changes_until_it_opens_and_healing_goes_on() -> None:
    """W5."""
    fleet = ruled(links(["x0"]), office())
    fleet.commit(links(["x0"], text="two"))
    assert set(reasons(fleet).values()) == {Reason.WINDOW_CLOSED}
    fleet.graph.advance(fleet.graph.now + OPEN_AT)
    assert set(reasons(fleet).values()) == {None}
    fleet.graph.advance(fleet.graph.now + timedelta(hours=1))
    assert set(reasons(fleet).values()) == {Reason.WINDOW_CLOSED}


def test_a_hold_holds_content_and_lets_healing_go_on() -> None:
    fleet = ruled(links(["x0"]))
    fleet.observe(live_object(PLATFORM, {well_known.HOLD: "audit"}))
    fleet.observe(live_object(ObjectKey("", "ConfigMap", "default", "x0-a"), {}, data={}))
    fleet.commit(links(["x0"], text="two"))
    assert reasons(fleet)["b"] is Reason.HELD


def test_a_break_glass_passes_a_window_until_it_ends() -> None:
    """W26."""
    fleet = ruled(links(["x0"]), office())
    fleet.commit(links(["x0"], text="two"))
    end = fleet.graph.now + timedelta(hours=1)
    asked = {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: end.isoformat()}
    obj = fleet.graph.answer(permissions.passing, X0, "platform")
    assert obj.value == rules.NO_PASSING
    fleet.annotate(X0, asked)
    passing = fleet.graph.answer(permissions.passing, X0, "platform")
    assert passing.value
    assert passing.value.until is None, "it has no effect before its first observation is known"
    assert set(reasons(fleet).values()) == {None}
    fleet.graph.advance(end)
    assert set(reasons(fleet).values()) == {Reason.WINDOW_CLOSED}
    assert "break-glass refused: ended at" in messages(fleet)


def test_a_break_glass_of_a_plain_object_that_no_record_can_tell_has_no_effect() -> None:
    fleet = ruled({"p.json": plain("p")}, office())
    fleet.commit({"p.json": plain("p", text="two")})
    end = fleet.graph.now + timedelta(hours=1)
    fleet.annotate(PLAIN, {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: end.isoformat()})
    assert set(reasons(fleet, PLATFORM).values()) == {None}
    fleet.set((permissions.record_error.at("platform"), Unavailable("too large")))
    assert set(reasons(fleet, PLATFORM).values()) == {Reason.WINDOW_CLOSED}
    assert "its use cannot be recorded: too large" in messages(fleet, PLATFORM)


def test_rules_that_cannot_be_read_close_the_source() -> None:
    fleet = ruled(links(["x0"]))
    fleet.commit(links(["x0"], text="two"))
    fleet.set((rules.source_rules.at("platform"), SourceRules("platform", {}, (), "freeze.yaml is unreadable")))
    assert set(reasons(fleet).values()) == {Reason.GATE_ERROR}


def test_a_word_on_one_instance_plans_that_instance_alone_among_any_number() -> None:
    costs = []
    for count in (10, 300):
        fleet = ruled(links(named(count)))
        cost = fleet.annotate(instance_key("x1"), {well_known.HOLD: "audit"})
        costs.append({name: cost[name] for name in ("_set_plan", "suspension", "own_hold", "node_state")})
    assert costs[0] == costs[1]
    assert costs[0]["_set_plan"] == 2, "the set of the instance, and that of the source, which has the instance"


@query
def one_instance(_: QueryGraph) -> frozenset[ObjectKey]:
    return frozenset({X0})


@query
def what_time_changes(graph: QueryGraph, instance: ObjectKey) -> Any:
    periods = rules.window_periods(graph, instance.group_kind)
    bypassed = permissions.bypassed_windows(graph, instance)
    return {name: period.until for name, period in periods.items()}, bypassed, holds.own_hold(graph, PLAIN)


TIMED = Roots("what time changes", order=99, members=one_instance, result=what_time_changes)


def test_time_alone_ends_a_hold_a_break_glass_and_the_period_of_a_window() -> None:
    fleet = ruled({**links(["x0"]), "p.json": plain("p")}, office(cutoff="10m"))
    now = fleet.graph.now
    ends = [(now + timedelta(hours=hours)).isoformat() for hours in (1, 2)]
    fleet.annotate(X0, {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: ends[0]})
    fleet.annotate(PLAIN, {well_known.HOLD: "audit", well_known.HOLD_UNTIL: ends[1]})
    observe_directives(fleet.graph, what_time_changes, X0)
    found = []
    for minutes in (0, 60, 60, 360, 50):
        fleet.graph.advance(fleet.graph.now + timedelta(minutes=minutes))
        changed(fleet.graph, TIMED)
        periods, bypassed, held = what_time_changes(fleet.graph, X0)
        found.append((periods["office"] - now, set(bypassed), bool(held)))
    assert found == [
        (timedelta(hours=8), {"office"}, True),
        (timedelta(hours=8), set(), True),
        (timedelta(hours=8), set(), False),
        (timedelta(hours=8, minutes=50), set(), False),
        (timedelta(hours=32), set(), False),
    ]


def test_a_gate_that_reads_the_time_is_asked_each_minute() -> None:
    """S1-13."""
    node = config_map("a", propagateWhen=["${now >= timestamp('2026-01-01T00:02:00Z')}"])
    fleet = ruled(gated(node))
    fleet.commit(gated(node, text="two"))
    found = []
    for seconds in (0, 59, 61, 0):
        fleet.graph.advance(fleet.graph.now + timedelta(seconds=seconds))
        found.append(reasons(fleet)["a"])
    assert found == [Reason.GATE_CLOSED, Reason.GATE_CLOSED, None, None]


def test_a_break_glass_that_a_window_forbids_says_so_and_then_that_it_has_ended() -> None:
    fleet = ruled(links(["x0"]), office(breakGlass="Forbidden"))
    fleet.commit(links(["x0"], text="two"))
    end = fleet.graph.now + timedelta(hours=1)
    fleet.annotate(X0, {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: end.isoformat()})
    assert "a window that governs it forbids that" in messages(fleet)
    fleet.graph.advance(end)
    assert "break-glass refused: ended at" in messages(fleet)


@pytest.mark.parametrize("is_in_git", [True, False])
def test_a_break_glass_in_git_passes_the_windows_of_its_own_source(is_in_git: bool) -> None:
    files, later = links(["x0"]), (GraphFleet({}).graph.now + timedelta(hours=1)).isoformat()
    words = {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: later}
    manifest = json.loads(files["x0.json"])
    manifest["metadata"]["annotations"] = words if is_in_git else {}
    fleet = ruled({**files, "x0.json": json.dumps(manifest)})
    if not is_in_git:
        fleet.annotate(X0, words)
    observe_directives(fleet.graph, permissions.passing, X0, "platform")
    found = permissions.passing(fleet.graph, X0, "platform")
    assert (found.until is not None, found.everywhere) == (True, not is_in_git)


def test_the_record_of_a_source_tells_since_when_its_break_glass_counts_for_all_its_objects() -> None:
    fleet = ruled({"p.json": plain("p")})
    end = (fleet.graph.now + timedelta(hours=1)).isoformat()
    said = {well_known.BREAK_GLASS_REASON: "INC-7", well_known.BREAK_GLASS_UNTIL: end}
    fleet.observe(live_object(PLATFORM, said))
    answer = fleet.graph.answer(permissions.passing, PLAIN, "platform")
    assert {one.args[0] for one in answer.unread if one.family is people.first_observation} == {PLATFORM}


def deleting(fleet: GraphFleet, **labels: str) -> set[Reason | None]:
    """Let a person delete `x0`, which Git does not want, and return why its members stay."""
    obj = live.live(fleet.graph, X0)
    assert obj
    metadata = {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}
    fleet.observe({**obj, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}})
    observe_directives(fleet.graph, set_plan, X0)
    return {reason for *_, reason in fleet.outcomes(X0).values()}


def test_the_members_of_an_unwanted_instance_wait_for_what_governs_its_former_source() -> None:
    selector = {"instances": {"matchLabels": {"tier": "x"}}}
    deny = window("freeze", kind="Deny", zone="UTC", cron="0 0 * * *", duration="1h", selector=selector)
    fleet = ruled(links(["x0"]), deny)
    fleet.commit(LINKS)
    assert deleting(fleet) == {None}
    assert deleting(fleet, tier="x") == {Reason.WINDOW_CLOSED}
    assert deleting(fleet, tier="y") == {None}
    fleet.observe(live_object(PLATFORM, {well_known.HOLD: "audit"}))
    assert deleting(fleet, tier="y") == {Reason.HELD}


def test_a_suspended_instance_writes_nothing() -> None:
    fleet = ruled(links(["x0"]))
    fleet.annotate(X0, {well_known.SUSPEND: "audit"})
    plan = set_plan(fleet.graph, X0)
    assert plan
    assert plan.error
    assert plan.error.reason is Reason.SUSPENDED
    fleet.commit(links(["x0"], text="two"))
    assert set(reasons(fleet).values()) == {Reason.SUSPENDED}
