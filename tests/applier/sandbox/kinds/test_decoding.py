"""Built-in kinds as the typed decoder stores them, with defaults and the server's additions."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.kinds.admission import COMPLETERS
from applier.sandbox.kinds.builtin import built_in_go_types
from applier.sandbox.kinds.decoding import Decoder, DecodingError
from applier.sandbox.kinds.defaults import DEFAULTS, set_defaults


def decode(group: str, version: str, kind: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    go_type = built_in_go_types().kind_type(group, version, kind)
    assert go_type is not None
    unknown: list[str] = []
    return Decoder(kind).decode(go_type, obj, "", unknown), unknown


def test_unknown_fields_and_nulls_go_and_quantities_are_canonical() -> None:
    spec = {"resources": {"requests": {"storage": "1024Mi"}}, "x": 1, "volumeName": None}
    decoded, unknown = decode("", "v1", "PersistentVolumeClaim", {"spec": spec})
    assert decoded["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    assert decoded["spec"]["volumeMode"] == "Filesystem"
    assert unknown == ["spec.x"]


def test_a_value_of_another_type_is_refused_in_gos_words() -> None:
    with pytest.raises(DecodingError, match=r"cannot unmarshal string into Go struct field Deployment\.spec\.replicas"):
        decode("apps", "v1", "Deployment", {"spec": {"replicas": "1"}})


def test_defaults_keep_what_is_given() -> None:
    strategy: dict[str, Any] = {}
    spec = {"replicas": 3, "strategy": strategy}
    DEFAULTS["io.k8s.api.apps.v1.DeploymentSpec"](spec)
    assert spec["replicas"] == 3
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    values: dict[str, Any] = {"a": {}}
    obj: dict[str, Any] = {}
    set_defaults(obj, values)
    assert obj["a"] is not values["a"]


def test_addresses_of_a_service_follow_from_its_name() -> None:
    def address(name: str) -> str:
        obj = {"metadata": {"namespace": "a", "name": name}, "spec": {"type": "ClusterIP"}}
        COMPLETERS["services"](obj, None)
        return str(obj["spec"]["clusterIP"])

    assert address("x") == address("x") != address("y")
