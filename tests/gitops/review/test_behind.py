"""What a policy with a barrier makes wait beside descendants (S0-9, S0-26): the plan says it."""

from __future__ import annotations

import pytest

from gitops.review.report import Report
from tests.gitops.review.commits import planned
from tests.properties.repositories import config_map, definition, instance
from tests.properties.test_planned import CLOSED, rule


def report(barrier: str, first: dict[str, object], **window: object) -> Report:
    """An instance with two nodes at level 0, `a` and `b`, and one that reads `b`; something is in the way of `a`."""
    link = definition(
        "Link", [{**config_map("a"), **first}, config_map("b"), config_map("c", "b")], spec={"text": "string"}
    )
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "selector": {"nodes": ["a"]}}
    rules = {"policy.json": rule("PropagationPolicy", {"barrier": barrier})}
    rules |= {"window.json": rule("PropagationWindow", closed)} if window else {}
    base, head = ({"link.json": link, **rules, "x.json": instance("Link", "x", text=text)} for text in ("one", "two"))
    return planned(base, head)


def gates(found: Report) -> dict[str, list[str]]:
    """By node, what is behind its gates."""
    return {one.node: [gate.name for gate in one.gates] for one in found.changes if one.node}


@pytest.mark.parametrize(("barrier", "last"), [("Path", []), ("Level", []), ("All", ["a"])])
def test_a_gate_holds_the_levels_after_it_only_where_all_counts(barrier: str, last: list[str]) -> None:
    found = gates(report(barrier, {}, window=True))
    assert found == {"a": ["propagationwindow"], "b": [], "c": last}


@pytest.mark.parametrize(("barrier", "last"), [("Path", []), ("Level", ["a"]), ("All", ["a"])])
def test_what_cannot_be_done_holds_the_levels_after_it(barrier: str, last: list[str]) -> None:
    fixed = config_map("a")["template"] | {"immutable": True}
    found = report(barrier, {"template": fixed})
    assert [str(one.action) for one in found.changes if one.node] == ["failed", "update", "update"]
    assert gates(found) == {"a": [], "b": [], "c": last}
