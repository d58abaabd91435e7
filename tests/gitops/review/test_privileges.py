"""Privileges that grow, in words (docs/plans.md, *What a reviewer is warned of*)."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.review.privileges import growth

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def role(*selectors: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "wide", "labels": {AGGREGATE + name: value for name, value in labels.items()}},
        "aggregationRule": {"clusterRoleSelectors": list(selectors)},
    }


SHOP, OPS = {"matchLabels": {"team": "shop"}}, {"matchLabels": {"team": "ops", "tier": "prod"}}
ANY_TEAM = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, role(SHOP), ["all that roles with team=shop allow"]),
        (role(SHOP), role(SHOP), []),
        (role(SHOP), role(OPS, SHOP), ["all that roles with team=ops and tier=prod allow"]),
        (role(SHOP, OPS), role(OPS), []),
        (role(SHOP), role(ANY_TEAM), ['all that roles with {"key":"team","operator":"Exists"} allow']),
        (role(SHOP), role({}), ["all that roles with any labels allow"]),
        (role(), role(edit="true", view="false"), ["its rules become part of edit"]),
        (role(edit="true"), role(edit="true"), []),
    ],
    ids=["new", "same", "one more", "one fewer", "expression", "everything", "given to edit", "given before"],
)
def test_a_role_that_gathers_the_rules_of_more_others_grows(
    old: dict[str, Any] | None, new: dict[str, Any], told: list[str]
) -> None:
    """A role with an aggregationRule has no rules of its own: whoever has the labels gives it theirs, and `edit` and `view` gather so too."""
    assert list(growth(old, new)) == told


@pytest.mark.parametrize("broken", ["text", {"clusterRoleSelectors": "text"}, {"clusterRoleSelectors": ["text"]}])
def test_a_rule_that_no_server_would_take_allows_nothing(broken: object) -> None:
    assert list(growth(None, {**role(), "aggregationRule": broken})) == []
