"""Kinds that the server has in several versions: what Git writes in one that the server does not prefer is read in that one."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import link
from tests.support.scenarios.collections import config_map, data, fleet


def scaler(name: str, **metadata: str) -> dict[str, Any]:
    """In autoscaling/v1, of which v2 has other fields; the server prefers that."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, **metadata},
        "spec": {
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 70,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
        },
    }


def test_expressions_and_comparisons_see_the_version_that_git_writes(platform: CommandPlatform) -> None:
    """Rule 5, and adoption: neither what was read nor what was written says another version than the manifest."""
    own = json.dumps(scaler("plain", namespace=platform.namespace))
    platform.kubectl("apply", "-f", "-", stdin=own)
    reader = config_map(
        "reader", "reader", {"wanted": "${string(hpa.spec.targetCPUUtilizationPercentage)}", "in": "${hpa.apiVersion}"}
    )
    platform.repository.commit(
        {
            "def.json": fleet(platform.group, {"id": "hpa", "template": scaler("hpa")}, reader),
            "one.json": link(platform.group, platform.namespace),
            "plain.json": own,
        }
    )
    first = platform.run_once("--adopt", "IfEqual")
    assert f"HorizontalPodAutoscaler/{platform.namespace}/plain adopted" in first.stdout
    mark = platform.audit.mark()
    platform.run_once()
    assert platform.writes(mark) == []
    assert data(platform, "reader") == {"wanted": "70", "in": "autoscaling/v1"}
