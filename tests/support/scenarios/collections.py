"""Definitions with collections of ConfigMaps, for scenarios."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_platform import CommandPlatform


def fleet(group: str, *resources: dict[str, Any], status: dict[str, Any] | None = None) -> str:
    """Return a definition of `Chain` whose instances name their workers."""
    schema = {
        "group": group,
        "apiVersion": "v1",
        "kind": "Chain",
        "spec": {"names": "[]string | default=[]"},
        "status": status or {},
    }
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"chains.{group}"},
            "spec": {"schema": schema, "resources": list(resources)},
        }
    )


def config_map(node_id: str, name: str, data: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return a ConfigMap node."""
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return {"id": node_id, "template": template, **more}


def data(platform: CommandPlatform, name: str) -> dict[str, str]:
    """Return the data of a ConfigMap."""
    found: dict[str, str] = json.loads(
        platform.kubectl("get", "configmap", name, "-n", platform.namespace, "-o", "jsonpath={.data}")
    )
    return found
