"""With or without a memo the rendering is the same (`renderer.render.cache`): here the order of a source's own objects, from commit to commit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import load
from renderer.identity import ObjectKey
from renderer.render import cache
from renderer.render.cache import RenderCache
from renderer.render.order import SourceOrder
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.properties.repositories import definition, instance, reading

DEPENDS_ON = "config.kubernetes.io/depends-on"


def config_map(name: str, text: str = "", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "prod", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def service(name: str) -> dict[str, Any]:
    selector = {"app": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"selector": selector},
    }


FIRST = [config_map("a"), config_map("b", **{DEPENDS_ON: "/namespaces/prod/ConfigMap/a"}), service("web")]
COMMITS = {
    "contents": [config_map("a", "new"), *FIRST[1:]],
    "an edge more": [config_map("a", **{DEPENDS_ON: "/namespaces/prod/Service/web"}), *FIRST[1:]],
    "an edge less": [FIRST[0], config_map("b"), FIRST[2]],
    "a circle": [config_map("a", **{DEPENDS_ON: "/namespaces/prod/ConfigMap/b"}), *FIRST[1:]],
    "a stranger": [config_map("a", **{DEPENDS_ON: "/namespaces/prod/ConfigMap/none"}), *FIRST[1:]],
    "an object more": [*FIRST, config_map("c")],
    "an object less": FIRST[:2],
    "a selector": [*FIRST[:2], service("web") | {"spec": {"selector": {"app": "other"}}}],
    "what is refused": [config_map("a", **{"kro.run/x": "y"}), *FIRST[1:]],
}


@pytest.mark.parametrize("between", COMMITS)
def test_what_follows_a_commit_is_ordered_as_if_it_were_the_first(between: str) -> None:
    """The levels of S0-1 to S0-3, with what is wrong, as a commit changes them and the next one changes them back."""
    memo, previous = RenderCache(), None
    for objects in (FIRST, COMMITS[between], COMMITS[between], FIRST):
        files = {f"{number}.json": json.dumps(one).encode() for number, one in enumerate(objects)}
        previous = load(files, source="s", previous=previous)
        assert render([previous], None, memo) == render([load(files, source="s")])


def test_contents_alone_are_not_ordered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []

    class Counted(SourceOrder):
        def levelled(self, nodes: dict[ObjectKey, Any]) -> tuple[Any, ...]:
            ordered.append(len(nodes))
            return super().levelled(nodes)

    monkeypatch.setattr(cache, "SourceOrder", Counted)
    memo = RenderCache()
    for objects in (FIRST, COMMITS["contents"], COMMITS["an edge more"]):
        render([load({"f.json": json.dumps({"kind": "List", "items": objects}).encode()}, source="s")], None, memo)
    assert ordered == [3, 3]


def test_an_object_in_another_version_is_read_again() -> None:
    """What a write answers is shown in the version of the manifest, what a list answers perhaps in another, at one resourceVersion."""
    memo, key = RenderCache(), ObjectKey("free.test", "Widget", "default", "w")
    reference = {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": {"name": "w"}}
    resources = [{"id": "w", "externalRef": reference}, reading("a", "${w.apiVersion}")]
    files = {"l.json": definition("Link", resources).encode(), "x.json": instance("Link", "x").encode()}
    catalog = load(files, source="s")
    for version in ("v1", "v2"):
        shown = {
            "apiVersion": f"free.test/{version}",
            "kind": "Widget",
            "metadata": {"name": "w", "uid": "u", "resourceVersion": "1"},
        }
        world = ClusterView(live={key: shown})
        found = render([catalog], world, memo)
        assert found == render([catalog], world)
        (rendered,) = found.instances.values()
        assert rendered.nodes[-1].manifest["data"]["value"] == f"free.test/{version}"
