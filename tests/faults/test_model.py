"""The protocol, explored: no interleaving, crash, second writer or slow finalizer breaks an invariant; `make faults` goes further."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import pytest

from applier.cluster import Object
from tests.support.faults.extent import first
from tests.support.faults.graphs import histories, sampled, wanted
from tests.support.faults.model import ALL, Found, Live, Rules, Slot, explore, wave
from tests.support.faults.reduction import explore_all
from tests.support.properties.waves import judge, member


def breaches(found: list[Found]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.breach, one.path) for one in found if one.breach]


@pytest.mark.parametrize(("size", "commits", "meddle"), [(2, 3, True), (3, 2, False)])
def test_every_small_history_keeps_every_invariant(size: int, commits: int, meddle: bool) -> None:
    """I1, I2, I3, I4, I7: all graphs, all interleavings, a crash and a new commit anywhere."""
    found = [explore(history, meddle=meddle) for history in histories(size, commits)]
    assert breaches(found) == []
    assert sum(one.states for one in found) > 10_000


def test_some_larger_histories_keep_every_invariant() -> None:
    """I1, I2, I3, I4, I7: up to four objects, three commits."""
    found = [explore(history, meddle=False) for history in sampled(4, 3, seed=20261121, count=10)]
    assert breaches(found) == []


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_without_any_one_rule_some_history_breaks(rule: str) -> None:
    """The checks can fail: each rule of the protocol is needed."""
    assert any(explore(history, Rules(**{rule: False})).breach for history in histories(2, 2))


def test_the_order_of_applying_is_looked_at_whether_a_person_comes_or_not() -> None:
    """I3: it is left out only where he has put something in the way."""
    found = [explore(history, Rules(ancestors_first=False), meddle=False).breach[:2] for history in histories(2, 2)]
    assert "I3" in found


@pytest.mark.parametrize(("size", "commits"), first(2, [(2, 3), (3, 2), (3, 3), (4, 2)]))
def test_the_program_prunes_as_the_model_does(size: int, commits: int) -> None:
    """I4: in every state of the model `applier.plan.prune_decision` lets go what the model lets go, so what is proved of the one holds for the other."""
    seen: set[tuple[frozenset[int], tuple[Slot, ...]]] = set()
    explore_all(
        size, commits, meddle=False, forget=False, visit=lambda graph, state: seen.add((wanted(graph), state.slots))
    )
    for desired, slots in seen:
        live = {node: slot for node, slot in enumerate(slots) if isinstance(slot, Live)}
        found = judge((as_listed(node, slot) for node, slot in live.items()), desired=map(str, desired))
        allowed = {int(name) for name, orphan in found.items() if orphan.allowed}
        assert allowed == wave(live, live.keys() - desired, ALL), (desired, slots)
    assert len(seen) > 100


def as_listed(node: int, slot: Live) -> Object:
    """A member of the model as the program sees it; what it still uses of the commit before shows in its status."""
    needs = [f"{other}{'' if other in slot.wants else '~'}" for other in sorted(slot.recorded)]
    found = member(str(node), *needs, level=slot.level, terminating=slot.going)
    if not slot.is_healthy:
        found["status"] = {"conditions": [{"type": "Reconciling", "status": "True"}]}
    return found


A, B, C, D = 0, 1, 2, 3
NONE: Final[frozenset[int]] = frozenset()
TURNED = ((NONE, frozenset({A}), frozenset({A, B})), (frozenset({C}), NONE, NONE), (None,) * 3)


def test_a_circle_of_records_is_cut_where_nobody_uses_it_any_more() -> None:
    """I4, S0-14: found by the model. A commit turned A under C, and is superseded by one that wants nothing; B is not healthy yet, C is."""
    assert breaches([explore(TURNED, meddle=False)]) == []
    live = {
        A: Live(1, frozenset({C}), frozenset({C}), frozenset({C}), level=1),
        B: Live(1, frozenset(), frozenset({A}), frozenset({A})),
        C: Live(1, frozenset(), frozenset({A, B}), frozenset()),
    }
    found = judge(as_listed(node, slot) for node, slot in live.items())
    assert [name for name, orphan in found.items() if orphan.allowed] == [str(B)]


def test_of_a_circle_of_records_only_those_go_that_really_use_one_another() -> None:
    """I4: found by the model with four objects and three commits, the last of which wants nothing, before D is healthy.

    By their records all use one another; in truth only C and D do. A and B, which D uses as well, are as deep as C, and have to wait.
    """
    turned = (frozenset({B, C}), frozenset({C}), NONE, frozenset({A, B, C}))
    history = (turned, (NONE, frozenset({A}), frozenset({A, D}), NONE), (None,) * 4)
    assert breaches([explore(history, meddle=False)]) == []
    live = {
        A: Live(1, frozenset(), frozenset({B, C}), frozenset()),
        B: Live(1, frozenset({A}), frozenset({A, C}), frozenset({A}), level=1),
        C: Live(1, frozenset({A, D}), frozenset({A, D}), frozenset({A, D}), level=1),
        D: Live(1, frozenset(), frozenset({A, B, C}), frozenset({A, B, C})),
    }
    found = judge(as_listed(node, slot) for node, slot in live.items())
    assert [name for name, orphan in found.items() if orphan.allowed] == [str(C)]
