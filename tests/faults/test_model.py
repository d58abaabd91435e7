"""The protocol, explored: no interleaving, crash, second writer or slow finalizer breaks an invariant; `make faults` goes further."""

from __future__ import annotations

from dataclasses import fields

import pytest

from applier.cluster import Object
from tests.faults.model import Foreign, Found, Graph, Live, Rules, State, explore, histories, level, sampled, wave
from tests.properties.waves import judge, member


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


@pytest.mark.parametrize("histories_", [list(histories(2, 3)), list(sampled(4, 2, seed=7, count=40))], ids=["2", "4"])
def test_the_program_prunes_as_the_model_does(histories_: list[tuple[Graph, ...]]) -> None:
    """I4: in every state of the model `applier.prune` lets go what the model lets go, so what is proved of the one holds for the other."""
    compared = 0
    for history in histories_:
        seen: set[State] = set()
        explore(history, meddle=False, visit=seen.add)
        for slots, commit in {(state.slots, state.commit) for state in seen}:
            live = {node: slot for node, slot in enumerate(slots) if isinstance(slot, Live)}
            desired = {node for node, uses in enumerate(history[commit]) if uses is not None}
            assert not any(isinstance(slot, Foreign) for slot in slots)
            objects = [as_listed(node, slot, level(history[slot.commit], node)) for node, slot in live.items()]
            found = judge(objects, desired=map(str, desired))
            allowed = {int(name) for name, orphan in found.items() if orphan.allowed}
            assert allowed == wave(live, live.keys() - desired, Rules(), history), (history, slots)
            compared += 1
    assert compared > 1_000


def as_listed(node: int, slot: Live, depth: int) -> Object:
    """A member of the model as the program sees it; what it still uses of the commit before shows in its status."""
    needs = [f"{other}{'' if other in slot.wants else '~'}" for other in sorted(slot.recorded)]
    found = member(str(node), *needs, level=depth, terminating=slot.going)
    if not slot.is_healthy:
        found["status"] = {"conditions": [{"type": "Reconciling", "status": "True"}]}
    return found


A, B, C = 0, 1, 2
TURNED = ((frozenset(), frozenset({A}), frozenset({A, B})), (frozenset({C}), frozenset(), frozenset()), (None,) * 3)


def test_a_circle_of_records_is_cut_where_nobody_uses_it_any_more() -> None:
    """I4, S0-14: found by the model. A commit turned A under C, and is superseded by one that wants nothing; B is not healthy yet, C is."""
    assert breaches([explore(TURNED, meddle=False)]) == []
    live = {
        A: Live(1, frozenset({C}), frozenset({C}), frozenset({C})),
        B: Live(1, frozenset(), frozenset({A}), frozenset({A})),
        C: Live(1, frozenset(), frozenset({A, B}), frozenset()),
    }
    found = judge(as_listed(node, slot, level(TURNED[1], node)) for node, slot in live.items())
    assert [name for name, orphan in found.items() if orphan.allowed] == [str(B)]
