"""Several sources, several instances, several namespaces, nested definitions, objects outside namespaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.git.repository import Repository


@pytest.fixture
def second(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "second")


def tenant(group: str) -> str:
    """A definition with a namespace of its own, an object outside namespaces, and an instance of another definition."""
    resources = [
        ("space", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${schema.spec.space}"}}),
        (
            "role",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "${schema.spec.space}-reader"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
            },
        ),
        (
            "settings",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "settings", "namespace": "${schema.spec.space}"},
            },
        ),
        (
            "app",
            {
                "apiVersion": f"{group}/v1",
                "kind": "Chain",
                "metadata": {"name": "app", "namespace": "${space.metadata.name}"},
            },
        ),
    ]
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"tenants.{group}"},
            "spec": {
                "schema": {
                    "group": group,
                    "apiVersion": "v1",
                    "kind": "Tenant",
                    "scope": "Cluster",
                    "spec": {"space": "string"},
                },
                "resources": [{"id": node, "template": template} for node, template in resources],
            },
        }
    )


def get(platform: CommandPlatform, *what: str, output: str = "name") -> str:
    return platform.kubectl("get", *what, "-o", output).strip()


@pytest.mark.both_servers
def test_two_sources_keep_to_themselves_and_share_one_catalog(platform: CommandPlatform, second: Repository) -> None:
    """One catalog: an instance in one source of a definition in another; removing it from one touches nothing of the other."""
    other = f"other-{platform.namespace}"
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    second.commit(
        {
            "two.json": link(platform.group, platform.namespace, "two"),
            "plain.json": config_map(platform.namespace, "plain", a="b"),
        }
    )
    sources = ("--source", f"{other}={second.path}")
    platform.run_once(*sources)
    members = get(platform, "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of").split()
    assert {name.removeprefix("configmap/") for name in members} == {"one-a", "one-b", "two-a", "two-b", "plain"}
    second.commit({"two.json": None})
    platform.run_once(*sources)
    members = get(platform, "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of").split()
    assert {name.removeprefix("configmap/") for name in members} == {"one-a", "one-b", "plain"}
    platform.kubectl("-n", "levelgate-system", "delete", "configmap", f"source-{other}")


def test_an_object_moved_to_another_source_is_handed_over_and_never_deleted(
    platform: CommandPlatform, second: Repository
) -> None:
    """Hand-over: B waits while A still wants it; once A does not, B takes it, with its uid."""
    other = f"other-{platform.namespace}"
    moving = config_map(platform.namespace, "moving", a="b")
    platform.repository.commit({"moving.json": moving, "stays.json": config_map(platform.namespace, "stays", a="b")})
    second.commit({"plain.json": config_map(platform.namespace, "plain", a="b")})
    sources = ("--source", f"{other}={second.path}")
    platform.run_once(*sources)
    uid = get(platform, "configmap", "moving", "-n", platform.namespace, output="jsonpath={.metadata.uid}")
    second.commit({"moving.json": moving})
    waits = platform.run_once(*sources, check=1)
    assert "OwnedElsewhere" in waits.stdout
    platform.repository.commit({"moving.json": None})
    since = platform.audit.mark()
    platform.run_once(*sources)
    assert [event for event in platform.writes(since) if event.verb == "delete"] == []
    assert get(platform, "configmap", "moving", "-n", platform.namespace, output="jsonpath={.metadata.uid}") == uid
    platform.kubectl("-n", "levelgate-system", "delete", "configmap", f"source-{other}")


def test_nested_cross_namespace_and_cluster_scoped_children_come_and_go_in_order(platform: CommandPlatform) -> None:
    """S0-15, implied edges: the namespace before what is in it, the nested instance with its own children, all pruned in reverse."""
    space = f"{platform.namespace}-x"
    instance = {
        "apiVersion": f"{platform.group}/v1",
        "kind": "Tenant",
        "metadata": {"name": platform.namespace},
        "spec": {"space": space},
    }
    keep = config_map(platform.namespace, "keep", a="b")
    files = {"chain.json": chain(platform.group, "ab"), "tenant.json": tenant(platform.group), "keep.json": keep}
    platform.repository.commit({**files, "instance.json": json.dumps(instance)})
    platform.run_once(wait="2m")
    assert get(platform, f"tenants.{platform.group}", platform.namespace, output="jsonpath={.status.state}") == "ACTIVE"
    found = get(platform, "configmaps", "-n", space, "-l", "applyset.kubernetes.io/part-of").split()
    assert set(found) == {"configmap/settings", "configmap/app-a", "configmap/app-b"}
    namespaces = "applyset.kubernetes.io/additional-namespaces"
    parent = json.loads(get(platform, f"tenants.{platform.group}", platform.namespace, output="json"))["metadata"][
        "annotations"
    ]
    assert parent[namespaces] == space

    platform.repository.commit({"instance.json": None})
    since = platform.audit.mark()
    platform.run_once(wait="2m")
    deleted = [(event.resource, event.name) for event in platform.writes(since) if event.verb == "delete"]
    assert (
        deleted.index(("chains", "app"))
        < deleted.index(("configmaps", "app-b"))
        < deleted.index(("configmaps", "app-a"))
    )
    assert get(platform, "clusterroles", "--field-selector", f"metadata.name={space}-reader") == ""
    assert get(platform, "namespace", space), (
        "a namespace is released, not deleted, unless its own annotation allows it"
    )
    platform.kubectl("delete", "namespace", space, "--wait=false")


def test_plain_objects_follow_their_implied_edges(platform: CommandPlatform) -> None:
    """docs/architecture.md: role before binding, account before both; the annotation depends-on waits for health."""
    space = platform.namespace
    rbac = "rbac.authorization.k8s.io"
    objects = [
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "a-binding", "namespace": space},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "z-role"},
            "subjects": [{"kind": "ServiceAccount", "name": "z-account", "namespace": space}],
        },
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "z-role", "namespace": space}, "rules": []},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "z-account", "namespace": space}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "a-last",
                "namespace": space,
                "annotations": {"config.kubernetes.io/depends-on": f"{rbac}/namespaces/{space}/RoleBinding/a-binding"},
            },
        },
    ]
    platform.repository.commit({"all.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})})
    since = platform.audit.mark()
    platform.run_once()
    created = [event.name for event in platform.writes(since) if event.code == 201 and event.namespace == space]
    assert created.index("a-binding") > max(created.index("z-role"), created.index("z-account"))
    assert created[-1] == "a-last"


@pytest.mark.both_servers
def test_unrelated_branches_go_on_where_one_waits(platform: CommandPlatform) -> None:
    """S0-20, rule 1: a node that fails stops what is below it and nothing else, and every error is reported."""
    definition = json.loads(chain(platform.group, "abc"))
    bad = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad"}, "spec": {"ports": [{"port": 99999}]}}
    below = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "below"},
        "data": {"reads": "${bad.metadata.name}"},
    }
    definition["spec"]["resources"] += [{"id": "bad", "template": bad}, {"id": "below", "template": below}]
    platform.repository.commit(
        {"chain.json": json.dumps(definition), "one.json": link(platform.group, platform.namespace)}
    )
    failed = platform.run_once(check=1)
    assert "ApplyFailed" in failed.stdout
    assert "99999" in failed.stdout
    members = get(platform, "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of").split()
    assert set(members) == {"configmap/one-a", "configmap/one-b", "configmap/one-c"}
    assert (
        get(platform, f"chains.{platform.group}", "one", "-n", platform.namespace, output="jsonpath={.status.state}")
        == "ERROR"
    )
