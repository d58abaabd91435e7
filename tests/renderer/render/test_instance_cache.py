"""What an instance came to last is taken only where it would come to the same (`renderer.render.instance_cache`)."""

from __future__ import annotations

from typing import Any

from renderer.catalog.catalog import load
from renderer.identity import ObjectKey
from renderer.render.cache import RenderCache
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.properties.repositories import GROUP, config_map, definition, instance

OUTER = ObjectKey(GROUP, "Outer", "default", "a")


def shared(name: str) -> dict[str, Any]:
    """A node: an instance with a name that does not depend on its owner's."""
    template = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Inner",
        "metadata": {"name": name},
        "spec": {"text": "${schema.spec.text}"},
    }
    return {"id": "inner", "template": template}


def test_what_is_read_back_of_an_instance_counts() -> None:
    """One that was made anew has another uid."""
    node = config_map("c") | {"id": "c"}
    node["template"]["data"] = {"uid": "${schema.metadata.uid}"}
    catalog = load(
        {"o.json": definition("Outer", [node]).encode(), "a.json": instance("Outer", "a").encode()}, source="s"
    )
    memo, said = RenderCache(), []
    for uid in ("one", "two", "two"):
        live = {"metadata": {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": uid}}
        world = ClusterView(live={OUTER: {"apiVersion": f"{GROUP}/v1", "kind": "Outer", **live}})
        found = render([catalog], world, memo)
        assert found == render([catalog], world)
        said.append(found.instances[OUTER].nodes[0].manifest["data"]["uid"])
    assert said == ["one", "two", "two"]


def test_what_two_instances_nest_belongs_to_the_first() -> None:
    """It is the second one's as soon as the first no longer nests it, and the first one's again after that."""
    memo, previous, owners = RenderCache(), None, []
    for first in ("common", "own", "common", "common"):
        files = {
            "i.json": definition("Inner", [config_map("c")]),
            "o.json": definition(
                "Outer", [shared("${schema.spec.of}")], spec={"of": "string", "text": "string | default=one"}
            ),
            "a.json": instance("Outer", "a", of=first),
            "b.json": instance("Outer", "b", of="common", text="two"),
        }
        data = {file: text.encode() for file, text in files.items()}
        previous = load(data, source="s", previous=previous)
        found = render([previous], None, memo)
        assert found == render([previous])
        owner = found.instances[ObjectKey(GROUP, "Inner", "default", "common")].owner
        owners.append(owner.name if owner else "")
    assert owners == ["a", "b", "a", "a"]
