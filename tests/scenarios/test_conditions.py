"""`includeWhen` on a real cluster: yes creates, no prunes, and what is not known leaves everything as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import link
from tests.support.scenarios.collections import config_map, fleet


def children(platform: CommandPlatform) -> set[str]:
    names = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "name").split()
    return {name.partition("/")[2] for name in names} & {"optional", "behind", "always"}


def switch(platform: CommandPlatform, patch: str) -> None:
    platform.kubectl("patch", "configmap", "switch", "-n", platform.namespace, "--type=merge", "-p", patch)


def test_unknown_data_freezes_the_last_decision(platform: CommandPlatform) -> None:
    """Contagious both ways: what reads the node comes, stays and goes with it."""
    given: dict[str, Any] = {
        "id": "given",
        "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "switch"}},
    }
    optional = config_map("optional", "optional", {"a": "b"}, includeWhen=["${given.data.on == 'yes'}"])
    behind = config_map("behind", "behind", {"name": "${optional.metadata.name}"})
    always = config_map("always", "always", {"a": "b"})
    platform.repository.commit(
        {
            "def.json": fleet(platform.group, given, optional, behind, always),
            "one.json": link(platform.group, platform.namespace),
        }
    )
    platform.run_once(check=3)
    assert children(platform) == {"always"}

    platform.kubectl("create", "configmap", "switch", "-n", platform.namespace, "--from-literal=on=yes")
    platform.run_once(check=0)
    assert children(platform) == {"always", "optional", "behind"}

    switch(platform, '{"data": null}')
    mark = platform.audit.mark()
    platform.run_once(check=3)
    assert children(platform) == {"always", "optional", "behind"}
    assert [event.name for event in platform.writes(mark) if event.name in {"optional", "behind"}] == []
    platform.kubectl("delete", "configmap", "switch", "-n", platform.namespace)
    platform.run_once(check=3)
    assert children(platform) == {"always", "optional", "behind"}

    platform.kubectl("create", "configmap", "switch", "-n", platform.namespace, "--from-literal=on=no")
    mark = platform.audit.mark()
    platform.run_once(check=0)
    assert children(platform) == {"always"}
    deleted = [event.name for event in platform.writes(mark) if event.verb == "delete"]
    assert deleted == ["behind", "optional"]


@pytest.mark.both_servers
def test_a_definition_may_bring_the_kind_that_its_later_nodes_have(platform: CommandPlatform) -> None:
    """The CRD is established before the first object of its kind is sent."""
    group = f"w.{platform.group}"
    schema = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"n": {"type": "string"}}}},
        }
    }
    crd = {
        "id": "crd",
        "template": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}", "annotations": {"levelgate.dev/prune": "allowed"}},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
    }
    widget = {
        "id": "widget",
        "template": {
            "apiVersion": f"{group}/v1",
            "kind": "Widget",
            "metadata": {"name": platform.namespace},
            "spec": {"n": "${schema.metadata.name}"},
        },
    }
    platform.repository.commit(
        {"def.json": fleet(platform.group, widget, crd), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once(check=0, wait="2m")
    assert platform.kubectl("get", f"widgets.{group}", platform.namespace, "-o", "jsonpath={.spec.n}") == "one"
    platform.repository.commit({"one.json": None})
    platform.run_once(check=0, wait="2m")
    assert "NotFound" in platform.kubectl("get", "crd", f"widgets.{group}", check=False)
