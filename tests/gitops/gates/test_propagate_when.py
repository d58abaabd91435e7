"""Gates with values: open or closed, everything that is closed and why, and the pace that gates set (docs/rollouts.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.causes import Cause, CauseRef, Reason
from gitops.gates.evaluate import (
    ExternalFact,
    GateEvaluator,
    GateFacts,
    GateSubject,
    GateVariables,
    TargetVariables,
    make_gate_cause,
    parse_trailers,
)
from gitops.gates.pace import apply_pace
from gitops.rollouts.advance import decide_grants
from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import DEFAULT_POLICY, Mode, Policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape, Unpaced
from gitops.windows.verdict import find_window_period
from renderer.definition.gates import Gate
from tests.support.compiled_definitions import resource
from tests.support.gated_definitions import chain, definition, workers
from tests.support.properties.examples import examples
from tests.support.rollouts.rollouts import Rollout, items, settled
from tests.support.windows.documents import window

NOW = datetime(2026, 11, 20, 13, 0, 0, 999, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
FACTS = GateFacts(
    NOW,
    TargetVariables(13, "9c1d2e7", "Ada", "Raise the limit\n\nBecause.\n\nTicket: CHG-1\nReviewed-by: Bob"),
    windows={"open": True, "dba": False},
    externals={"yes": ExternalFact(True), "no": ExternalFact(False), "stale": ExternalFact(None, "too old")},
)
FRIDAY_11 = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
WINDOWS = {
    "dba": find_window_period(window("dba", cron="0 9 * * 1-5", duration="2h", ticket="CHG-7"), NOW),
    "open": find_window_period(window("open", cron="0 8 * * *", duration="8h"), NOW),
}
"""Since Friday 11:00 in Berlin the first is closed, until Monday 09:00."""


def gates(*expressions: str) -> tuple[Gate, ...]:
    """Gates across the instances of App."""
    return definition(across=[f"${{{expression}}}" for expression in expressions]).gates


def app(name: str = "shop", **lifecycle: Any) -> GateSubject:
    metadata = {"name": name, "namespace": "prod"}
    return GateSubject(
        {"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": metadata, "spec": {"size": 3}}, **lifecycle
    )


def view(item: GateSubject) -> GateVariables:
    return GateVariables(
        item, values={"schema": {name: part for name, part in item.manifest.items() if name != "status"}}
    )


def told(
    *expressions: str,
    item: GateSubject | None = None,
    others: Iterable[GateSubject] = (),
    facts: GateFacts = FACTS,
    counters: Counters | None = None,
) -> list[str]:
    """Everything that is closed for one instance, as reason and what made it so."""
    closed = GateEvaluator(gates(*expressions), facts, lambda: others).closed_gates(
        view(item or app()), counters or Counters()
    )
    return [f"{one.reason}: {one.error or ', '.join(one.operands)}" for one in closed]


def is_open(expression: str, **given: Any) -> bool:
    return told(expression, **given) == []


# ---- open, closed, cannot be judged


def test_where_nobody_knows_what_is_declared_a_fact_is_unknown_and_no_mistake() -> None:
    """Surface 6: plans without the operator's configuration."""
    unknown = "GateClosed: external('yes') = unknown"
    assert told("external('yes')", facts=replace(FACTS, externals=None)) == [unknown]


def test_gates_see_times_as_templates_do() -> None:
    """Rgd 1.11: one check of types, and so one meaning of values."""
    item = app()
    item.manifest["metadata"]["creationTimestamp"] = "2026-11-20T12:00:00Z"
    assert is_open("now - app.metadata.creationTimestamp >= duration('1h')", item=item)
    assert is_open("apps.all(x, x.metadata.creationTimestamp < now)", item=item, others=[item])


@pytest.mark.parametrize(
    "expression",
    [
        "each.spec.size == 3 && app.spec.size == 3 && schema.spec.size == 3",
        "inWindow('open') && external('yes')",
        "!inWindow('dba')",
        "inWindow('dba') || external('yes')",
        "external('stale') || external('yes')",
        "external('yes') || external('stale')",
        "now == timestamp('2026-11-20T13:00:00Z')",
        "target.revision == 13 && target.commit == '9c1d2e7' && target.author == 'Ada'",
        "target.trailers['Ticket'] == 'CHG-1'",
        "failed(apps) == 0",
    ],
)
def test_s1_36_open(expression: str) -> None:
    assert is_open(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("app.spec.size > 3", "GateClosed: app.spec.size = 3"),
        ("app.spec.size > 3 || app.ready()", "GateClosed: app.spec.size = 3, app.ready() = false"),
        ("app.spec.size == 3 && app.ready()", "GateClosed: app.ready() = false"),
        ("inWindow('dba')", "WindowClosed: inWindow('dba') = false"),
        ("!inWindow('open')", "WindowClosed: inWindow('open') = true"),
        ("inWindow('dba') && external('no')", "GateClosed: inWindow('dba') = false, external('no') = false"),
        ("external('no')", "GateClosed: external('no') = false"),
        ("external('stale')", "GateClosed: external('stale') = unknown (too old)"),
        ("!external('stale')", "GateClosed: external('stale') = unknown (too old)"),
        (
            "external('never heard of')",
            "GateError: external fact 'never heard of' is not declared; declare it under `externals` in levelgate.yaml",
        ),
        ("inWindow('other')", "GateError: window other does not exist; declare the window, or correct the gate"),
        ("app.spec.names == []", "GateError: no such key 'names' in app.spec"),
        ("dyn(app.spec.size)", "GateError: must be true or false, not int"),
        ("now > timestamp('2027-01-01T00:00:00Z')", "GateClosed: now = 2026-11-20T13:00:00Z"),
        ("app.metadata.name == 'cart'", 'GateClosed: app.metadata.name = "shop"'),
        ("app.spec.size > 4 ? true : app.ready()", "GateClosed: app.spec.size = 3, app.ready() = false"),
        ("apps == []", "GateClosed: apps = list of 2"),
        ("false", "GateClosed: "),
        ("failed(apps) == 0", "GateClosed: failed(apps) = 1"),
        ("failed(apps) == 0 || inWindow('dba')", "GateClosed: failed(apps) = 1, inWindow('dba') = false"),
    ],
)
def test_s1_5_closed_with_what_made_it_so(expression: str, expected: str) -> None:
    """A gate that cannot be judged is closed, and so is one whose external fact is not known (S1-11)."""
    counters = Counters(total=2, updated=1, failed=1)
    assert told(expression, others=[app(), app("cart")], counters=counters) == [expected]


def test_s1_2_s1_4_all_gates_must_be_open_and_all_closed_ones_are_told() -> None:
    assert told("app.ready()", "inWindow('open')", "app.spec.names == []", "external('no')") == [
        "GateClosed: app.ready() = false",
        "GateError: no such key 'names' in app.spec",
        "GateClosed: external('no') = false",
    ]


def test_a_closed_gate_says_where_it_stands() -> None:
    (closed,) = GateEvaluator(gates("inWindow('dba')"), FACTS).closed_gates(view(app()), Counters())
    assert str(closed) == "${inWindow('dba')} (platform/db.yaml:14): inWindow('dba') = false"
    assert closed.windows == {"dba"}


def test_an_error_says_where_it_stands() -> None:
    (closed,) = GateEvaluator(gates("app.spec.names == []"), FACTS).closed_gates(view(app()), Counters())
    assert str(closed) == "${app.spec.names == []} (platform/db.yaml:14): no such key 'names' in app.spec"


def test_long_values_and_lists_are_not_told_whole() -> None:
    item = app()
    item.manifest["spec"]["name"] = "x" * 1000
    assert told("app.spec.name == ''", item=item) == [f'GateClosed: app.spec.name = "{"x" * 56}...']
    assert told("app.metadata == {}") == ["GateClosed: app.metadata = map of 2"]


def test_which_windows_may_open_a_gate_again() -> None:
    (closed,) = GateEvaluator(
        gates("(inWindow('dba') || !inWindow('open')) && app.spec.size == 3"), FACTS
    ).closed_gates(view(app()), Counters())
    assert (closed.windows, closed.reason) == (frozenset({"dba", "open"}), Reason.WINDOW_CLOSED)


def test_the_wait_ends_no_sooner_than_the_last_window_opens() -> None:
    closed = GateEvaluator(gates("inWindow('dba')", "external('no')"), FACTS).closed_gates(view(app()), Counters())
    wait = make_gate_cause(closed, WINDOWS)
    assert wait
    assert (wait.reason, wait.until) == (Reason.WINDOW_CLOSED, MONDAY)
    assert wait.message.count("; ") == 1
    later = make_gate_cause(
        GateEvaluator(gates("inWindow('dba')", "!inWindow('open')"), FACTS).closed_gates(view(app()), Counters()),
        WINDOWS,
    )
    assert later
    assert later.until == MONDAY


def test_a_wait_carries_windows_gates_and_operands() -> None:
    """S1-4: for reports, every closed gate with its place and operands; behind it the windows, with their times, and the other gates."""
    wait = make_gate_cause(
        GateEvaluator(gates("inWindow('dba')", "external('no')"), FACTS).closed_gates(view(app()), Counters()), WINDOWS
    )
    assert wait
    assert wait.references == (
        CauseRef("Window", "dba", Reason.WINDOW_CLOSED, FRIDAY_11, MONDAY),
        CauseRef("Gate", "external('no')", Reason.GATE_CLOSED),
    )
    at = "platform/db.yaml:14"
    assert wait.details["gates"] == [
        {"expression": "inWindow('dba')", "at": at, "operands": ["inWindow('dba') = false"]},
        {"expression": "external('no')", "at": at, "operands": ["external('no') = false"]},
    ]


def test_a_gate_that_only_awaits_a_window_says_so_in_the_words_of_windows() -> None:
    def said(expression: str) -> str:
        wait = make_gate_cause(GateEvaluator(gates(expression), FACTS).closed_gates(view(app()), Counters()), WINDOWS)
        return wait.message if wait else ""

    assert said("inWindow('dba')") == "waits for window dba (CHG-7), opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)"
    assert said("!inWindow('open')").startswith("${!inWindow('open')} (platform/db.yaml:14)")


def test_a_window_that_never_opens_again_is_told_as_such() -> None:
    gone = {"once": [{"start": "2026-01-01T00:00", "end": "2026-01-02T00:00"}]}
    never = find_window_period(window("dba", schedule=gone), NOW)
    wait = make_gate_cause(
        GateEvaluator(gates("external('no')", "inWindow('dba')"), FACTS).closed_gates(view(app()), Counters()),
        {"dba": never},
    )
    assert wait
    assert (wait.reason, wait.until) == (Reason.NEVER_OPENS, None)


def test_nothing_closed_is_no_wait() -> None:
    assert make_gate_cause((), {}) is None


def test_s1_13_the_same_now_gives_the_same_answer_and_is_asked_again_at_the_next_tick() -> None:
    """Seconds are the finest that gates see."""
    assert GateEvaluator(gates("now.getHours() > 12"), FACTS).wake_at == NOW + timedelta(minutes=1)
    assert GateEvaluator(gates("inWindow('dba')"), FACTS).wake_at is None
    assert is_open("now.getMilliseconds() == 0")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Subject", {}),
        ("Fix: no trailer", {}),
        ("Subject\n\nTicket: CHG-1\n", {"Ticket": "CHG-1"}),
        ("Subject\n\nNote: in the text\n\nTicket:  CHG-1", {"Ticket": "CHG-1"}),
        ("", {}),
    ],
)
def test_trailers_stand_in_the_last_paragraph(message: str, expected: dict[str, str]) -> None:
    assert parse_trailers(message) == expected


# ---- one instance, one node


def test_s1_3_s1_40_a_gate_of_a_resource_sees_what_is_before_it() -> None:
    (gate,) = definition(*chain("a.ready() && a.data.name == schema.spec.name")).gates
    before = GateSubject({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"name": "x"}}, ready=True)
    seen = GateVariables(ancestors={"a": before}, values={"schema": {"spec": {"name": "x"}}})
    assert GateEvaluator([gate], FACTS).closed_gates(seen, Counters()) == ()
    (closed,) = GateEvaluator([gate], FACTS).closed_gates(
        GateVariables(values={"schema": {"spec": {"name": "x"}}}), Counters()
    )
    assert closed.reason is Reason.GATE_ERROR, "not observed yet"


def test_a_gate_of_an_item_sees_its_iterators_and_the_others() -> None:
    gates = definition(resource("a"), workers("zone == 'x' && workers.exists(w, w.ready()) && !each.ready()")).gates
    judge = GateEvaluator(gates, FACTS, lambda: [app(), app(ready=True)])
    assert judge.closed_gates(GateVariables(app(), values={"zone": "x"}), Counters()) == ()
    assert len(judge.closed_gates(GateVariables(app(), values={"zone": "y"}), Counters())) == 1


def test_the_data_of_secrets_is_withheld() -> None:
    secret = resource("a")
    secret["template"] |= {"kind": "Secret"}
    (gate,) = definition(secret, *chain("string(a.size()) == ''")[1:]).gates
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "x": "y"}
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": annotations}, "data": {"p": "hunter2"}}
    shown = GateSubject(live).as_value()
    assert "hunter2" not in str(shown)
    assert shown["metadata"]["annotations"] == {"x": "y"}
    (closed,) = GateEvaluator([gate], FACTS).closed_gates(GateVariables(ancestors={"a": GateSubject(live)}), Counters())
    assert "hunter2" not in str(closed)


# ---- once for all items


class Counted:
    """Items that count how often they are asked for."""

    def __init__(self, *found: GateSubject) -> None:
        self.found = found
        self.asked = 0

    def __call__(self) -> Iterable[GateSubject]:
        self.asked += 1
        return self.found


def test_s1_14_the_collection_is_listed_once_and_only_if_it_is_read() -> None:
    others = Counted(app(ready=True), app("cart"))
    judge = GateEvaluator(gates("apps.exists(x, x.ready()) && app.spec.size == 3"), FACTS, others)
    assert [judge.closed_gates(view(app(str(number))), Counters()) for number in range(20)] == [()] * 20
    assert others.asked == 1
    unread = Counted()
    GateEvaluator(gates("inWindow('open')", "app.spec.size == 3"), FACTS, unread).closed_gates(view(app()), Counters())
    assert unread.asked == 0


def test_s1_14_what_does_not_mention_the_item_is_worked_out_once() -> None:
    """The part that goes through the collection is kept for the items after the first."""
    gate = gates("app.spec.size == 4 || apps.filter(x, x.ready()).size() * 2 >= apps.size()")
    judge = GateEvaluator(gate, FACTS, lambda: [app(ready=True), app(), app(ready=True)])
    assert [judge.closed_gates(view(app()), Counters()) for _ in range(3)] == [()] * 3
    assert list(judge._values.values()) == [True]


def test_s1_14_a_failing_part_decides_only_where_it_is_needed() -> None:
    """CEL: an error on one side of `||` does not matter if the other side is true."""
    expression = "app.spec.size == 3 || apps.exists(x, x.metadata.labels.team == 'a')"
    assert is_open(expression, others=[app()])
    item = app()
    item.manifest["spec"]["size"] = 4
    assert told(expression, item=item, others=[app()]) == ["GateError: no such key 'labels' in apps[0].metadata"]


# ---- pace


TEN = "0123456789"


def rollout(*expressions: str, policy: Policy = DEFAULT_POLICY, found: dict[str, RolloutItem] | None = None) -> Rollout:
    """Ten instances whose definition has these gates."""
    judge = GateEvaluator(gates(*expressions), FACTS)
    made = Rollout(apply_pace(policy, judge.pace_gates or judge.conditions), items(TEN) if found is None else found)
    made.pace = judge.pace(policy, lambda key: view(app(key)))
    return made


@pytest.mark.parametrize(
    ("expression", "rounds"),
    [
        ("linearlyReady(each, apps)", list(TEN)),
        ("linearlyReady(each, apps, 3)", ["012", "345", "678", "9"]),
        ("linearlyReady(each, apps, '40%')", ["0123", "4567", "89"]),
        ("exponentiallyReady(each, apps)", ["0", "1", "23", "4567", "89"]),
        ("exponentiallyReady(app, apps, 3)", ["0", "12", "345678", "9"]),
        ("exponentiallyReady(each, apps, 5)", ["0", "1234", "56789"]),
        ("inFlight(apps) < 3", ["012", "345", "678", "9"]),
        ("inFlight(apps) < (settled(apps) > 1 ? settled(apps) : 1)", ["0", "1", "23", "4567", "89"]),
        ("linearlyReady(each, apps, 4) && exponentiallyReady(each, apps)", ["0", "1", "23", "4567", "89"]),
        ("linearlyReady(each, apps, 4) || app.metadata.name == '4'", ["01234", "567", "89"]),
    ],
)
def test_s1_9_s1_16_s1_43_the_pace_of_gates(expression: str, rounds: list[str]) -> None:
    assert rollout(expression).run() == rounds


def test_s1_16_an_item_that_is_not_ready_blocks_the_next_batch() -> None:
    assert rollout("linearlyReady(each, apps, 3) && inWindow('open')").run(sick="1") == ["012"]


def test_s1_43_in_flight_is_the_sliding_mode() -> None:
    """Each that settles makes room for the next, as with `mode: Sliding`."""
    found = items(TEN)
    for key in "01":
        found[key] = settled(found[key])
    found["2"] = RolloutItem("2", updated=True, granted=True, healthy=False)
    sliding = Policy(name="p", shape=Linear(CountOrPercent(3)), mode=Mode.SLIDING)
    assert rollout("inFlight(apps) < 3", found=found).step() == Rollout(sliding, found).step() == ["3", "4"]


@pytest.mark.parametrize("sick", ["", "0", "3", "27"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_rate_in_an_expression_is_the_shape_of_a_policy(n: int, mode: Mode, sick: str) -> None:
    """The mode stays the policy's."""
    policy = Policy(name="p", shape=Linear(CountOrPercent(n)), mode=mode)
    asked = rollout(f"linearlyReady(each, apps, {n}) && true", policy=Policy(name="p", mode=mode))
    assert asked.run(sick=sick) == Rollout(policy, items(TEN)).run(sick=sick)


@pytest.mark.parametrize(
    ("expressions", "shape"),
    [
        (["linearlyReady(each, apps, 3)"], Linear(CountOrPercent(3))),
        (["linearlyReady(each, apps, '25%')", "inWindow('dba')"], Linear(CountOrPercent(25, is_percent=True))),
        (["exponentiallyReady(each, apps, 3)"], Exponential(3)),
        (["inWindow('dba')"], Linear(CountOrPercent(7))),
        ([], Unpaced()),
    ],
)
def test_s1_6_what_a_list_says_about_the_pace(expressions: list[str], shape: Shape) -> None:
    """A rate takes the place of the policy's shape, conditions leave it, an empty list takes it away."""
    policy = Policy(name="p", shape=Linear(CountOrPercent(7)))
    assert apply_pace(policy, gates(*expressions)).shape == shape
    assert apply_pace(policy, None) is policy, "absent"


def test_a_pace_with_conditions_is_told_apart_from_them() -> None:
    """S1-44: the half that is ready may be so at the old revision."""
    judge = GateEvaluator(
        gates("apps.filter(x, x.ready()).size() * 2 >= apps.size()", "linearlyReady(each, apps, 2)", "inWindow('dba')"),
        FACTS,
        lambda: [app(ready=True), app()],
    )
    assert [one.reason for one in judge.closed_gates(view(app()), Counters())] == [Reason.WINDOW_CLOSED]
    full = Counters(total=10, updated=2, settled=1, healthy=10)
    (slow,) = judge.closed_pace_gates(DEFAULT_POLICY, view(app()), RolloutItem("x"), full)
    assert (slow.reason, slow.operands) == (Reason.PACE_REACHED, ("linearlyReady(each, apps, 2) = false",))
    assert judge.closed_pace_gates(DEFAULT_POLICY, view(app()), RolloutItem("x", granted=True), full) == (), (
        "it moved already"
    )


def test_s1_43_a_counter_alone_leaves_the_shape_to_the_policy() -> None:
    """A condition on failed items is added to the pace, as every condition is."""
    policy = Policy(name="p", shape=Linear(CountOrPercent(7)))
    judge = GateEvaluator(gates("failed(apps) == 0"), FACTS)
    assert judge.pace(policy, lambda key: view(app(key))) is None
    assert apply_pace(policy, judge.conditions).shape == policy.shape
    assert rollout("failed(apps) == 0").run() == ["0", "1", "23", "4567", "89"]
    assert rollout("failed(apps) == 0", "linearlyReady(each, apps, 4)").run() == ["0123", "4567", "89"]


@pytest.mark.parametrize(
    ("expression", "failed", "expected"),
    [
        ("linearlyReady(each, apps, 2) && failed(apps) == 0", 0, None),
        ("linearlyReady(each, apps, 2) && failed(apps) == 0", 1, Reason.GATE_CLOSED),
        ("linearlyReady(each, apps, 1) && failed(apps) == 0", 0, Reason.PACE_REACHED),
        ("inFlight(apps) < 1 && failed(apps) == 0", 0, Reason.PACE_REACHED),
        ("inFlight(apps) < 1 && failed(apps) == 0", 1, Reason.GATE_CLOSED),
    ],
)
def test_s1_44_a_counter_with_a_rate(expression: str, failed: int, expected: Reason | None) -> None:
    """Who waits only for the pace needs no person; a failed item does."""
    counters = Counters(total=10, updated=1, failed=failed)
    closed = GateEvaluator(gates(expression), FACTS).closed_pace_gates(
        DEFAULT_POLICY, view(app()), RolloutItem("x"), counters
    )
    assert [one.reason for one in closed] == ([expected] if expected else [])


def test_break_glass_passes_the_window_of_a_gate_that_reads_a_counter() -> None:
    judge = GateEvaluator(gates("inWindow('dba') && failed(apps) == 0"), FACTS)
    assert judge.overridden_windows(view(app()), Counters(), bypassed_windows=["dba"]) == {"dba"}
    assert judge.overridden_windows(view(app()), Counters(failed=1), bypassed_windows=["dba"]) == set()


def test_counters_are_told() -> None:
    judge = GateEvaluator(gates("inFlight(apps) < 3 && failed(apps) == 0"), FACTS)
    (slow,) = judge.closed_pace_gates(
        DEFAULT_POLICY, view(app()), RolloutItem("x"), Counters(total=10, updated=4, settled=1, failed=1)
    )
    assert slow.operands == ("inFlight(apps) = 3", "failed(apps) = 1")


def test_conditions_are_asked_of_those_whose_turn_it_is() -> None:
    """S1-14, S1-24: an item that a condition keeps makes room for the next; of what lies beyond the pace nothing is asked."""
    one = Rollout(DEFAULT_POLICY.with_pace(Linear(CountOrPercent(3))), items(f"{number:03}" for number in range(500)))
    asked: list[str] = []

    def gate(key: str) -> Cause | None:
        asked.append(key)
        return Cause(Reason.GATE_CLOSED, "closed") if key in {"001", "002"} else None

    found = decide_grants(one.policy, one.collection(), one.state, now=one.now, find_obstacle=gate)
    assert list(found.grants) == ["000", "003", "004"]
    assert len(asked) < 10


# ---- properties


CONDITIONS = (
    "app.spec.size == 3",
    "app.ready()",
    "inWindow('dba')",
    "inWindow('open')",
    "external('stale')",
    "app.status.nosuch == 1",
    "apps.exists(x, x.ready())",
)
PACES = ("linearlyReady(each, apps, 3)", "exponentiallyReady(each, apps)", "inFlight(apps) < 2", "settled(apps) >= 0")


@examples(60)
@given(st.lists(st.sampled_from(CONDITIONS), max_size=4), st.sampled_from(CONDITIONS))
def test_p9_one_more_condition_never_opens(listed: list[str], more: str) -> None:
    others = [app(), app(ready=True)]
    before, after = told(*listed, others=others), told(*listed, more, others=others)
    assert after == [*before, *told(more, others=others)]


@examples(60)
@given(st.lists(st.sampled_from(PACES), min_size=1, max_size=3), st.sampled_from(PACES), st.sets(st.sampled_from(TEN)))
def test_p9_one_more_rate_never_lets_more_move(listed: list[str], more: str, done: set[str]) -> None:
    found = {key: settled(item) if key in done else item for key, item in items(TEN).items()}
    together = rollout(*listed, more, found=found).step()
    for expressions in (listed, [more]):
        alone = rollout(*expressions, found=found).step()
        assert together == alone[: len(together)]


# ---- what the documentation shows


PAGE = Path("docs/rollouts.md").read_text()
SECTION = PAGE[PAGE.index("## Conditions: propagateWhen") : PAGE.index("## New instances")]


def test_the_expressions_of_the_documentation_compile_and_pace_as_it_says() -> None:
    (block,) = re.findall(r"```\n(linearlyReady.*?)```", SECTION, re.DOTALL)
    shown = dict(re.split(r" {3,}", line, maxsplit=1) for line in block.splitlines())
    expressions = [expression.replace("webapps", "apps") for expression in shown]
    assert len(gates(*expressions)) == 4
    assert shown["inFlight(webapps) < math.greatest(1, settled(webapps))"].startswith("1, 1, 2, 4,")
    assert list(map(len, rollout(expressions[2]).run())) == [1, 1, 2, 4, 2]
    assert (
        list(map(len, rollout(expressions[0]).run())) == list(map(len, rollout(expressions[1]).run())) == [3, 3, 3, 1]
    )


def test_the_report_of_the_documentation_is_what_is_told() -> None:
    """But for the place."""
    texts = re.findall(r"^\$\{(.*)\} \(.*\): (.*)$", SECTION, re.MULTILINE)
    window, mixed = [
        (expression.replace("webapp", "app").replace("replicas", "size"), parts) for expression, parts in texts
    ]
    facts = replace(FACTS, windows={"dba-hours": False})
    assert told(window[0], facts=facts) == [f"WindowClosed: {window[1]}"]
    item = app()
    item.manifest["spec"]["size"] = 5
    counters = Counters(total=10, updated=4, settled=2)
    (slow,) = GateEvaluator(gates(mixed[0]), FACTS).closed_pace_gates(
        DEFAULT_POLICY, view(item), RolloutItem("x"), counters
    )
    assert ", ".join(slow.operands) == mixed[1].replace("webapp", "app").replace("replicas", "size")
