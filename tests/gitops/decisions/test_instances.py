"""Sets of instances in a graph: equal to those of a rendering from scratch, at a cost that follows a change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from applier.cluster import Discovery
from gitops.decisions import definitions, instances, live
from renderer.catalog.catalog import Catalog
from renderer.identity import GroupKind, ObjectKey
from renderer.render.revisions import StoredRevisions
from tests.support.graph_inputs import GraphFeed, load_texts
from tests.support.graph_renderings import settle
from tests.support.properties.repositories import GROUP, config_map, definition, instance

INNER, OUTER = GroupKind(GROUP, "Inner"), GroupKind(GROUP, "Outer")
NESTED = {
    "id": "inner",
    "template": {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": {"name": "${schema.spec.text}"}, "spec": {}},
}
DEFINITIONS = {
    "i.json": definition("Inner", [config_map("a"), config_map("b")]),
    "o.json": definition("Outer", [config_map("c"), NESTED]),
}
INSTANCES = {f"{name}.json": instance("Outer", name, text="shared") for name in ("o1", "o2")}


def key_of(kind: GroupKind, name: str) -> ObjectKey:
    return ObjectKey(*kind, "default", name)


def cluster(*catalogs: Catalog) -> GraphFeed:
    """Return a graph of sources, rendered for the first time."""
    feed = GraphFeed()
    with feed.graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({}))
        feed.set_catalogs(transaction, catalogs, StoredRevisions())
    settle(feed.graph)
    return feed


def test_the_first_of_two_instances_that_nest_one_instance_has_it() -> None:
    feed = cluster(load_texts("platform", {**DEFINITIONS, **INSTANCES}))
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert shared.owner == key_of(OUTER, "o1")
    with feed.graph.transaction() as transaction:
        only_second = {**DEFINITIONS, "o2.json": INSTANCES["o2.json"]}
        feed.set_catalogs(transaction, [load_texts("platform", only_second)], StoredRevisions())
    settle(feed.graph)
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert shared.owner == key_of(OUTER, "o2")


def test_a_declared_instance_takes_precedence_over_a_nested_one() -> None:
    feed = cluster(
        load_texts("platform", {**DEFINITIONS, **INSTANCES}),
        load_texts("other", {"shared.json": instance("Inner", "shared")}),
    )
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert (shared.source, shared.is_nested) == ("other", False)


def test_an_instance_whose_kind_has_no_usable_definition_is_not_rendered() -> None:
    feed = cluster(load_texts("platform", {**DEFINITIONS, **INSTANCES}))
    with feed.graph.transaction() as transaction:
        transaction.set(definitions.store_error.at(OUTER), "quota exceeded")
    settle(feed.graph)
    found = instances.instance_set(feed.graph, key_of(OUTER, "o1"))
    assert found
    assert "could not be stored: quota exceeded; the instance stays as it is" in found.error


@pytest.mark.parametrize("field", ["status", "appears"])
def test_the_cost_of_one_object_does_not_depend_on_the_number_of_instances(field: str) -> None:
    costs = []
    for count in (10, 300):
        feed = cluster(load_texts("platform", DEFINITIONS | inner(range(count))))
        before = feed.graph.cost.evaluations.copy()
        name = "n3" if field == "status" else "n3-a"
        kind, version = ("Inner", f"{GROUP}/v1") if field == "status" else ("ConfigMap", "v1")
        metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "1"}
        with feed.graph.transaction() as transaction:
            live.set_objects(transaction, [{"apiVersion": version, "kind": kind, "metadata": metadata, "status": {}}])
        settle(feed.graph)
        costs.append(feed.graph.cost.evaluations - before)
    assert costs[0] == costs[1]
    assert costs[0].total() < 40


def inner(numbers: Iterable[int], **spec: Any) -> dict[str, str]:
    return {f"{number}.json": instance("Inner", f"n{number}", **spec) for number in numbers}


def test_a_commit_to_one_instance_renders_that_instance() -> None:
    """The order of the source stays as it is."""
    before = load_texts("platform", DEFINITIONS | inner(range(30)))
    feed = cluster(before)
    settle(feed.graph)
    after = load_texts("platform", DEFINITIONS | inner(range(30)) | inner([3], text="two"), before)
    evaluations = feed.graph.cost.evaluations.copy()
    with feed.graph.transaction() as transaction:
        feed.set_catalogs(transaction, [after], StoredRevisions())
    settle(feed.graph)
    cost = feed.graph.cost.evaluations - evaluations
    assert (cost["family"], cost["_metered_resource"], cost["definitions"]) == (1, 2, 0)
    assert (cost["source_set_node"], cost["placed_node"], cost["source_places"]) == (1, 1, 0)
