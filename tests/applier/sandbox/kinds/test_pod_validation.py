"""Rules of pods."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.kinds.pod_validation import validate_pod_spec


def pod(**container: Any) -> dict[str, Any]:
    return {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i", "resources": {}, **container}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (pod(), []),
        (pod(image=" "), ["image"]),
        (pod(ports=[{"containerPort": 0}]), ["ports[0].containerPort"]),
        (pod(ports=[{"containerPort": 70000}]), ["ports[0].containerPort"]),
        (pod(envFrom=[{}]), ["envFrom"]),
        (pod(envFrom=[{"secretRef": {}}]), ["envFrom[0].secretRef.name"]),
        (pod(env=[{"name": "A", "valueFrom": {}}]), ["env[0].valueFrom"]),
        (pod(volumeMounts=[{"name": "v"}]), ["volumeMounts[0].name"]),
        (pod(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), ["resources.requests"]),
        (pod(livenessProbe={}), ["livenessProbe"]),
        (pod(lifecycle={"preStop": {"exec": {}}}), ["lifecycle.preStop.exec.command"]),
    ],
)
def test_mistakes_of_a_container(spec: dict[str, Any], expected: list[str]) -> None:
    found = [cause.field.removeprefix("spec.containers[0].") for cause in validate_pod_spec(spec, "spec")]
    assert found == expected


def test_names_are_unique_among_all_containers() -> None:
    spec = pod() | {"initContainers": pod()["containers"]}
    assert [cause.field for cause in validate_pod_spec(spec, "spec")] == ["spec.containers[0].name"]
