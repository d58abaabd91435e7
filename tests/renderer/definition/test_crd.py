"""The CustomResourceDefinition of a definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from renderer.definition.crd import KindIdentity, crd_name, custom_resource_definition
from renderer.identity import GroupKind
from renderer.schema import to_openapi, validate
from renderer.schema.plurals import plural

WEB_APP = KindIdentity(GroupKind("kro.run", "WebApp"), "v1alpha1", namespaced=True)


def crd(spec: dict[str, Any] | None = None, kind: KindIdentity = WEB_APP, **options: Any) -> dict[str, Any]:
    schema = to_openapi(spec if spec is not None else {"image": "string"})
    return custom_resource_definition(kind, schema, definition="webapp.kro.run", **options)


def root_of(manifest: dict[str, Any]) -> dict[str, Any]:
    root: dict[str, Any] = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("WebApp", "webapps"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Bus", "buses"),
        ("Person", "people"),
        ("Human", "humans"),
        ("Woman", "women"),
        ("Chassis", "chassis"),
        ("Redis", "redis"),
        ("Postgres", "postgres"),
        ("Kubernetes", "kubernetes"),
        ("Ingress", "ingresses"),
        ("Address", "addresses"),
        ("Endpoints", "endpoints"),
        ("Database", "databases"),
        ("DatabaseBasis", "databasebases"),
        ("Index", "indices"),
        ("SearchIndex", "searchindices"),
        ("Proxy", "proxies"),
        ("Batch", "batches"),
        ("Mesh", "meshes"),
        ("Box", "boxes"),
        ("Matrix", "matrices"),
        ("Status", "statuses"),
        ("Analysis", "analyses"),
        ("Quota", "quotas"),
        ("Repo", "repoes"),
        ("Studio", "studios"),
        ("Silo", "silos"),
        ("Knife", "knives"),
        ("Wolf", "wolves"),
        ("Archive", "archives"),
        ("Datum", "data"),
        ("Criterion", "criteria"),
        ("Quiz", "quizzes"),
        ("Alias", "aliases"),
        ("Cache", "caches"),
        ("Cause", "causes"),
        ("Toe", "toes"),
        ("House", "houses"),
        ("Octopus", "octupuses"),
        ("SSH", "sshs"),
        ("Data", "data"),
        ("Children", "children"),
        ("Indexes", "indexes"),
        ("S3Bucket", "s3buckets"),
    ],
)
def test_plural_is_that_of_flect(kind: str, expected: str) -> None:
    assert plural(kind) == expected


def test_names_follow_from_the_kind() -> None:
    kind = KindIdentity(
        GroupKind("acme.io", "NetworkPolicy"), "v1", namespaced=True, short_names=["np"], categories=["all"]
    )
    manifest = crd(kind=kind)
    assert manifest["metadata"]["name"] == crd_name("NetworkPolicy", "acme.io") == "networkpolicies.acme.io"
    assert manifest["spec"]["names"] == {
        "kind": "NetworkPolicy",
        "listKind": "NetworkPolicyList",
        "plural": "networkpolicies",
        "singular": "networkpolicy",
        "shortNames": ["np"],
        "categories": ["all"],
    }


def test_there_is_one_version_served_and_stored_with_status() -> None:
    (version,) = crd(kind=replace(WEB_APP, version="v1beta2"))["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1beta2", True, True)
    assert version["subresources"] == {"status": {}}


def test_label_and_annotation_tell_what_it_is() -> None:
    manifest = crd(labels={"team": "a"}, annotations={"note": "b", "levelgate.dev/definition": "forged"})
    assert manifest["metadata"]["labels"] == {"team": "a", "applyset.kubernetes.io/is-parent-type": "true"}
    assert manifest["metadata"]["annotations"] == {"note": "b", "levelgate.dev/definition": "webapp.kro.run"}


def test_status_has_the_reserved_fields_beside_the_inferred_ones() -> None:
    inferred = {"type": "object", "properties": {"url": {"type": "string"}, "state": {"type": "integer"}}}
    status = root_of(crd(status_schema=inferred))["properties"]["status"]["properties"]
    assert list(status) == ["url", "state", "conditions", "levelgate"]
    assert status["state"] == {"type": "string"}
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert validate(status["levelgate"], {"target": {"revision": 1, "content": "c"}, "newer": {"a": 1}}) == []


@pytest.mark.parametrize(
    "told",
    [
        {"target": "r1"},
        {"applied": {"revision": "1"}},
        {"settled": {"commit": 1}},
        {"blocked": [{"reason": 1}]},
        {"blocked": ["no"]},
        {"rollout": {"wave": 1}},
        {"nodes": {"total": "1"}},
        {"asked": {"hold": "x"}},
        {"progress": []},
    ],
)
def test_a_status_that_could_not_be_read_back_is_refused(told: dict[str, Any]) -> None:
    """Whoever may write the status of an instance, a pass reads it."""
    status = root_of(crd())["properties"]["status"]["properties"]
    assert len(validate(status["levelgate"], told)) == 1


def test_each_default_column_says_what_it_shows() -> None:
    """kro's three with kro's words."""
    columns = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    told = {column["name"]: column["description"] for column in columns}
    assert all(told.values())
    assert len(set(told.values())) == len(columns)
    assert told["State"] == "The state of a ResourceGraphDefinition instance"
    assert told["Ready"] == "Whether a ResourceGraphDefinition instance is ready"
    assert told["Age"] == "Age of the resource"


def test_given_printer_columns_replace_all_default_ones() -> None:
    names = [column["name"] for column in crd()["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert names == [
        "State",
        "Ready",
        "Healthy",
        "Revision",
        "Propagated",
        "Age",
        "Target",
        "Commit",
        "Node",
        "Message",
    ]
    wide = [
        column["name"] for column in crd()["spec"]["versions"][0]["additionalPrinterColumns"] if column.get("priority")
    ]
    assert wide == ["Target", "Commit", "Node", "Message"]
    own = [{"name": "Image", "type": "string", "jsonPath": ".spec.image"}]
    assert crd(printer_columns=own)["spec"]["versions"][0]["additionalPrinterColumns"] == own


def test_equal_input_gives_equal_bytes() -> None:
    first = orjson.dumps(crd({"b": "string | required=true", "a": "integer | required=true"}))
    assert first == orjson.dumps(crd({"b": "string | required=true", "a": "integer | required=true"}))


def test_input_is_not_shared_with_the_result() -> None:
    columns, labels = [{"name": "A", "type": "string", "jsonPath": ".a"}], {"a": "b"}
    manifest = crd(printer_columns=columns, labels=labels)
    manifest["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] = "changed"
    manifest["metadata"]["labels"]["more"] = "x"
    assert (columns[0]["name"], labels) == ("A", {"a": "b"})
