"""Rules that a commit leaves without anything to select."""

from __future__ import annotations

import pytest

from gitops.plan.masking import SecretMasks
from gitops.plan.report import WarningKind
from gitops.plan.unmatched_rules import find_newly_unmatched
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from tests.support.git.commits import Files, planned, previewed
from tests.support.properties.plans import CLOSED, rule
from tests.support.properties.repositories import plain

NAMESPACE = {"ns.json": '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}'}
DENY = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}}


def window(namespace: str) -> dict[str, str]:
    return {"w.json": rule("PropagationWindow", {**DENY, "selector": {"namespaces": [namespace]}})}


BOTH = {**NAMESPACE, "a.json": plain("a"), "b.json": plain("b", namespace="late")}
ONE = {"a.json": plain("a")}


@pytest.mark.parametrize(
    ("base", "head", "count"),
    [
        (BOTH, {**BOTH, **window("latte")}, 1),
        (BOTH, {**BOTH, **window("late")}, 0),
        ({**BOTH, **window("late")}, {**ONE, **window("late")}, 1),
        ({**ONE, **window("late")}, {**ONE, **window("late"), "c.json": plain("c")}, 0),
    ],
    ids=["a new rule", "a rule that selects", "the last object goes", "a rule that never selected"],
)
def test_a_rule_is_warned_of_where_the_commit_is_the_reason(base: Files, head: Files, count: int) -> None:
    state = SourceState(load({file: text.encode() for file, text in head.items()}, source="platform", commit="a" * 40))
    changes = planned(base, head).changes
    warnings = [*find_newly_unmatched(previewed(base, head), state, changes, None, SecretMasks())]
    assert [warning.hazard for warning in warnings] == [WarningKind.SELECTS_NOTHING] * count
    assert [warning.hazard for warning in planned(base, head).warnings].count(WarningKind.SELECTS_NOTHING) == count
