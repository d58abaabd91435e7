"""Privileges that grow, in words (docs/plans.md, *What a reviewer is warned of*)."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.plan.operators import find_deleted_operators
from gitops.plan.privileges import describe_growth
from gitops.plan.report import PlannedAction, PlannedChange
from renderer.identity import ObjectKey

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
    assert list(describe_growth(old, new)) == told


@pytest.mark.parametrize("broken", ["text", {"clusterRoleSelectors": "text"}, {"clusterRoleSelectors": ["text"]}])
def test_a_rule_that_no_server_would_take_allows_nothing(broken: object) -> None:
    assert list(describe_growth(None, {**role(), "aggregationRule": broken})) == []


def allowing(*rules: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": list(rules),
    }


READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
URL = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, allowing(READ), ["get pods"]),
        (allowing({**READ, "verbs": ["*"]}), allowing(READ), []),
        (allowing(READ), allowing({**READ, "verbs": ["*"]}), ["* pods"]),
        (allowing(READ), allowing({**READ, "resourceNames": ["web"]}), []),
        (allowing({**READ, "resourceNames": ["web"]}), allowing(READ), ["get pods"]),
        (None, allowing({**READ, "resourceNames": ["web"]}), ["get pods named web"]),
        (allowing(READ), allowing({**READ, "apiGroups": ["apps"]}), ["get pods.apps"]),
        (allowing(READ), allowing(READ, URL), ["get /metrics"]),
    ],
)
def test_a_role_grows_by_what_none_of_its_rules_allowed(
    old: dict[str, Any] | None, new: dict[str, Any], told: list[str]
) -> None:
    assert list(describe_growth(old, new)) == told


def binding(role: str = "view", /, **subject: str) -> dict[str, Any]:
    metadata = {"name": "b", "namespace": "prod"}
    said = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "ServiceAccount", **subject}]}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata, **said}


def test_who_had_another_role_gets_this_one() -> None:
    mine = binding() | {"subjects": [{"kind": "User", "name": "ada"}]}
    assert list(describe_growth(mine, mine)) == []
    assert list(describe_growth(mine, {**mine, "roleRef": binding("admin")["roleRef"]})) == [
        "User ada gets ClusterRole admin"
    ]


def live(manifest: dict[str, Any], kind: str, name: str, namespace: str = "ops") -> tuple[ObjectKey, dict[str, Any]]:
    group = "apps" if "template" in manifest.get("spec", {}) else "rbac.authorization.k8s.io"
    return ObjectKey(group, kind, namespace, name), manifest


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(
    ("goes", "uses", "where", "said"),
    [
        ([], [], "ops", ["which remain"]),
        (["q"], [], "ops", ["may be deleted before their finalizers are processed"]),
        (["q"], ["q"], "ops", []),
        ([], [], "other", []),
    ],
    ids=["they stay", "they go as well", "they go before", "the account of another namespace"],
)
def test_an_operator_that_goes_before_what_it_looks_after_is_told(
    kind: str, goes: list[str], uses: list[str], where: str, said: list[str]
) -> None:
    """Objects of groups of Kubernetes itself need no operator."""
    account = {"spec": {"template": {"spec": {"serviceAccountName": "operator"}}}}
    rules = allowing({**READ, "apiGroups": ["q.test", "apps", "networking.k8s.io"]})
    operator, queue = ObjectKey("apps", kind, "ops", "operator"), ObjectKey("q.test", "Queue", "prod", "q")
    bound = binding("r", name="operator", namespace=where)
    objects = dict(
        [live(account, kind, "operator"), live(bound, "RoleBinding", "b"), live(rules, "ClusterRole", "r", "")]
    )
    objects |= {queue: {}, ObjectKey("networking.k8s.io", "Ingress", "prod", "web"): {}}
    users = (str(queue),) if uses else ()
    changes = [PlannedChange(PlannedAction.DELETE, operator, f"{kind}.apps", users=users)]
    changes += [PlannedChange(PlannedAction.DELETE, queue, "Queue.q.test") for _ in goes]
    found = [one.message for one in find_deleted_operators(changes, objects)]
    assert [any(word in one for one in found) for word in said] == [True] * len(said) == [True] * len(found)
    assert not any("Ingress" in one for one in found)
