"""What is read, rendered and planned anew after a change."""

from __future__ import annotations

import json

import pytest

from gitops.queries.nodes import Node
from renderer.catalog.catalog import load
from renderer.identity import ObjectKey
from renderer.render.cache import RenderCache
from renderer.render.render import render
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE
from tests.support.properties.repositories import config_map, definition, instance


def test_a_value_of_another_type_is_rendered_anew() -> None:
    """To Python 1 and true are equal, wherever they stand: of an object of a source, and of an instance of a definition that holds any value."""
    fields = {"any": "object"}
    node = config_map("a")
    node["template"]["data"] = {"is": "${string(schema.spec.any.a)}"}
    memo, found, catalog = RenderCache(), list[str](), load({})
    for value in (1, True):
        files = {
            "w.json": json.dumps(
                {"apiVersion": "w.test/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"a": value}}
            )
        }
        files |= {
            "link.json": definition("Link", [node], spec=fields),
            "x.json": instance("Link", "x", any={"a": value}),
        }
        catalog = load({name: text.encode() for name, text in files.items()}, source="platform", previous=catalog)
        bundle = render([catalog], memo=memo)
        said = {node.group_kind.kind: node.manifest for one in bundle.sets for node in one.nodes}
        found.append(json.dumps([said["W"]["spec"], said["ConfigMap"]["data"]]))
    assert found == ['[{"a": 1}, {"is": "1"}]', '[{"a": true}, {"is": "true"}]']


def test_files_with_the_same_bytes_are_not_read_again() -> None:
    """The definition of an unchanged file is the same object, a changed instance is a new one."""
    files = {"l.json": definition("Link", [config_map("a")]).encode(), "x.json": instance("Link", "x").encode()}
    before = load(files)
    after = load({**files, "x.json": instance("Link", "x", text="two").encode()}, previous=before)
    (kind,) = before.definitions
    assert after.definitions[kind] is before.definitions[kind]
    assert after.objects[0].manifest["spec"] == {"text": "two"}
    assert load({"x.json": files["x.json"]}, previous=after).definitions == {}


def evaluations(fleet: LinkPlatform, name: str) -> list[ObjectKey]:
    """Step, and return the instances for which the query with this name was computed."""
    graph, found = fleet.reconciler.inputs.graph, list[ObjectKey]()
    note = graph.cost.note_evaluation

    def noted(node: Node, seconds: float) -> None:
        if node.family.name == name:
            found.append(node.args[0] if isinstance(node.args[0], ObjectKey) else node.args[0].key)
        note(node, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph.cost, "note_evaluation", noted)
        fleet.step()
    return found


def test_an_instance_at_which_nothing_has_changed_is_not_looked_into() -> None:
    """A pass that finds one of them changed plans that one, and its source. A pass that finds nothing plans nothing."""
    with LinkPlatform(names=("i0", "i1", "i2")) as fleet:
        fleet.start()
        fleet.step()
        assert evaluations(fleet, "_set_plan") == []
        fleet.ready("i1", ready=False)
        assert {one.name for one in evaluations(fleet, "_set_plan")} <= {"source-platform", "i1"}
        fleet.ready("i2", ready=False)
        assert {one.name for one in evaluations(fleet, "_rendered_family")} == {"i2"}


def test_the_status_of_an_instance_does_not_have_it_rendered_again() -> None:
    """It is written anew whenever an instance waits for somebody else; what its expressions read of it is as it was. Of its resources all counts."""
    with LinkPlatform(names=("i0",)) as fleet:
        fleet.start()
        path = f"/apis/{GROUP}/v1/namespaces/default/links/i0/status"
        fleet.request("PATCH", path, {"status": {"levelgate": {"note": "waits"}}}, MERGE)
        assert evaluations(fleet, "_rendered_family") == []
        fleet.ready("i0", ready=False)
        assert evaluations(fleet, "_rendered_family")
