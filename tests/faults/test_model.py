"""The protocol, explored: no interleaving, crash, second writer or slow finalizer breaks an invariant; `make faults` goes further."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.faults.model import Found, Rules, explore, histories, sampled


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
