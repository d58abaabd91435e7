"""Definitions whose instances read objects of other instances."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

BY_NAME = {"name": "base-shared"}


def instance(group: str, kind: str, namespace: str, name: str, **spec: object) -> str:
    """Return the file of an instance."""
    metadata = {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec})


def base(group: str) -> str:
    """Return a definition of two ConfigMaps, one of which others read."""
    shared = template("shared", "${schema.metadata.name}-shared", {"key": "value"}, team="blue")
    return definition(group, "Base", shared, template("own", "${schema.metadata.name}-own", {"key": "value"}))


def reader(group: str, target: Mapping[str, Any] = BY_NAME) -> str:
    """Return a definition of a ConfigMap with the text that it reads."""
    text = "${string(size(found))}" if "selector" in target else "${found.data.key}"
    child = template("child", "${schema.metadata.name}-child", {"read": text})
    return definition(group, "Reader", reference("found", target), child)


def definition(group: str, kind: str, *resources: Mapping[str, Any]) -> str:
    """Return the file of a definition with these resources."""
    schema = {"group": group, "apiVersion": "v1", "kind": kind, "spec": {"on": "boolean | default=true"}}
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"{kind.lower()}s.{group}"},
            "spec": {"schema": schema, "resources": resources},
        }
    )


def template(node: str, name: str, data: Mapping[str, str], **labels: str) -> dict[str, Any]:
    """Return a ConfigMap node."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "id": node,
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)},
    }


def reference(node: str, target: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node that reads an object of others."""
    return {"id": node, "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(target)}}
