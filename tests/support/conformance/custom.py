"""The CRD `widgets`, with most features of a structural schema."""

from __future__ import annotations

from tests.support.cluster.http_api import Api, Json

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "default": "x", "enum": ["x", "y"]},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 5}},
        "ports": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "note": {"type": "string", "nullable": True}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "word": {"type": "string", "pattern": "^[a-z]+$"},
        "even": {
            "type": "integer",
            "x-kubernetes-validations": [
                {"rule": "self % 2 == 0", "message": "must be even"},
                {"rule": "self >= oldSelf"},
            ],
        },
    },
}


def definition(group: str, *, scope: str = "Namespaced") -> Json:
    """Return the CRD `widgets`: v1 with a schema, columns and a status, v2 with an open schema."""
    schema = {
        "type": "object",
        "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].port"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.ports[?(@.port==80)].note", "priority": 1},
    ]
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    first |= {"subresources": {"status": {}}, "additionalPrinterColumns": columns}
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    second = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": open_schema}}
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [first, second]},
    }


def established(api: Api, name: str) -> bool:
    """Return whether the API server serves the CRD."""
    conditions = api.get(f"{DEFINITIONS}/{name}").body.get("status", {}).get("conditions") or []
    return {"Established", "NamesAccepted"} <= {one["type"] for one in conditions if one["status"] == "True"}
