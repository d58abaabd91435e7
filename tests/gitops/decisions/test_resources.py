"""Renderings of instances in a graph: equal to renderings from scratch, at a cost that follows what changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.decisions import live, resources
from gitops.queries import QueryGraph, Roots, query
from renderer.cel import budget
from renderer.definition import crd
from renderer.identity import ObjectKey, is_same
from renderer.label_selector import Selection
from renderer.render.instances import InstanceRendering
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.compiled_definitions import resource, source
from tests.support.graph_inputs import OneInstance, changed
from tests.support.properties.examples import examples

SHOP = OneInstance.ROOT.key
CRD_OF_APPS = crd.key_of(SHOP.group_kind)


@query
def all_renderings(_: QueryGraph) -> frozenset[InstanceRendering]:
    return frozenset({OneInstance.RENDERING})


RENDERINGS = Roots("renderings", order=99, members=all_renderings, result=resources.rendered_set)


NAMES = ("red", "blue")
SPEC = {"name": "string", "names": "[]string", "size": "integer | default=1"}
ACCOUNT = {"apiGroup": "", "kind": "ServiceAccount", "name": "${schema.spec.name}", "namespace": "default"}


def template(kind: str, api_version: str, suffix: str, **fields: Any) -> dict[str, Any]:
    """Return a node whose object is named after the instance."""
    metadata = {"name": f"${{schema.metadata.name}}-{suffix}", **fields.pop("metadata", {})}
    return {"id": suffix, "template": {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}}


def pod(*, account: str) -> dict[str, Any]:
    """Return the fields of a workload whose Pods use a ServiceAccount."""
    containers = [{"name": "main", "image": "example.com/main:1", "env": []}]
    labels = {"app": "main"}
    return {
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": account, "containers": containers},
            },
        }
    }


RESOURCES = (
    {**template("Widget", "free.test/v1", "db"), "readyWhen": ["${db.status.ready == true}"]},
    template("Secret", "v1", "key", stringData={"password": "${schema.spec.name}-password"}),
    template("ConfigMap", "v1", "host", data={"host": "${db.status.host}"}),
    template("ConfigMap", "v1", "late", metadata={"name": "${given.metadata.uid}"}, data={"a": "b"}),
    template("ConfigMap", "v1", "uid", data={"uid": "${schema.metadata.uid}"}),
    template("ConfigMap", "v1", "text", data={"ready": "${string(db.status.ready)}"}),
    template("Widget", "free.test/v1", "copy", spec={"ready": "${db.status.ready}"}),
    template("ServiceAccount", "v1", "account", metadata={"name": "red"}),
    template("Deployment", "apps/v1", "web", **pod(account="${schema.spec.name}")),
    template(
        "RoleBinding",
        "rbac.authorization.k8s.io/v1",
        "grant",
        metadata={"labels": {"host": "${db.status.host}"}},
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        subjects=[ACCOUNT],
    ),
    {
        **template(
            "ConfigMap", "v1", "many", metadata={"name": "${schema.metadata.name}-many-${n}"}, data={"n": "${n}"}
        ),
        "forEach": [{"n": "${schema.spec.names}"}],
    },
    template("ConfigMap", "v1", "sum", data={"count": "${string(size(many))}", "first": "${many[0].metadata.name}"}),
    {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "given"}}},
    {
        "id": "found",
        "externalRef": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"selector": {"matchLabels": {"pick": "${schema.spec.name}"}}},
        },
    },
    template("ConfigMap", "v1", "picked", data={"names": "${found.map(f, f.metadata.name).join(',')}"}),
    {
        **template("ConfigMap", "v1", "extra", data={"on": "${given.data.on}"}),
        "includeWhen": ["${given.data.on == 'yes'}"],
    },
    template("ConfigMap", "v1", "wrong", data={"n": "${string(int(key.stringData.password))}"}),
)
STATUS = {"host": "${db.status.host}", "many": "${many.map(m, m.metadata.uid)}"}
KEYS = tuple(
    ObjectKey(group, kind, "default", name)
    for group, kind, name in (
        ("free.test", "Widget", "shop-db"),
        ("", "Secret", "shop-key"),
        ("", "ConfigMap", "shop-host"),
        ("", "ConfigMap", "given"),
        ("", "ConfigMap", "shop-many-a"),
        ("", "ConfigMap", "shop-extra"),
        ("kro.run", "App", "shop"),
    )
)
FOUND = (ObjectKey("", "ConfigMap", "default", "f1"), ObjectKey("", "ConfigMap", "default", "f2"))
CHANGES = st.one_of(
    st.tuples(st.just("spec"), st.sampled_from(NAMES), st.lists(st.sampled_from("abc"), unique=True, max_size=3)),
    st.tuples(
        st.sampled_from(["exists", "exists", "gone"]),
        st.sampled_from((*KEYS, *FOUND)),
        st.fixed_dictionaries({}, optional={"ready": st.sampled_from([True, 1]), "host": st.sampled_from(NAMES)}),
    ),
    st.tuples(st.just("selected"), st.sampled_from(NAMES), st.sampled_from([FOUND, FOUND[:1], (), "no rights", None])),
)


@examples(50)
@given(changes=st.lists(CHANGES, min_size=3, max_size=25))
def test_the_rendering_follows_each_change(changes: list[tuple[Any, Any, Any]]) -> None:
    shop = OneInstance(source(*RESOURCES, spec=SPEC, status=STATUS))
    shop.commit(name="red", names=["a"])
    observed: dict[ObjectKey, Any] = {}
    selections: dict[Selection, Any] = {}
    for count, (what, which, how) in enumerate(changes):
        if what == "spec":
            shop.commit(name=which, names=how)
        elif what == "gone":
            observed = {key: obj for key, obj in observed.items() if key != which}
        elif what == "exists":
            observed = {**observed, which: observed_object(which, str(count), how)}
        else:
            selections = {**selections, selection(which): how}
        with shop.graph.transaction() as transaction:
            live.set_objects(transaction, observed.values())
            live.set_absent(transaction, {*KEYS, *FOUND} - observed.keys())
            shop.feed.set_selections(transaction, selections)
        changed(shop.graph, RENDERINGS)
        found = resources.rendered_set(shop.graph, shop.RENDERING)
        known = {one: keys for one, keys in selections.items() if keys is not None}
        expected = render([shop.catalog], ClusterView(live=observed, selected=known)).instances[SHOP]
        expected = replace(expected, revision=0, target_revision=0)
        assert found == expected
        assert is_same(
            [found.status, [node.manifest for node in found.nodes]],
            [expected.status, [node.manifest for node in expected.nodes]],
        )


def observed_object(key: ObjectKey, version: str, status: dict[str, Any]) -> dict[str, Any]:
    """Return a live object with a status, in which a reference finds `on`."""
    metadata = {"name": key.name, "namespace": "default", "uid": f"u-{key.name}", "resourceVersion": version}
    api_version = {"free.test": "free.test/v1", "kro.run": "kro.run/v1alpha1"}.get(key.group, "v1")
    data = {"on": "yes" if status.get("ready") else "no"}
    return {"apiVersion": api_version, "kind": key.kind, "metadata": metadata, "data": data, "status": status}


def selection(name: str) -> Selection:
    """Return the selection of the resource `found` for an instance with this name in its spec."""
    metadata = {"namespace": "default", "selector": {"matchLabels": {"pick": name}}}
    return Selection.from_reference({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def new_shop(*nodes: Any) -> OneInstance:
    """Return a graph with one instance, rendered for the first time, none of whose objects exists."""
    shop = OneInstance(source(*nodes))
    shop.commit(name="shop")
    with shop.graph.transaction() as transaction:
        live.set_absent(transaction, [SHOP, CRD_OF_APPS, *(config_map(node["id"]) for node in nodes)])
    changed(shop.graph, RENDERINGS)
    return shop


def config_map(resource_id: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", f"shop-{resource_id.lower()}")


def create(shop: OneInstance, key: ObjectKey, **fields: Any) -> Counter[str]:
    """Let an object come into being, and return the evaluations that the next rendering costs, by query."""
    before = shop.graph.cost.evaluations.copy()
    metadata = {"name": key.name, "namespace": key.namespace, "uid": "u1", "resourceVersion": "1"}
    with shop.graph.transaction() as transaction:
        live.set_objects(
            transaction,
            [
                {
                    "apiVersion": "kro.run/v1alpha1" if key == SHOP else "v1",
                    "kind": key.kind,
                    "metadata": metadata,
                    **fields,
                }
            ],
        )
    changed(shop.graph, RENDERINGS)
    return shop.graph.cost.evaluations - before


def independent(count: int) -> list[Any]:
    return [resource(f"n{number}") for number in range(count)]


def test_an_object_that_nothing_reads_renders_nothing() -> None:
    cost = create(new_shop(resource("db"), resource("cache")), config_map("db"))
    assert cost["_metered_resource"] == 0
    assert cost["placed_nodes"] == 0
    assert cost["rendered_set"] == 0


def test_an_object_renders_the_resources_that_read_the_object() -> None:
    shop = new_shop(resource("db"), resource("web", "db"), resource("cache"))
    cost = create(shop, config_map("db"))
    assert cost["_metered_resource"] == 1
    assert cost["_places"] == 0


def test_a_readiness_renders_the_resource_itself_and_its_conditional_readers() -> None:
    ready = resource("db", readyWhen=["${db.metadata.uid == 'u1'}"])
    conditional = resource("web", includeWhen=["${db.metadata.name != ''}"])
    shop = new_shop(ready, conditional, resource("cache"))
    cost = create(shop, config_map("db"))
    assert cost["_metered_resource"] == 2
    (web,) = (node for node in resources.rendered_set(shop.graph, shop.RENDERING).nodes if node.id == "web")
    assert web.writable


@pytest.mark.parametrize("reads", [[], ["n0"]])
def test_the_cost_of_an_object_does_not_depend_on_the_number_of_other_resources(reads: list[str]) -> None:
    costs = [create(new_shop(*independent(count), resource("last", *reads)), config_map("n0")) for count in (10, 300)]
    assert costs[0] == costs[1]


def test_a_change_of_the_instance_that_changes_no_edge_keeps_the_order() -> None:
    shop = new_shop(resource("db"), resource("web", "db"))
    before = shop.graph.cost.evaluations.copy()
    shop.commit(name="other")
    changed(shop.graph, RENDERINGS)
    found = resources.rendered_set(shop.graph, shop.RENDERING)
    cost = shop.graph.cost.evaluations - before
    assert {node.manifest["data"]["name"] for node in found.nodes} == {"other"}
    assert cost["_metered_resource"] == 2
    assert cost["_places"] == 0


def test_the_status_of_the_instance_renders_nothing() -> None:
    shop = new_shop(resource("db"))
    create(shop, SHOP)
    assert create(shop, SHOP, status={"state": "ACTIVE"})["_instance"] == 0


def test_the_uid_of_the_instance_renders_its_resources() -> None:
    node = resource("db")
    node["template"]["data"]["owner"] = "${schema.metadata.uid}"
    shop = new_shop(node)
    assert resources.rendered_set(shop.graph, shop.RENDERING).nodes[0].waiting == ("schema.metadata.uid",)
    create(shop, SHOP)
    assert resources.rendered_set(shop.graph, shop.RENDERING).nodes[0].manifest["data"]["owner"] == "u1"


def test_an_object_that_nobody_has_looked_up_is_unread() -> None:
    shop = new_shop(resource("db"), resource("web", "db"))
    with shop.graph.transaction() as transaction:
        live.doubt(transaction, [config_map("db")])
    answer = shop.graph.answer(resources.rendered_set, shop.RENDERING)
    assert {key.args for key in answer.unread} == {(config_map("db"),)}


def test_expensive_resources_share_the_budget_of_their_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheap resource after them is rendered all the same."""
    monkeypatch.setattr(budget, "INSTANCE_UNITS", 600_000)
    nodes = [resource(f"n{number}") for number in range(8)]
    for node in nodes[:7]:
        node["template"]["data"] = {"on": "${string(lists.range(1000).all(a, lists.range(100).all(b, b >= 0)))}"}
    shop = new_shop(*nodes)
    errors = [node.error for node in resources.rendered_set(shop.graph, shop.RENDERING).nodes]
    exceeded = [
        error for error in errors if "the expressions of this instance together need more than 600,000" in error
    ]
    assert errors[0] == errors[-1] == ""
    assert len(exceeded) >= 2
    assert errors == [""] * (7 - len(exceeded)) + exceeded + [""]


def test_a_value_of_another_type_is_rendered_again() -> None:
    """To Python, `1` and `True` are equal."""
    widget = template("Widget", "free.test/v1", "db", spec={"on": "${schema.spec.any}"})
    shop = OneInstance(source(widget, spec={"any": "object"}))
    for value in (1, True):
        shop.commit(any={"a": value})
        changed(shop.graph, RENDERINGS)
        (node,) = resources.rendered_set(shop.graph, shop.RENDERING).nodes
        assert is_same(node.manifest["spec"], {"on": {"a": value}})
