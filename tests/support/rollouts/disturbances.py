"""Failures of single instances in a rollout."""

from __future__ import annotations

from tests.support.link_platform import LinkPlatform

BROKEN = [
    {
        "id": "number",
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}-number"},
            "data": {"number": "${string(int(schema.spec.text == 'broken' ? 'x' : '1'))}"},
        },
    }
]
"""An expression that fails in some instances."""


def in_the_way(fleet: LinkPlatform, name: str) -> None:
    """Create another person's object with the name that this instance is about to write."""
    metadata = {"name": f"{name}-app", "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"image": "theirs"}}
    fleet.request("POST", "/api/v1/namespaces/default/configmaps?fieldManager=them", body)
