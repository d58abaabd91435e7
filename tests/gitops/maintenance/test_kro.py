"""What `levelgate check` says of kro after its platform was taken over."""

from __future__ import annotations

from typing import Any

from applier.sandbox.endpoints.transport import cluster_of
from gitops.maintenance.cluster_check import CheckLevel, check_cluster
from gitops.maintenance.cluster_facts import examine
from tests.support.link_platform import GROUP, LinkPlatform

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "resourcegraphdefinitions.kro.run"},
    "spec": {
        "group": "kro.run",
        "names": {
            "kind": "ResourceGraphDefinition",
            "plural": "resourcegraphdefinitions",
            "singular": "resourcegraphdefinition",
            "listKind": "ResourceGraphDefinitionList",
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_definitions_of_kro_that_stayed_are_named_where_we_manage_their_kinds() -> None:
    """Rulings, takeover from kro: a kro that somebody starts again finds them, and takes back what is ours by then."""
    with LinkPlatform(names=("a",), gates=[]) as fleet:
        fleet.start()
        fleet.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        fleet.sandbox.tick_until_stable()
        for name, schema in (("mine", {"group": GROUP, "kind": "Link"}), ("theirs", {"kind": "Link"}), ("odd", None)):
            definition = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
            body = {**definition, "metadata": {"name": name}, "spec": {"schema": schema}}
            fleet.request("POST", "/apis/kro.run/v1alpha1/resourcegraphdefinitions", body)
        facts = fleet.call(examine(cluster_of(fleet.sandbox.answer), version="0", now=fleet.clock.now()))
        (found,) = (one for one in check_cluster(facts) if one.area == "kro")
    assert (found.level, [key.name for key in found.objects]) == (CheckLevel.WARNING, ["mine"])
    assert "while kro is stopped, delete the definitions" in found.advice
