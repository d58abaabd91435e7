"""Collections: `forEach`, references by selector, and what others see of them (kro documentation, "Collections", "External references")."""

from __future__ import annotations

from typing import Any

import pytest

from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import GroupKind, ObjectKey, digest
from renderer.label_selector import LabelSelector, Selection
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.properties.repositories import GROUP, config_map, definition, instance, widget

X = ObjectKey(GROUP, "Link", "default", "x")
SPEC = {
    "text": "string | default=one",
    "on": "boolean | default=true",
    "names": "[]string",
    "zones": "[]string | default=[]",
    "any": "object | default={}",
}


def workers(*dimensions: dict[str, str], name: str = "${name}", **more: Any) -> dict[str, Any]:
    """A collection of ConfigMaps."""
    return config_map("workers", name=name, forEach=list(dimensions) or [{"name": "${schema.spec.names}"}], **more)


def gadgets(*dimensions: dict[str, str], **more: Any) -> dict[str, Any]:
    """The same of a kind whose fields nobody describes."""
    node = workers(*dimensions, **more)
    node["template"] |= {"apiVersion": "w.test/v1", "kind": "Widget"}
    return node


def reader(node_id: str, **data: str) -> dict[str, Any]:
    node = config_map(node_id)
    node["template"]["data"] = data
    return node


def selecting(**metadata: Any) -> dict[str, Any]:
    return {
        "id": "found",
        "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"selector": {}, **metadata}},
    }


def rendered(
    *resources: dict[str, Any], status: Any = None, world: ClusterView | None = None, **spec: Any
) -> RenderedApplySet:
    files = {
        "l.json": definition("Link", list(resources), spec=SPEC, status=status or {}),
        "x.json": instance("Link", "x", **spec),
    }
    catalog = load({name: text.encode() for name, text in files.items()}, source="platform")
    assert catalog.problems == ()
    return render([catalog], world).instances[X]


def nodes(found: RenderedApplySet) -> dict[str, RenderedNode]:
    return {node.id: node for node in found.nodes}


def live(found: RenderedApplySet, **changes: dict[str, Any]) -> ClusterView:
    """A world in which these nodes exist as rendered, each with the fields given for it by the name of its object."""
    objects = {}
    for node in found.nodes:
        if node.key and not node.external:
            annotations = {well_known.HASH: digest(node.manifest)}
            metadata = {**node.manifest["metadata"], "uid": "u", "resourceVersion": "1", "annotations": annotations}
            objects[node.key] = {**node.manifest, "metadata": metadata, **changes.get(node.key.name, {})}
    return ClusterView(live=objects)


# ---- items


def test_each_value_gives_one_item_with_an_id_of_its_own() -> None:
    found = rendered(workers(), names=["a", "b", "c"])
    assert [(node.id, node.key.name if node.key else "") for node in found.nodes] == [
        ("workers/0", "a"),
        ("workers/1", "b"),
        ("workers/2", "c"),
    ]
    assert all(node.writable for node in found.nodes)


def test_dimensions_multiply_and_the_first_is_the_outer_loop() -> None:
    """Cartesian product."""
    node = workers({"zone": "${schema.spec.zones}"}, {"name": "${schema.spec.names}"}, name="${zone}-${name}")
    found = rendered(node, names=["a", "b"], zones=["x", "y"])
    assert [node.key.name for node in found.nodes if node.key] == ["x-a", "x-b", "y-a", "y-b"]


def test_an_empty_dimension_gives_no_items() -> None:
    node = workers({"zone": "${schema.spec.zones}"}, {"name": "${schema.spec.names}"}, name="${zone}-${name}")
    assert rendered(node, names=["a", "b"], zones=[]).nodes == ()


def test_iterators_of_two_resources_may_have_one_name() -> None:
    other = {**workers(name="o-${name}"), "id": "others"}
    assert len(rendered(workers(), other, names=["a", "b"]).nodes) == 4


def test_others_see_a_collection_as_a_list_and_depend_on_all_of_it() -> None:
    data = {
        "count": "${string(size(workers))}",
        "first": "${workers[0].metadata.name}",
        "all": "${workers.map(w, w.data.text).join(',')}",
    }
    found = nodes(rendered(workers(), reader("z", **data), names=["a", "b"]))
    assert found["z"].manifest["data"] == {"count": "2", "first": "a", "all": "one,one"}
    assert found["z"].depends_on == ("workers/0", "workers/1")
    assert [found[name].level for name in ("workers/0", "workers/1", "z")] == [0, 0, 1]


def test_who_reads_an_empty_collection_depends_on_what_it_is_made_from() -> None:
    """Or a change of the source would not come first."""
    a = reader("a", list="x")
    node = workers({"name": "${a.data.list == 'x' ? [] : ['n']}"})
    found = nodes(rendered(a, node, reader("z", n="${string(size(workers))}"), names=[]))
    assert found["z"].manifest["data"] == {"n": "0"}
    assert (found["z"].depends_on, found["z"].level) == (("a",), 1)


def test_collections_chain() -> None:
    second = config_map("pods", name="${w.metadata.name}-pod", forEach=[{"w": "${workers}"}])
    found = nodes(rendered(workers(), second, names=["a", "b"]))
    assert [found[f"pods/{index}"].key for index in range(2)] == [
        ObjectKey("", "ConfigMap", "default", name) for name in ("a-pod", "b-pod")
    ]


def test_data_that_an_item_waits_for_is_that_of_the_item() -> None:
    found = nodes(rendered(gadgets(), reader("z", ip="${workers[1].status.ip}"), names=["a", "b"]))
    assert found["z"].waiting == ("workers[1].status.ip",)
    world = live(rendered(gadgets(), names=["a", "b"]), b={"status": {"ip": "10.0.0.2"}})
    found = nodes(rendered(gadgets(), reader("z", ip="${workers[1].status.ip}"), names=["a", "b"], world=world))
    assert found["z"].manifest["data"] == {"ip": "10.0.0.2"}


def test_a_collection_whose_size_is_not_known_is_one_node_that_waits() -> None:
    """Nothing is written, nothing is deleted: the key is open and the kind is known."""
    node = workers({"name": "${a.status.names}"})
    found = nodes(rendered(widget("a"), node, reader("z", n="${string(size(workers))}"), names=[]))
    assert (found["workers"].key, found["workers"].waiting) == (None, ("a.status.names",))
    assert found["workers"].group_kind == GroupKind("", "ConfigMap")
    assert found["z"].depends_on == ("workers",)
    assert found["z"].waiting == ("workers",)


def test_an_index_past_the_end_is_an_error_since_no_further_item_will_come() -> None:
    node = nodes(rendered(gadgets(), reader("z", ip="${workers[2].status.ip}"), names=["a", "b"]))["z"]
    assert "index 2 out of range" in node.error
    assert node.waiting == ()


@pytest.mark.parametrize("expression", ["${name.nosuch}", "${zone.nosuch}"])
def test_what_an_iterator_of_the_instances_own_data_lacks_is_an_error(expression: str) -> None:
    dimensions = [{"name": "${schema.spec.any.names}"}, {"zone": "${schema.spec.any.names}"}]
    node = workers(*dimensions, name="${name.n}-${zone.n}")
    node["template"]["data"] = {"value": expression}
    (only,) = rendered(node, names=[], any={"names": [{"n": "a"}]}).nodes
    assert "no such key 'nosuch'" in only.error


def test_what_an_iterator_of_observed_data_lacks_is_waited_for() -> None:
    second = config_map("pods", name="${w.metadata.name}-pod", forEach=[{"w": "${workers}"}])
    second["template"]["data"] = {"ip": "${w.status.ip}"}
    found = nodes(rendered(gadgets(), second, names=["a"]))
    assert found["pods/0"].waiting == ("w.status.ip",)


@pytest.mark.parametrize(
    ("dimension", "told"),
    [
        ("${schema.spec.any.nosuch}", "no such key 'nosuch' in schema.spec.any"),
        ("${schema.spec.any.text}", "forEach needs a list, not string"),
        ("${lists.range(1001).map(i, string(i))}", "the collection would have 1001 items; use at most 1000"),
    ],
)
def test_dimensions_that_give_no_items(dimension: str, told: str) -> None:
    (only,) = rendered(workers({"name": dimension}), names=[], any={"text": "t"}).nodes
    assert (only.id, only.key) == ("workers", None)
    assert told in only.error


def test_the_limit_holds_for_the_product() -> None:
    dimensions = [{"name": "${lists.range(40).map(i, string(i))}"}, {"zone": "${lists.range(26).map(i, string(i))}"}]
    (only,) = rendered(workers(*dimensions, name="n${name}-${zone}"), names=[]).nodes
    assert "would have 1040 items (40 x 26)" in only.error


def test_items_that_would_be_one_object_are_all_refused() -> None:
    """Identity collision: which of them would be right nobody can tell."""
    found = nodes(rendered(workers(), config_map("z"), names=["a", "b", "a"]))
    assert "workers/0, workers/2 are all ConfigMap/default/a" in found["workers/0"].error
    assert found["workers/2"].error == found["workers/0"].error
    assert found["workers/1"].writable
    assert found["z"].writable


def test_two_resources_that_would_be_one_object_are_both_refused() -> None:
    found = nodes(rendered(config_map("a", name="same"), config_map("b", name="same"), names=[]))
    assert "a, b are all ConfigMap/default/same" in found["a"].error
    assert not found["b"].writable


# ---- conditions


def test_a_condition_gates_the_whole_collection() -> None:
    node = workers(includeWhen=["${schema.spec.on}"])
    found = rendered(node, reader("z", n="${string(size(workers))}"), names=["a", "b"], on=False)
    assert found.nodes == ()
    assert [one.id for one in found.excluded] == ["workers", "z"]


def test_readywhen_of_a_collection_asks_each_item() -> None:
    node = workers(readyWhen=["${each.data.text == 'ok'}"])
    world = live(rendered(node, names=["a", "b"]), a={"data": {"text": "ok"}})
    found = nodes(rendered(node, names=["a", "b"], world=world))
    assert found["workers/0"].ready.verdict is True
    assert (found["workers/1"].ready.verdict, found["workers/1"].ready.why) == (
        False,
        "${each.data.text == 'ok'} is false",
    )


def test_a_condition_on_a_collection_waits_until_all_items_are_ready() -> None:
    node = workers(readyWhen=["${each.data.text == 'ok'}"])
    after = config_map("z", includeWhen=["${size(workers) == 2}"])
    ok = {"data": {"text": "ok"}}
    one = live(rendered(node, names=["a", "b"]), a=ok)
    assert nodes(rendered(node, after, names=["a", "b"], world=one))["z"].waiting == ("workers to be ready",)
    both = live(rendered(node, names=["a", "b"]), a=ok, b=ok)
    assert nodes(rendered(node, after, names=["a", "b"], world=both))["z"].writable


def test_an_empty_collection_is_ready() -> None:
    after = config_map("z", includeWhen=["${size(workers) == 0}"])
    assert nodes(rendered(workers(), after, names=[]))["z"].writable


def test_an_empty_optional_is_a_no() -> None:
    """Also for an item of a collection, where kro has an error."""
    node = workers(readyWhen=["${each.?status.?ready}"])
    world = live(rendered(node, names=["a"]))
    assert nodes(rendered(node, names=["a"], world=world))["workers/0"].ready.verdict is False
    assert rendered(config_map("a", includeWhen=["${schema.spec.any.?on}"]), names=[]).nodes == ()


def test_status_counts_what_is_live() -> None:
    status = {"count": "${size(workers)}", "names": "${workers.map(w, w.metadata.name)}"}
    assert rendered(workers(), names=["a", "b"], status=status).status == {"count": 0, "names": []}
    world = live(rendered(workers(), names=["b"]))
    assert rendered(workers(), names=["a", "b"], status=status, world=world).status == {"count": 1, "names": ["b"]}


# ---- references by selector


def matching(reference: dict[str, Any], *names: str, **spec: Any) -> ClusterView:
    """A world in which the selection of this reference found ConfigMaps of these names."""
    (node,) = rendered(reference, names=[], **spec).nodes
    assert node.selection
    found = {
        ObjectKey("", "ConfigMap", "team", name): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "team"},
            "data": {"text": name},
        }
        for name in names
    }
    return ClusterView(live=found, selected={node.selection: tuple(found)})


def test_what_a_reference_selects_waits_until_it_is_listed() -> None:
    reference = selecting(selector={"matchLabels": {"app": "${schema.spec.text}"}}, namespace="team")
    found = nodes(rendered(reference, reader("z", n="${string(size(found))}"), names=[]))
    assert found["found"].selection == Selection(GroupKind("", "ConfigMap"), "team", LabelSelector.parse("app=one"))
    assert found["found"].waiting == ("ConfigMap objects in team with app=one to be listed",)
    assert found["z"].waiting == ("found",)
    assert not found["found"].writable


def test_selected_objects_are_a_list_in_the_order_of_their_names() -> None:
    reference = selecting(selector={"matchLabels": {"app": "a"}})
    world = matching(reference, "q", "p")
    z = reader("z", all="${found.map(f, f.data.text).join(',')}")
    found = nodes(rendered(reference, z, names=[], world=world))
    assert found["z"].manifest["data"] == {"all": "p,q"}
    assert found["z"].depends_on == ("found/0", "found/1")
    assert all(found[name].external and not found[name].writable for name in ("found/0", "found/1"))


def test_an_empty_selection_is_a_value() -> None:
    reference = selecting()
    found = nodes(rendered(reference, reader("z", n="${string(size(found))}"), names=[], world=matching(reference)))
    assert found["z"].writable
    assert found["z"].manifest["data"] == {"n": "0"}


@pytest.mark.parametrize(
    ("condition", "names", "ready"),
    [
        ("${size(found) >= 2}", ["p"], False),
        ("${size(found) >= 2}", ["p", "q"], True),
        ("${each.data.text != 'q'}", ["p", "q"], False),
        ("${each.data.text != 'q'}", ["p"], True),
        ("${each.data.text != 'q'}", [], True),
    ],
)
def test_readywhen_works_on_the_list_and_on_each_object(condition: str, names: list[str], ready: bool) -> None:
    """Where kro's builder and runtime disagree on the variable, both work here."""
    reference = {**selecting(), "readyWhen": [condition]}
    found = rendered(reference, reader("z", n="${string(size(found))}"), names=[], world=matching(selecting(), *names))
    before = [node for node in found.nodes if node.id != "z"]
    assert all(not node.waiting and node.ready.verdict is not False for node in before) is ready


def test_a_reference_without_a_namespace_selects_in_all_of_them() -> None:
    (node,) = rendered(selecting(), names=[]).nodes
    assert node.selection == Selection(GroupKind("", "ConfigMap"), None, LabelSelector())


def test_a_selector_may_wait_for_data() -> None:
    reference = selecting(selector={"matchLabels": {"app": "${a.status.app}"}})
    node = nodes(rendered(widget("a"), reference, names=[]))["found"]
    assert (node.waiting, node.selection) == (("a.status.app",), None)


def test_a_selector_that_turns_out_wrong_is_an_error_of_its_node() -> None:
    reference = selecting(selector={"matchLabels": {"app": "${schema.spec.text}"}})
    (node,) = rendered(reference, names=[], text="not a label!").nodes
    assert "cannot be the value of the label app" in node.error
