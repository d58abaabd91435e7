"""Kinds that the commit does not describe have the types that the cluster's CRDs, or other sources, say (rgd 1.11)."""

from __future__ import annotations

import json
from typing import Any

from applier.cluster import CONTENT_MANAGER
from renderer.identity import GroupKind
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.repositories import GROUP, config_map, definition, instance, widget

LINK = GroupKind(GROUP, "Link")


def crd(**fields: str) -> dict[str, Any]:
    """The CRD of Widget, by somebody else, with these fields in its spec."""
    spec = {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.free.test"},
        "spec": {
            "group": "free.test",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def using(spec: dict[str, Any], **more: Any) -> str:
    """A definition of one Widget, and of a ConfigMap that reads it."""
    node = widget("thing")
    del node["template"]["data"]
    node["template"]["spec"] = spec
    reader = config_map("reader")
    reader["template"]["data"] = {"size": "${string(thing.spec.size)}"}
    return definition("Link", [node, reader], **more)


def test_the_clusters_crds_are_what_templates_are_checked_against() -> None:
    with CheckedPlatform() as platform:
        platform.cluster.put(crd(size="integer"))
        platform.commit({"link.json": using({"siz": 1}), "x.json": instance("Link", "x")})
        found = platform.run()
        assert found
        assert [(one.path, one.message) for one in found.bundle.problems] == [
            ("spec.resources[0].template.spec.siz", "no field 'siz'; did you mean 'size'?")
        ]
        assert platform.members() == set()
        platform.commit({"link.json": using({"size": 1}), "x.json": instance("Link", "x")})
        assert platform.settle().bundle.problems == ()
        assert platform.members() == {"x-reader"}


def test_a_crd_that_changes_under_a_definition_takes_nothing_from_its_instances() -> None:
    """S0-3, S1-23: that it does not fit any more is told; its last revision serves on, and no instance is touched."""
    with CheckedPlatform() as platform:
        platform.cluster.put(crd(size="integer"))
        platform.commit({"link.json": using({"size": 1}), "x.json": instance("Link", "x")})
        platform.settle()
        before = len(platform.cluster.writes)
        platform.cluster.put(crd(size="string"))
        found = platform.settle()
        ((place, message),) = [(one.path, one.message) for one in found.bundle.problems]
        assert place == "spec.resources[0].template.spec.size"
        assert message == "1 is an integer, where a string is needed; put it in quotes"
        assert platform.members() == {"x-reader"}
        assert [write.key for write in platform.cluster.writes[before:] if write.manager == CONTENT_MANAGER] == []


def test_what_was_checked_against_a_crd_is_checked_again_only_when_that_changed() -> None:
    with CheckedPlatform() as platform:
        platform.cluster.put(crd(size="integer"))
        platform.commit({"link.json": using({"size": 1}), "x.json": instance("Link", "x")})
        platform.settle()

        def definition_now() -> Any:
            found = platform.go_on()
            assert found
            return found.bundle.definitions[LINK]

        first = definition_now()
        assert definition_now() is first
        platform.cluster.put(crd(size="integer", more="string"))
        assert definition_now() is not first


def test_kinds_of_other_sources_are_known_before_the_cluster_has_them() -> None:
    outer = config_map("reader")
    outer["template"]["data"] = {"size": "${string(inner.spec.siz)}"}
    inner = json.loads(json.dumps(widget("inner")))
    inner["template"] |= {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "spec": {"text": "x"}}
    del inner["template"]["data"]
    with CheckedPlatform() as platform:
        platform.commit({"inner.json": definition("Inner", [config_map("a")])}, source="platform")
        platform.commit({"link.json": definition("Link", [inner, outer])}, source="team")
        found = platform.run()
        assert found
        assert [(one.path, one.message) for one in found.bundle.problems] == [
            (
                "spec.resources[1].template.data.size",
                "${string(inner.spec.siz)} (column 8): no field 'siz' in inner.spec",
            )
        ]
