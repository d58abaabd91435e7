"""Rules of built-in kinds; `tests/conformance/test_builtin.py` compares them with the real server."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.kinds.validation import VALIDATION_RULES


def fields(resource: str, obj: dict[str, Any], live: dict[str, Any] | None = None) -> list[str]:
    return [cause.field for cause in VALIDATION_RULES[resource](obj, live)]


def service(*ports: dict[str, Any], kind: str = "ClusterIP", **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": list(ports), **spec}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (service({"port": 80}), []),
        (service(), ["spec.ports"]),
        (service(kind="ExternalName"), ["spec.externalName"]),
        (service({"port": 0}), ["spec.ports[0].port"]),
        (service({"port": 80, "nodePort": 30000}), ["spec.ports[0].nodePort"]),
        (service({"port": 80, "name": "a"}, {"port": 80, "name": "b"}), ["spec.ports[1]"]),
        (service({"port": 80}, clusterIP="x"), ["spec.clusterIPs[0]"]),
    ],
)
def test_services(obj: dict[str, Any], expected: list[str]) -> None:
    assert fields("services", obj) == expected


def test_the_address_of_a_service_stays() -> None:
    before, after = service({"port": 80}, clusterIP="10.0.0.1"), service({"port": 80}, clusterIP="10.0.0.2")
    assert fields("services", after, before) == ["spec.clusterIPs[0]"]


def test_an_immutable_config_map_keeps_its_data() -> None:
    live = {"immutable": True, "data": {"a": "1"}}
    assert fields("configmaps", live, live) == []
    assert fields("configmaps", {"data": {"a": "2"}}, live) == ["immutable", "data"]


def test_a_role_binding_keeps_its_role() -> None:
    live = {"roleRef": {"name": "a"}}
    assert fields("rolebindings.rbac.authorization.k8s.io", {"roleRef": {"name": "b"}}, live) == ["roleRef"]
