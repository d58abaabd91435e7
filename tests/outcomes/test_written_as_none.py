"""What a repository says with an empty list or a null it does not say: kro's fixtures deploy, and CRDs tell what their columns show."""

from __future__ import annotations

import json

import pytest

from tests.support.command_platform import CommandPlatform


def definition(group: str, kind: str, nothing: object) -> str:
    """A definition whose optional fields are all there, and say `nothing`."""
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}", "labels": None},
        "data": {"text": "${schema.spec.text}"},
    }
    lists = dict.fromkeys(("forEach", "includeWhen", "readyWhen"), nothing)
    schema = {
        "group": group,
        "apiVersion": "v1",
        "kind": kind,
        "spec": {"text": "string | default=one", "hosts": "[]string", "labels": "map[string]string"},
        "status": None,
        "types": None,
        "metadata": {"labels": None, "annotations": None},
        **dict.fromkeys(("additionalPrinterColumns", "shortNames", "categories"), nothing),
    }
    spec = {"schema": schema, "resources": [{"id": "map", "template": template, "externalRef": None, **lists}]}
    metadata = {"name": f"{kind.lower()}s.{group}", "labels": None, "annotations": None}
    return json.dumps(
        {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": metadata, "spec": spec}
    )


def instance(platform: CommandPlatform, kind: str, name: str, **fields: object) -> str:
    metadata = {"name": name, "namespace": platform.namespace, "labels": None, "annotations": None}
    return json.dumps({"apiVersion": f"{platform.group}/v1", "kind": kind, "metadata": metadata, **fields})


@pytest.mark.both_servers
def test_what_is_empty_or_null_is_not_said(platform: CommandPlatform) -> None:
    """kro accepts and deploys both forms."""
    files = {
        "empty.json": definition(platform.group, "Empty", []),
        "null.json": definition(platform.group, "Nothing", None),
        "a.json": instance(platform, "Empty", "a", spec={"text": None, "hosts": None, "labels": None}),
        "b.json": instance(platform, "Nothing", "b", spec=None),
    }
    platform.repository.commit(files)
    assert "0 errors" in platform.levelgate("lint", str(platform.repository.path), check=0).stdout
    platform.run_once()
    for name in "ab":
        found = platform.kubectl("get", "configmap", name, "-n", platform.namespace, "-o", "jsonpath={.data.text}")
        assert found == "one"
    crd = json.loads(platform.kubectl("get", "crd", f"nothings.{platform.group}", "-o", "json"))
    assert all(column["description"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"])
