"""Renderings of instances in a graph: equal to renderings from scratch, at a cost that follows what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.cluster import Discovery
from gitops.decisions import live, resources
from gitops.decisions.resources import InstanceRendering
from gitops.queries import QueryGraph
from renderer.identity import ObjectKey
from renderer.label_selector import Selection
from renderer.render import set_cache
from renderer.render.resources import with_defaults
from tests.support.compiled_definitions import compiled, resource, source
from tests.support.graph_inputs import new_graph
from tests.support.graph_renderings import RENDERINGS, ComparingRenderer, wanted
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import repositories

SHOP = ObjectKey("kro.run", "App", "default", "shop")
RENDERING = InstanceRendering(SHOP, 1, "platform", SHOP)


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_each_rendering_in_a_graph_is_the_rendering_from_scratch(history: Sequence[Files], instant: bool) -> None:
    """Over commits and over the rounds and passes of each, with controllers at work."""
    renderer = ComparingRenderer()
    with pytest.MonkeyPatch.context() as patch, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        patch.setattr(set_cache, "resolve", renderer.resolve)
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []


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
    renderer, definition = ComparingRenderer(), compiled(source(*RESOURCES, spec=SPEC, status=STATUS))
    manifest: dict[str, Any] = {
        "apiVersion": definition.api_version,
        "kind": "App",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"name": "red", "names": ["a"]},
    }
    observed: dict[ObjectKey, Any] = {}
    selections: dict[Selection, Any] = {}
    for count, (what, which, how) in enumerate(changes):
        if what == "spec":
            manifest = {**manifest, "spec": {"name": which, "names": how}}
        elif what == "gone":
            observed = {key: obj for key, obj in observed.items() if key != which}
        elif what == "exists":
            metadata = {
                "name": which.name,
                "namespace": "default",
                "uid": f"u-{which.name}",
                "resourceVersion": str(count),
            }
            data = {"on": "yes" if how.get("ready") else "no"}
            version = {"free.test": "free.test/v1", "kro.run": "kro.run/v1alpha1"}.get(which.group, "v1")
            observed = {
                **observed,
                which: {"apiVersion": version, "kind": which.kind, "metadata": metadata, "data": data, "status": how},
            }
        else:
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "default", "selector": {"matchLabels": {"pick": which}}},
            }
            selections = {
                name: keys for name, keys in selections.items() if name != Selection.from_reference(reference)
            }
            if how is not None:
                selections[Selection.from_reference(reference)] = how
        renderer.resolve(
            definition,
            with_defaults(definition, manifest)[0],
            observed=observed,
            definitions={definition.group_kind: definition},
            scopes={},
            selected=selections,
            source="platform",
            owner=SHOP,
        )


def shop(*nodes: Any, **schema: Any) -> QueryGraph:
    """Return a graph with one instance, rendered for the first time, none of whose objects exists."""
    graph, definition = new_graph(), compiled(source(*nodes, **schema))
    manifest = {
        "apiVersion": definition.api_version,
        "kind": "App",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"name": "shop"},
    }
    with graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({}))
        transaction.set(resources.definition_at.at(SHOP.group_kind, 1), definition)
        transaction.set(resources.content.at(RENDERING), with_defaults(definition, manifest)[0])
        live.set_absent(transaction, [SHOP, *(config_map(node["id"]) for node in nodes)])
        transaction.set(wanted.at(), frozenset({RENDERING}))
    assert [answer.fault for answer in graph.changed(RENDERINGS)] == [None]
    return graph


def config_map(resource_id: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", f"shop-{resource_id.lower()}")


def create(graph: QueryGraph, key: ObjectKey, **fields: Any) -> Counter[str]:
    """Let an object come into being, and return the evaluations that the next rendering costs, by query."""
    before = graph.cost.evaluations.copy()
    metadata = {"name": key.name, "namespace": key.namespace, "uid": "u1", "resourceVersion": "1"}
    with graph.transaction() as transaction:
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
    assert all(answer.fault is None for answer in graph.changed(RENDERINGS))
    return graph.cost.evaluations - before


def independent(count: int) -> list[Any]:
    return [resource(f"n{number}") for number in range(count)]


def test_an_object_that_nothing_reads_renders_nothing() -> None:
    cost = create(shop(resource("db"), resource("cache")), config_map("db"))
    assert cost["_metered_resource"] == 0
    assert cost["placed_nodes"] == 0
    assert cost["rendered_set"] == 0


def test_an_object_renders_the_resources_that_read_the_object() -> None:
    graph = shop(resource("db"), resource("web", "db"), resource("cache"))
    cost = create(graph, config_map("db"))
    assert cost["_metered_resource"] == 1
    assert cost["_places"] == 0


def test_a_readiness_renders_the_resource_itself_and_its_conditional_readers() -> None:
    ready = resource("db", readyWhen=["${db.metadata.uid == 'u1'}"])
    conditional = resource("web", includeWhen=["${db.metadata.name != ''}"])
    graph = shop(ready, conditional, resource("cache"))
    cost = create(graph, config_map("db"))
    assert cost["_metered_resource"] == 2
    (web,) = (node for node in resources.rendered_set(graph, RENDERING).nodes if node.id == "web")
    assert web.writable


@pytest.mark.parametrize("reads", [[], ["n0"]])
def test_the_cost_of_an_object_does_not_depend_on_the_number_of_other_resources(reads: list[str]) -> None:
    costs = [create(shop(*independent(count), resource("last", *reads)), config_map("n0")) for count in (10, 300)]
    assert costs[0] == costs[1]


def test_a_change_of_the_instance_that_changes_no_edge_keeps_the_order() -> None:
    graph = shop(resource("db"), resource("web", "db"))
    before = graph.cost.evaluations.copy()
    manifest = resources.rendered_set(graph, RENDERING).manifest
    with graph.transaction() as transaction:
        transaction.set(resources.content.at(RENDERING), {**manifest, "spec": {**manifest["spec"], "name": "other"}})
    found = resources.rendered_set(graph, RENDERING)
    cost = graph.cost.evaluations - before
    assert {node.manifest["data"]["name"] for node in found.nodes} == {"other"}
    assert cost["_metered_resource"] == 2
    assert cost["_places"] == 0


def test_the_status_of_the_instance_renders_nothing() -> None:
    graph = shop(resource("db"))
    create(graph, SHOP)
    assert create(graph, SHOP, status={"state": "ACTIVE"})["_instance"] == 0


def test_the_uid_of_the_instance_renders_its_resources() -> None:
    node = resource("db")
    node["template"]["data"]["owner"] = "${schema.metadata.uid}"
    graph = shop(node)
    assert resources.rendered_set(graph, RENDERING).nodes[0].waiting == ("schema.metadata.uid",)
    create(graph, SHOP)
    assert resources.rendered_set(graph, RENDERING).nodes[0].manifest["data"]["owner"] == "u1"


def test_an_object_that_nobody_has_looked_up_is_unread() -> None:
    graph = shop(resource("db"), resource("web", "db"))
    with graph.transaction() as transaction:
        live.doubt(transaction, [config_map("db")])
    answer = graph.answer(resources.rendered_set, RENDERING)
    assert {key.args for key in answer.unread} == {(config_map("db"),)}
