"""The ConfigMap `levelgate`: which version looks after this cluster, and whether a person has stopped it altogether."""

from __future__ import annotations

from typing import Final

from applier.cluster import Object
from renderer import keys
from renderer.identity import ObjectKey
from renderer.render import OWN_NAMESPACE

INSTALLATION: Final = ObjectKey("", "ConfigMap", OWN_NAMESPACE, "levelgate")

FORMAT: Final = "1"
"""Number of the form in which records are kept."""


def installation(version: str) -> Object:
    """As it is to be; what people annotate stays theirs."""
    return {
        "apiVersion": "v1",
        "kind": INSTALLATION.kind,
        "metadata": {
            "name": INSTALLATION.name,
            "namespace": INSTALLATION.namespace,
            "labels": {keys.RECORD: "installation"},
        },
        "data": {"version": version, "format": FORMAT},
    }
