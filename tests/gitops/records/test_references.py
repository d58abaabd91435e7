"""References as people type them (docs/reference.md, REF)."""

from __future__ import annotations

import pytest

from applier.cluster import Discovery, Resource
from gitops.records.references import Ref, RefError, find_key
from renderer.identity import ObjectKey
from tests.support.link_platform import LinkPlatform

DISCOVERY = Discovery(
    {
        one.group_kind: one
        for one in (
            Resource("kro.run", "v1", "WebApp", "webapps", True, short_names=("wa",)),
            Resource("apps", "v1", "Deployment", "deployments", True, short_names=("deploy",)),
            Resource("", "v1", "Event", "events", True),
            Resource("events.k8s.io", "v1", "Event", "events", True),
            Resource("", "v1", "Namespace", "namespaces", False),
        )
    }
)
SHOP = ObjectKey("kro.run", "WebApp", "prod", "shop")


@pytest.mark.parametrize(
    ("words", "key", "node"),
    [
        ("webapp/shop", SHOP, ""),
        ("WebApp shop", SHOP, ""),
        ("webapps.kro.run/shop", SHOP, ""),
        ("wa shop", SHOP, ""),
        ("webapp/shop/deployment", SHOP, "deployment"),
        ("webapp shop/workers/2", SHOP, "workers/2"),
        ("deploy/web", ObjectKey("apps", "Deployment", "prod", "web"), ""),
        ("namespace/prod", ObjectKey("", "Namespace", "", "prod"), ""),
        ("events.events.k8s.io/e", ObjectKey("events.k8s.io", "Event", "prod", "e"), ""),
        ("source/platform", ObjectKey("", "ConfigMap", "levelgate-system", "source-platform"), ""),
        (
            "rollouts/webapp.kro.run",
            ObjectKey("", "ConfigMap", "levelgate-system", "rollout-webapp.kro.run"),
            "",
        ),
    ],
)
def test_what_is_meant(words: str, key: ObjectKey, node: str) -> None:
    """Surface 1.1, 2: kind, plural, short name, with or without group; a node and its index; our own records."""
    ref = Ref.parse(words.split())
    assert (ref.resolve_key(DISCOVERY, "prod"), ref.node) == (key, node)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("webapp", "write TYPE/NAME"),
        ("webapp/", "write TYPE/NAME"),
        ("a b c", "write TYPE/NAME"),
        ("webapp/shop x", "write TYPE/NAME"),
        ("webapp/shop/workers/two", "webapp/shop/workers/2"),
        ("webapp/shop/workers/2/3", "webapp/shop/workers/2"),
        ("source/platform/x", "write source/platform"),
        ("nosuch/x", "serves no kind 'nosuch'"),
        ("event/x", "may be event, event.events.k8s.io"),
        ("window/dba-hours", "not an object in the cluster"),
    ],
)
def test_what_names_nothing(words: str, told: str) -> None:
    with pytest.raises(RefError, match=told):
        Ref.parse(words.split()).resolve_key(DISCOVERY, "prod")


def test_a_definition_is_its_crd() -> None:
    with LinkPlatform(names=("a",)) as fleet:
        fleet.push()
        fleet.step()
        ref = Ref.parse(["rgd/links.g.test"])
        found = fleet.call(find_key(fleet.cluster, ref, "default"))
        assert found == ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "links.g.test")
        with pytest.raises(RefError, match=r"definitions: links\.g\.test"):
            fleet.call(find_key(fleet.cluster, Ref.parse(["rgd/web"]), "default"))
