"""One instance, rendered from what is known: offline, and with what is live (docs/architecture.md, rgd 1.4 to 1.8)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import ObjectKey, digest
from renderer.manifest_hash import is_written_from, render_hash
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.render.render import render
from renderer.render.resources import overlay, schema_value
from renderer.render.world import ClusterView
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain, reading, widget

X = ObjectKey(GROUP, "Link", "default", "x")
WIDGET = ObjectKey("free.test", "Widget", "default", "x-a")


def key(name: str, kind: str = "ConfigMap", namespace: str = "default") -> ObjectKey:
    return ObjectKey("", kind, namespace, name)


def rendered(*resources: dict[str, Any], live: dict[ObjectKey, Any] | None = None, **spec: Any) -> RenderedApplySet:
    schema = spec.pop("schema", {})
    files = {"l.json": definition("Link", list(resources), **schema), "x.json": instance("Link", "x", **spec)}
    catalog = load({name: text.encode() for name, text in files.items()}, source="platform")
    assert catalog.problems == ()
    return render([catalog], ClusterView(live=live or {})).instances[X]


def nodes(found: RenderedApplySet) -> dict[str, RenderedNode]:
    return {node.id: node for node in found.nodes}


def seen(manifest: dict[str, Any], *, carried: bool = True, **fields: Any) -> dict[str, Any]:
    """A live object last written from this manifest, or from another one."""
    annotations = {well_known.HASH: digest(manifest) if carried else "other"}
    metadata = {**manifest["metadata"], "uid": "u1", "resourceVersion": "1", "annotations": annotations}
    return {**manifest, "metadata": metadata, **fields}


def test_what_a_dependencys_own_manifest_sets_counts_as_observed() -> None:
    """docs/architecture.md: offline."""
    found = nodes(rendered(config_map("a"), reading("b", "${a.data.text}"), text="two"))
    assert found["b"].manifest["data"] == {"value": "two"}
    assert found["b"].waiting == ()
    assert (found["a"].level, found["b"].level) == (0, 1)


@pytest.mark.parametrize(
    ("expression", "awaited"),
    [
        ("${a.status.loadBalancer.ingress[0].ip}", "a.status.loadBalancer.ingress[0].ip"),
        ("${string(a.status.replicas)}", "a.status.replicas"),
        ("${a.metadata.uid}", "a.metadata.uid"),
        ("http://${a.status.host}/", "a.status.host"),
        ("${schema.metadata.uid}", "schema.metadata.uid"),
    ],
)
def test_what_is_waited_for_is_the_whole_path(expression: str, awaited: str) -> None:
    """Rule 10; the manifest keeps the expression as written."""
    node = nodes(rendered(widget("a"), reading("b", expression)))["b"]
    assert node.waiting == (awaited,)
    assert node.manifest["data"]["value"] == expression
    assert not node.writable
    assert node.key == key("x-b")


def test_the_same_data_missed_twice_is_waited_for_once() -> None:
    node = reading("b", "${a.status.host}")
    node["template"]["data"]["again"] = "${a.status.host}"
    assert nodes(rendered(widget("a"), node))["b"].waiting == ("a.status.host",)


def test_a_name_that_waits_leaves_the_key_open() -> None:
    node = nodes(rendered(widget("a"), config_map("b", name="${a.status.host}")))["b"]
    assert (node.key, node.waiting) == (None, ("a.status.host",))


@pytest.mark.parametrize(
    "expression",
    ["${schema.spec.map.nosuch}", "${string(1 / (size(schema.spec.text) - 3))}", "${schema.metadata.labels.a}"],
)
def test_what_can_never_come_is_an_error_and_not_awaited(expression: str) -> None:
    """Of the instance only what the server adds can still come."""
    fields = {"spec": {"text": "string | default=one", "on": "boolean | default=true", "map": "object | default={}"}}
    node = nodes(rendered(reading("a", expression), schema=fields))["a"]
    assert node.error
    assert node.waiting == ()


def test_a_node_in_error_holds_its_readers_and_nobody_else() -> None:
    """Rule 8."""
    broken = reading("a", "${string(1 / 0)}")
    found = nodes(rendered(broken, config_map("z")))
    assert found["a"].error
    assert found["z"].writable


# ---- includeWhen


def test_a_false_condition_excludes_a_node_and_all_that_read_it() -> None:
    """Rgd 1.5: contagious."""
    found = rendered(
        config_map("a", includeWhen=["${schema.spec.on}"]),
        config_map("b", "a"),
        config_map("c", "b"),
        config_map("z"),
        on=False,
    )
    assert [node.id for node in found.nodes] == ["z"]
    assert {one.id: one.because for one in found.excluded} == {
        "a": "${schema.spec.on} is false",
        "b": "it reads a, which is excluded",
        "c": "it reads b, which is excluded",
    }


def test_levels_stay_without_gaps_when_nodes_are_excluded() -> None:
    """S0-1: a level of which all nodes are out does not stay behind as an empty one."""
    middle = reading("b", "${a.data.text}", includeWhen=["${schema.spec.on}"])
    found = rendered(config_map("a"), middle, config_map("z", "a"), on=False)
    assert [[node.id for node in level] for level in found.levels] == [["a"], ["z"]]


def test_a_condition_waits_until_what_it_reads_is_ready() -> None:
    """Rgd 1.5: not ready means pending, not excluded."""
    condition = config_map("b", includeWhen=["${a.data.text == 'one'}"])
    offline = rendered(config_map("a"), condition)
    assert nodes(offline)["b"].waiting == ("a to be ready",)
    live = {key("x-a"): seen(nodes(offline)["a"].manifest)}
    assert nodes(rendered(config_map("a"), condition, live=live))["b"].writable
    other = config_map("b", includeWhen=["${a.data.text == 'two'}"])
    assert [one.id for one in rendered(config_map("a"), other, live=live).excluded] == ["b"]


def test_a_condition_that_is_no_boolean_is_an_error() -> None:
    node = nodes(rendered(config_map("a", includeWhen=["${dyn(schema.spec.text)}"])))["a"]
    assert "must be true or false" in node.error


# ---- what is live


def test_a_live_object_that_carries_the_manifest_is_read_as_it_is() -> None:
    """The server's defaults and status count."""
    a = nodes(rendered(widget("a")))["a"].manifest
    live = {WIDGET: seen(a, data={"text": "as the server has it"}, status={"host": "h"})}
    b = reading("b", "${a.data.text} ${a.status.host}")
    assert nodes(rendered(widget("a"), b, live=live))["b"].manifest["data"]["value"] == "as the server has it h"


def test_over_a_live_object_in_another_version_lies_the_manifest() -> None:
    """Which has the fields of this version; what only the server says is as it says it."""
    a = nodes(rendered(widget("a")))["a"].manifest
    live = {WIDGET: seen({**a, "apiVersion": "free.test/v2", "data": {}}, status={"host": "h"})}
    live[WIDGET]["metadata"]["annotations"][well_known.HASH] = digest(a)
    b = reading("b", "${a.apiVersion} ${a.data.text} ${a.status.host}")
    assert (
        nodes(rendered(widget("a"), b, live=live))["b"].manifest["data"]["value"]
        == f"{a['apiVersion']} {a['data']['text']} h"
    )


def test_before_it_is_written_the_manifest_lies_over_the_live_object() -> None:
    """So that readers see the target, with the status of what is live."""
    a = nodes(rendered(widget("a")))["a"].manifest
    live = {WIDGET: seen(a, carried=False, data={"text": "old", "more": "m"}, status={"host": "h"})}
    b = reading("b", "${a.data.text} ${a.data.more} ${a.status.host}")
    assert nodes(rendered(widget("a"), b, live=live, text="new"))["b"].manifest["data"]["value"] == "new m h"


@pytest.mark.parametrize(
    ("manifest", "live", "expected"),
    [
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 1, "b": 3}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ([{"a": 1}], [{"b": 2}], [{"a": 1, "b": 2}]),
        ([1], [1, 2], [1]),
        ({"a": 1}, None, {"a": 1}),
        ({"a": []}, {"a": {"b": 1}}, {"a": []}),
    ],
)
def test_laid_over(manifest: Any, live: Any, expected: Any) -> None:
    assert overlay(manifest, live) == expected


def test_schema_is_gits_object_with_what_only_the_server_knows() -> None:
    """Instance spec: never status, never the live spec."""
    git: dict[str, Any] = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"size": 1},
    }
    live = {
        **git,
        "metadata": {"name": "x", "uid": "u", "creationTimestamp": "t", "resourceVersion": "1", "labels": {"c": "d"}},
        "spec": {"size": 2},
        "status": {"x": 1},
    }
    assert schema_value(git, live) == {**git, "metadata": {**git["metadata"], "uid": "u", "creationTimestamp": "t"}}
    assert "uid" not in schema_value(git, None)["metadata"]


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [("one", True, ""), ("two", False, "${a.data.text == 'one'} is false"), (None, False, "waits for a.data.text")],
)
def test_readywhen_is_asked_of_the_live_object(text: str | None, verdict: bool, why: str) -> None:
    """Rgd 1.6."""
    node = config_map("a", readyWhen=["${a.data.text == 'one'}"])
    assert nodes(rendered(node))["a"].ready.verdict is False
    manifest = nodes(rendered(node))["a"].manifest
    live = {key("x-a"): seen(manifest, data={"text": text} if text else {})}
    ready = nodes(rendered(node, live=live))["a"].ready
    assert (ready.verdict, ready.why) == (verdict, why)


def test_without_readywhen_there_is_no_verdict() -> None:
    assert nodes(rendered(config_map("a")))["a"].ready.verdict is None


def test_status_shows_what_is_known_and_drops_the_rest() -> None:
    """Rgd 1.8: best effort, field by field."""
    status = {
        "name": "${a.metadata.name}",
        "host": "${a.status.host}",
        "deep": {"n": "${a.data.text}", "m": "${a.status.x}"},
    }
    a = nodes(rendered(widget("a")))["a"].manifest
    found = rendered(widget("a"), schema={"status": status}, live={WIDGET: seen(a)})
    assert found.status == {"name": "x-a", "deep": {"n": "one"}}


def test_a_null_in_a_status_is_no_field() -> None:
    """The schema of a status has types, and null is none of them: it would cost the whole status."""
    status = {"host": "${a.?status.?host}", "list": "${a.status.conditions}"}
    a = nodes(rendered(widget("a")))["a"].manifest
    live = {WIDGET: seen(a, status={"conditions": [{"type": "Up", "lastTransitionTime": None}]})}
    found = rendered(widget("a"), schema={"status": status}, live=live)
    assert found.status == {"list": [{"type": "Up"}]}


def test_an_external_object_is_waited_for_and_then_read() -> None:
    """Rgd 1.4."""
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    reader = reading("b", "${string(given.data.password)}")
    found = nodes(rendered(given, reader))
    assert found["given"].waiting == ("Secret/default/s to exist",)
    assert found["b"].waiting == ("given.data.password",)
    live = {
        key("s", "Secret"): {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "data": {"password": "cA=="},
        }
    }
    assert nodes(rendered(given, reader, live=live))["b"].manifest["data"] == {"value": "p"}
    assert not nodes(rendered(given, reader, live=live))["given"].writable


# ---- places


def test_children_go_to_the_instances_namespace_unless_they_say_another() -> None:
    """Rgd 1.3, rule 4."""
    cluster_wide = config_map("c")
    cluster_wide["template"] |= {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    del cluster_wide["template"]["data"]
    found = nodes(rendered(config_map("a"), config_map("b", namespace="team"), cluster_wide))
    assert [str(found[name].key) for name in "abc"] == [
        "ConfigMap/default/x-a",
        "ConfigMap/team/x-b",
        "ClusterRole.rbac.authorization.k8s.io/x-c",
    ]
    assert "namespace" not in found["c"].manifest["metadata"]


def test_a_namespace_among_the_nodes_comes_before_what_lives_in_it() -> None:
    """Implied edges stand beside those of expressions."""
    namespace = config_map("n", name="team")
    namespace["template"] |= {"kind": "Namespace"}
    del namespace["template"]["data"]
    found = nodes(rendered(config_map("a", namespace="team"), namespace))
    assert (found["n"].level, found["a"].level, found["a"].depends_on) == (0, 1, ("n",))


def test_where_an_implied_edge_contradicts_an_expression_the_expression_wins() -> None:
    namespace = config_map("n", name="team")
    namespace["template"] |= {"kind": "Namespace"}
    namespace["template"]["metadata"]["labels"] = namespace["template"].pop("data") | {"a": "${a.metadata.name}"}
    found = nodes(rendered(config_map("a", namespace="team"), namespace))
    assert (found["a"].level, found["n"].level) == (0, 1)


# ---- nested instances


def outer(**spec: Any) -> list[dict[str, Any]]:
    metadata = {"name": "${schema.metadata.name}-in"}
    return [
        {"id": "inner", "template": {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata, "spec": spec}}
    ]


def nested(resources: list[dict[str, Any]], **more: str) -> Any:
    files = {
        "l.json": definition("Link", [config_map("a")]),
        "o.json": definition("Outer", resources),
        "x.json": instance("Outer", "x"),
        **more,
    }
    return render([load({name: text.encode() for name, text in files.items()}, source="platform")])


def test_a_nested_instance_is_defaulted_and_has_a_set_of_its_own() -> None:
    """Instance spec."""
    bundle = nested(outer(text="two"))
    top = bundle.instances[X._replace(kind="Outer")]
    assert top.nodes[0].manifest["spec"] == {"text": "two", "on": True}
    inner = bundle.instances[X._replace(name="x-in")]
    assert (inner.owner, inner.source, [node.manifest["data"] for node in inner.nodes]) == (
        top.parent,
        "platform",
        [{"text": "two"}],
    )


def test_a_nested_instance_with_a_wrong_spec_is_an_error_of_its_node() -> None:
    bundle = nested(outer(text="${dyn(7)}"))
    node = bundle.instances[X._replace(kind="Outer")].nodes[0]
    assert "spec.text" in node.error
    assert X._replace(name="x-in") not in bundle.instances


def test_instances_that_create_ever_more_of_themselves_end_with_an_error() -> None:
    """MAX_NESTING."""
    resources = outer()
    resources[0]["template"]["kind"] = "Outer"
    bundle = nested(resources, **{"p.json": plain("p")})
    errors = [one.error for one in bundle.instances.values() if one.error]
    assert len(errors) == 1
    assert "does outers.g.test create instances of itself?" in errors[0]


def test_a_kind_that_a_node_defines_has_the_scope_that_it_says() -> None:
    """And its objects come after the CRD, though no expression says so."""
    spec = {"group": "w.test", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Cluster", "versions": []}
    crd = config_map("crd", name="widgets.w.test")
    crd["template"] |= {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    del crd["template"]["data"]
    widget = config_map("widget")
    widget["template"] |= {"apiVersion": "w.test/v1", "kind": "Widget"}
    found = nodes(rendered(widget, crd))
    assert found["widget"].key == ObjectKey("w.test", "Widget", "", "x-widget")
    assert (found["crd"].level, found["widget"].level, found["widget"].depends_on) == (0, 1, ("crd",))


def test_an_instance_may_not_become_any_number_of_objects() -> None:
    """MAX_NODES: collections of instances that are collections."""
    leaf = config_map(
        "leaf", name="${schema.metadata.name}-${i}", forEach=[{"i": "${lists.range(150).map(i, string(i))}"}]
    )
    many = outer()[0]
    many["template"]["metadata"]["name"] = "${schema.metadata.name}-${i}"
    many |= {"forEach": [{"i": "${lists.range(100).map(i, string(i))}"}]}
    files = {
        "l.json": definition("Link", [leaf]),
        "o.json": definition("Outer", [many]),
        "x.json": instance("Outer", "x"),
        "y.json": instance("Link", "y"),
    }
    bundle = render([load({name: text.encode() for name, text in files.items()}, source="platform")])
    errors = {one.error for one in bundle.instances.values()} - {""}
    assert errors == {"the instance at the top has more than 10,000 objects, nested ones counted"}
    assert not bundle.instances[X._replace(name="y")].error


def test_collections_of_one_instance_may_not_become_any_number_of_objects() -> None:
    """MAX_NODES: the collection with which there would be too many is in error as a whole, and nothing else is."""
    items = [{"i": "${lists.range(1000).map(i, string(i))}"}]
    found = rendered(*(config_map(f"c{n}", name=f"c{n}-${{i}}", forEach=items) for n in range(11)), config_map("a"))
    (error,) = (node for node in found.nodes if node.error)
    assert (error.id, error.key) == ("c10", None)
    assert error.error == "with these 1,000 items the instance would have more than 10,000 objects"
    assert len(found.nodes) == 10_002


@pytest.mark.parametrize(
    ("expression", "waits"),
    [
        ("${inner.spec.text}", False),
        ("${has(inner.spec.nosuch) ? '' : inner.spec['no' + 'such']}", False),
        ("${inner.status.name}", True),
        ("${inner.status.state}", True),
    ],
)
def test_of_another_instance_only_what_its_definition_gives_can_come(expression: str, waits: bool) -> None:
    """Missing data that nobody will ever write is an error with its path."""
    reader = reading("r", expression)
    files = {
        "l.json": definition("Link", [config_map("a")], status={"name": "${a.metadata.name}"}),
        "o.json": definition("Outer", [*outer(text="two"), reader]),
        "x.json": instance("Outer", "x"),
    }
    bundle = render([load({name: text.encode() for name, text in files.items()}, source="platform")])
    node = nodes(bundle.instances[X._replace(kind="Outer")])["r"]
    assert bool(node.waiting) is waits
    assert bool(node.error) is ("nosuch" in expression)


def test_a_namespaced_object_of_an_instance_without_namespace_needs_one() -> None:
    node = config_map("a", name="a")
    node["template"] |= {"apiVersion": "w.test/v1", "kind": "Widget"}
    files = {
        "l.json": definition("Link", [node], scope="Cluster"),
        "x.json": instance("Link", "x").replace(', "namespace": "default"', ""),
    }
    bundle = render([load({name: text.encode() for name, text in files.items()}, source="platform")])
    (only,) = bundle.instances[X._replace(namespace="")].nodes
    assert only.error == "metadata.namespace: missing; the instance has no namespace that it could go to"


@pytest.mark.parametrize("key", ["kro.run/x", "applyset.kubernetes.io/id", "internal.levelgate.dev/hash"])
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_an_expression_may_not_bring_keys_that_a_template_may_not_write(key: str, place: str) -> None:
    """Where all labels are one expression, they are only known now."""
    node = config_map("a")
    node["template"]["metadata"][place] = f"${{{{'{key}': 'x'}}}}"
    assert f"metadata.{place}[{key}]: keys of" in nodes(rendered(node))["a"].error


def test_a_secret_whose_values_changed_is_not_taken_for_the_one_that_is_live() -> None:
    """Its hash leaves the values out, so they are compared: whoever reads it sees what Git says now."""

    def secret(value: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": value}}

    written = {
        **secret("Zmlyc3Q="),
        "metadata": {"name": "s", "annotations": {well_known.HASH: render_hash(secret("Zmlyc3Q="))}},
    }
    assert is_written_from(written, secret("Zmlyc3Q="))
    assert not is_written_from(written, secret("c2Vjb25k"))
