"""Definitions: what they compile to, and every mistake with its file, line and path (docs/architecture.md; rgd 1.3 to 1.12)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer import documents
from renderer.definition.compile import DefinitionErrors, compile_definition, group_kind_of
from renderer.identity import GroupKind
from tests.support.compiled_definitions import compiled, mistakes, resource, source


def reference(**metadata: Any) -> dict[str, Any]:
    """The body of an `externalRef`."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def widget(node_id: str, *reads: str, **more: Any) -> dict[str, Any]:
    """A resource of a kind whose fields nobody describes."""
    node = resource(node_id, *reads, **more)
    node["template"] |= {"apiVersion": "w.test/v1", "kind": "Widget"}
    return node


def only(text: str) -> str:
    """The one mistake, without file and line."""
    found = mistakes(text)
    assert len(found) == 1, found
    return found[0].partition(": ")[2]


def test_a_mistake_is_told_with_file_line_path_and_suggestion() -> None:
    """docs/architecture.md, to the letter."""
    text = """\
    apiVersion: kro.run/v1alpha1
    kind: ResourceGraphDefinition
    metadata: {name: dbs}
    spec:
      schema:
        apiVersion: v1
        kind: Db
        spec:
          size: integer
      resources:
      - id: a
        template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
      - id: b
        template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
      - id: c
        template:
          apiVersion: w.test/v1
          kind: Widget
          metadata: {name: c}
          spec:
            size: ${schema.spec.sze}
    """
    assert mistakes(text) == [
        "platform/db.yaml:21: spec.resources[2].template.spec.size: ${schema.spec.sze}: no field 'sze' in schema.spec; did you mean 'size'?"
    ]


def test_all_mistakes_are_told_together() -> None:
    """docs/architecture.md: authors' mistakes are collected."""
    text = source(resource("a", "nosuch"), resource("Bad"), resource("a"), kind="lower", apiVersion="kro.run/v1")
    found = "\n".join(mistakes(text))
    for part in (
        "nosuch",
        "'Bad' must be lowerCamelCase",
        "'a' is the id of two resources",
        "spec.schema.kind",
        "spec.schema.apiVersion",
    ):
        assert part in found
    assert all(line.startswith("platform/db.yaml:") for line in found.splitlines())


def test_nodes_come_in_levels_and_inside_a_level_as_declared() -> None:
    """S0-1, S0-2."""
    definition = compiled(
        source(resource("d", "b", "c"), resource("c", "a"), resource("b", "a"), resource("a"), resource("z"))
    )
    assert [(node.id, node.level) for node in definition.nodes] == [("a", 0), ("z", 0), ("c", 1), ("b", 1), ("d", 2)]
    assert {node.id: node.depends_on for node in definition.nodes}["d"] == ("c", "b")


def test_includewhen_makes_an_edge_and_readywhen_does_not() -> None:
    """Rgd 1.5, 1.12."""
    definition = compiled(
        source(resource("a", readyWhen=["${a.data.name == 'x'}"]), resource("b", includeWhen=["${a.data.name == 'x'}"]))
    )
    assert {node.id: node.depends_on for node in definition.nodes} == {"a": (), "b": ("a",)}


def test_an_external_reference_is_read_and_not_written() -> None:
    """Rgd 1.4."""
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    definition = compiled(source(given, resource("a", "given")))
    assert [(node.id, node.external) for node in definition.nodes] == [("given", True), ("a", False)]


def test_group_scope_and_version_are_read_with_kros_defaults() -> None:
    definition = compiled(source(resource("a")))
    assert (definition.group_kind, definition.api_version, definition.namespaced) == (
        GroupKind("kro.run", "App"),
        "kro.run/v1alpha1",
        True,
    )
    node = resource("a")
    node["template"] |= {"kind": "Namespace"}
    del node["template"]["data"]
    other = compiled(source(node, group="g.test", scope="Cluster", apiVersion="v2"))
    assert (other.group_kind, other.api_version, other.namespaced) == (GroupKind("g.test", "App"), "g.test/v2", False)
    assert other.crd["metadata"]["name"] == "apps.g.test"


@pytest.mark.parametrize(
    ("node_id", "told"),
    [
        ("Web", "must be lowerCamelCase"),
        ("my-web", "must be lowerCamelCase"),
        ("my_web", "must be lowerCamelCase"),
        ("1web", "must be lowerCamelCase"),
        ("", "must be lowerCamelCase"),
        *(
            (word, "is a reserved word")
            for word in ("schema", "spec", "self", "each", "item", "kro", "true", "namespace")
        ),
    ],
)
def test_ids_that_are_no_names(node_id: str, told: str) -> None:
    """Rgd 1.3: pattern and reserved words."""
    assert told in only(source({**resource("ok"), "id": node_id}))


def test_a_resource_without_an_id() -> None:
    nameless = resource("a")
    del nameless["id"]
    assert only(source(nameless)).startswith("spec.resources[0].id: missing")
    assert only(source({**nameless, "id": False})).startswith(
        "spec.resources[0].id: false is not text (YAML reads n, y, no"
    )


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([resource("a", "b"), resource("b", "a")], "a -> b -> a"),
        ([resource("a", "c"), resource("b", "a"), resource("c", "b")], "a -> c -> b -> a"),
        ([resource("a", "a")], "'a' is this resource itself; read it in readyWhen only"),
        ([resource("web"), resource("b", "wbe")], "did you mean 'web'?"),
        ([resource("a", includeWhen=["${b.x}"]), resource("b", includeWhen=["${a.x}"])], "a -> b -> a"),
    ],
)
def test_references_that_cannot_be(nodes: list[Any], told: str) -> None:
    """S0-3; rgd 1.12."""
    assert told in only(source(*nodes))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"apiVersion": "${schema.spec.name}"}, "template.apiVersion: contains an expression"),
        ({"kind": "${schema.spec.name}"}, "template.kind: contains an expression"),
        ({"kind": ""}, "template.kind: missing"),
        ({"apiVersion": 1}, "template.apiVersion: missing"),
        ({"apiVersion": "apps/v1/x"}, "template.apiVersion: 'apps/v1/x' is not valid"),
        ({"kind": "Config Map"}, "template.kind: 'Config Map' is not valid"),
        ({"metadata": {}}, "template.metadata.name: missing"),
        ({"metadata": None}, "template.metadata: missing"),
        ({"metadata": {"name": "a", "labels": {"kro.run/x": "y"}}}, "metadata.labels[kro.run/x]"),
        ({"metadata": {"name": "a", "labels": {"applyset.kubernetes.io/part-of": "y"}}}, "metadata.labels[applyset"),
        (
            {"metadata": {"name": "a", "annotations": {"levelgate.dev/commit": "y"}}},
            "metadata.annotations[levelgate.dev",
        ),
        (
            {"metadata": {"name": "a", "annotations": {"internal.levelgate.dev/x": "y"}}},
            "metadata.annotations[internal",
        ),
    ],
)
def test_templates_that_are_no_objects(change: dict[str, Any], path: str) -> None:
    """Rgd 1.3, template rules 1, 2 and 5."""
    node = resource("a")
    node["template"] |= change
    assert path in only(source(node))


@pytest.mark.parametrize("people", ["levelgate.dev/prune", "levelgate.dev/wait-for", "app.kubernetes.io/name"])
def test_templates_may_carry_what_people_write(people: str) -> None:
    node = resource("a")
    node["template"]["metadata"]["annotations"] = {people: "x"}
    assert compiled(source(node)).nodes


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("text", "must be a mapping with an id and a template"),
        ({"id": "a"}, "exactly one of template and externalRef"),
        ({**resource("a"), "externalRef": {}}, "exactly one of template and externalRef"),
        ({**resource("a"), "template": None}, "exactly one of template and externalRef"),
        ({**resource("a"), "redyWhen": []}, "did you mean 'readyWhen'?"),
        ({**resource("a"), "readyWhen": "${a.x}"}, "readyWhen: must be a list"),
        ({**resource("a"), "readyWhen": ["true"]}, "readyWhen[0]"),
        ({**resource("a"), "readyWhen": [True]}, "is not an expression"),
        ({**resource("a"), "readyWhen": ["${b.x}"]}, "'b' is not a resource or variable in scope"),
        ({**resource("a"), "readyWhen": ["${a.}"]}, "readyWhen[0]"),
        ({**resource("a"), "includeWhen": ["${schema.spec.nam}"]}, "did you mean 'name'?"),
        ({**resource("a"), "includeWhen": ["${schema.status.x}"]}, "no field 'status' in schema"),
    ],
)
def test_resources_that_are_none(node: Any, told: str) -> None:
    assert told in "\n".join(mistakes(source(node)))


def each(*dimensions: Any, name: str = "${region}", **more: Any) -> dict[str, Any]:
    """A collection of ConfigMaps, one for each region unless dimensions are given."""
    node = resource("many", forEach=list(dimensions) or [{"region": "${schema.spec.regions}"}], **more)
    node["template"]["metadata"] = {"name": name}
    return node


REGIONS = {"name": "string", "regions": "[]string", "any": "object"}


def test_a_collection_keeps_its_dimensions_and_depends_on_what_they_read() -> None:
    definition = compiled(source(resource("a"), each({"region": "${[a.metadata.name]}"}), spec=REGIONS))
    many = {node.id: node for node in definition.nodes}["many"]
    assert [dimension.iterator for dimension in many.for_each] == ["region"]
    assert (many.depends_on, many.level) == (("a",), 1)


def test_collections_that_read_one_another_are_a_circle() -> None:
    first = each({"x": "${other.map(o, o.metadata.name)}"}, name="${x}")
    second = {**each({"y": "${many.map(o, o.metadata.name)}"}, name="${y}"), "id": "other"}
    assert "many -> other -> many" in only(source(first, second, spec=REGIONS))


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (each(name="fixed"), "metadata.name: must use the iterator 'region'"),
        (each({"Region": "${schema.spec.regions}"}, name="x"), "'Region' must be lowerCamelCase"),
        (each({"item": "${schema.spec.regions}"}, name="${item}"), "'item' is a reserved word"),
        (each({"many": "${schema.spec.regions}"}, name="${many}"), "'many' is the id of a resource"),
        (
            each({"a": "${schema.spec.regions}"}, {"a": "${schema.spec.regions}"}, name="${a}"),
            "'a' is the name of two iterators",
        ),
        (
            each({"a": "${schema.spec.regions}"}, {"b": "${[a]}"}, name="${a}${b}"),
            "in a dimension, read only schema and resources",
        ),
        (each({"a": "x${schema.spec.name}"}, name="${a}"), "write exactly one expression"),
        (each({"a": ["x"]}, name="${a}"), "is not an expression"),
        (each({"a": "${schema.spec.region}"}, name="${a}"), "did you mean 'regions'?"),
        (each({"a": "${nosuch}"}, name="${a}"), "'nosuch' is not a resource or variable"),
        (each({"a": "${[omit()]}"}, name="${a}"), "omit() is not allowed in this field"),
        (each({"a": "${[1]}", "b": "${[2]}"}, name="${a}"), "must be one name with one list"),
        (
            each(*({f"a{n}": "${schema.spec.regions}"} for n in range(11)), name="x"),
            "has 11 dimensions; use at most 10",
        ),
        ({**each(), "forEach": {"region": "${schema.spec.regions}"}}, "forEach: must be a list of entries"),
        (each(readyWhen=["${many.size() > 0}"]), "'many' is not a resource or variable in scope"),
        (each(readyWhen=["${region == 'x'}"]), "'region' is not a resource or variable in scope"),
        (each(includeWhen=["${region == 'x'}"]), "'region' is not a resource or variable in scope"),
        (each(includeWhen=["${each.x}"]), "'each' is not a resource or variable in scope"),
        (resource("a", includeWhen=["${omit()}"]), "omit() is not allowed in this field"),
        (resource("a", readyWhen=["${omit()}"]), "omit() is not allowed in this field"),
    ],
)
def test_collections_and_conditions_that_cannot_be(node: dict[str, Any], told: str) -> None:
    assert told in "\n".join(mistakes(source(node, spec=REGIONS)))


def test_items_outside_of_namespaces_differ_by_name_alone() -> None:
    node = each(name="fixed")
    node["template"] |= {"kind": "Namespace", "metadata": {"name": "fixed", "labels": {"r": "${region}"}}}
    assert only(source(node, spec=REGIONS)).endswith(
        "must use the iterator 'region' in metadata.name, because items need different names"
    )


def test_items_may_differ_by_namespace() -> None:
    node = each()
    node["template"]["metadata"] = {"name": "same", "namespace": "${region}"}
    assert compiled(source(node, spec=REGIONS)).nodes


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"name": "a", "selector": {}}, "externalRef.metadata: must have exactly one of name and selector"),
        ({}, "externalRef.metadata: must have exactly one of name and selector"),
        ({"selector": []}, "metadata.selector: must be a mapping"),
        ({"selector": {"matchLabel": {}}}, "did you mean 'matchLabels'?"),
        ({"selector": {"matchLabels": []}}, "matchLabels: must be a mapping"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "operator: must be one of In, NotIn"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": {}}]}}, "operator: must be one of In, NotIn"),
        ({"name": "a", "labels": {}}, "externalRef.metadata.labels: no such field"),
    ],
)
def test_references_to_nothing(metadata: dict[str, Any], told: str) -> None:
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}}
    assert told in only(source(given))


def test_a_reference_is_no_collection_by_foreach() -> None:
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${r}"}}}
    found = "\n".join(mistakes(source({**given, "forEach": [{"r": "${schema.spec.regions}"}]}, spec=REGIONS)))
    assert "cannot be combined with externalRef" in found


@pytest.mark.parametrize(
    ("kind", "metadata", "scope", "told"),
    [
        ("Namespace", {"name": "a", "namespace": "b"}, "Namespaced", "Namespace objects have no namespace"),
        (
            "ConfigMap",
            {"name": "a"},
            "Cluster",
            "metadata.namespace: missing; name a namespace, because instances have none",
        ),
        ("ConfigMap", {"name": "a", "namespace": ""}, "Cluster", "metadata.namespace: missing"),
        ("ConfigMap", {"name": "a", "namespace": "${omit()}"}, "Cluster", "omit() is not allowed in this field"),
        ("ConfigMap", {"name": "${omit()}"}, "Namespaced", "omit() is not allowed in this field"),
        ("ConfigMap", {"name": "${schema.metadata.namespace}", "namespace": "b"}, "Cluster", "no field 'namespace'"),
    ],
)
def test_where_objects_may_live(kind: str, metadata: dict[str, Any], scope: str, told: str) -> None:
    node = resource("a")
    node["template"] |= {"kind": kind, "metadata": metadata}
    assert told in only(source(node, scope=scope))


def test_a_crd_may_depend_on_an_instance_by_its_metadata_alone() -> None:
    node = resource("a")
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    node["template"] |= {**crd, "spec": {"group": "${schema.spec.name}"}}
    del node["template"]["data"]
    assert "spec.resources[0].template.spec.group: a CustomResourceDefinition may contain" in only(source(node))
    node["template"]["spec"] = {"group": "g.test", "names": {"kind": "K"}}
    assert compiled(source(node)).nodes


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"a": "text"}, "spec.schema.status.a: is a constant"),
        ({"a": {"b": 1}}, "spec.schema.status.a.b: is a constant"),
        ({"a": ["${web.x}", "y"]}, "spec.schema.status.a[1]: is a constant"),
        ({"a": "${1 + 1}"}, "spec.schema.status.a: does not read a resource or schema"),
        ({"a": ["${web.x}", "n-${'x'}"]}, "spec.schema.status.a[1]: does not read a resource or schema"),
        ({"a": "${omit()}"}, "omit() is not allowed in this field"),
        ({"a": "${wbe.x}"}, "did you mean 'web'?"),
        ({"levelgate": "${web.x}"}, "spec.schema.status.levelgate: is reserved"),
        ("text", "spec.schema.status: must be a mapping"),
    ],
)
def test_status_that_cannot_be(status: Any, told: str) -> None:
    """Rgd 1.8."""
    assert told in "\n".join(mistakes(source(resource("web"), status=status)))


def test_the_schema_of_a_status_has_the_types_of_its_expressions() -> None:
    status = {
        "name": "${web.metadata.name}",
        "url": "http://${web.metadata.name}/",
        "ready": "${web.status.x == 1}",
        "x": "${web.status.x}",
        "deep": {"size": "${schema.spec.size}", "names": ["${web.metadata.name}", "${schema.spec.name}"]},
    }
    crd = compiled(source(widget("web"), status=status)).crd
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert {name: fields[name] for name in status} == {
        "name": {"type": "string"},
        "url": {"type": "string"},
        "ready": {"type": "boolean"},
        "x": {"x-kubernetes-preserve-unknown-fields": True},
        "deep": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
        },
    }


CONDITION = "${runtime.newCondition({type: 'Up', status: web.status.x == 1 ? 'True' : 'False'})}"


def test_an_author_may_write_conditions() -> None:
    definition = compiled(source(widget("web"), status={"conditions": [CONDITION]}))
    assert [entry.types for entry in definition.conditions] == [("Up",)]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (CONDITION.replace("web.status", "wbe.status"), "conditions[0]: ${runtime.newCondition"),
        (CONDITION.replace("web.status.x", "schema.spec.nam"), "did you mean 'name'?"),
        (CONDITION.replace("web.status.x", "schema.status.x"), "no field 'x' in schema.status"),
        (CONDITION.replace("'Up'", "'Healthy'"), "Levelgate's own"),
    ],
)
def test_conditions_of_an_author_that_cannot_be(condition: str, told: str) -> None:
    found = only(source(widget("web"), status={"conditions": [condition]}))
    assert found.startswith("spec.schema.status.conditions[0]")
    assert told in found


def test_functions_of_conditions_work_nowhere_else() -> None:
    told = only(source(resource("a"), status={"x": "${runtime.condition(a, 'Ready').status}"}))
    assert told.endswith("runtime.condition() works in status.conditions only")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (resource("a", includeWhen=["${schema.spec.name}"]), "is a string, where a boolean is needed"),
        (resource("a", readyWhen=["${a.metadata.name}"]), "is a string, where a boolean is needed"),
        (resource("a", includeWhen=["${size(schema.spec.name)}"]), "is an integer, where a boolean is needed"),
        (each({"r": "${schema.spec.name}"}, name="${r}"), "is a string, where a list is needed"),
        (each({"r": "${{'a': 1}}"}, name="${r}"), "is an object, where a list is needed"),
        (each(name="${region}-${size(region)}"), "is an integer, where a string is needed; write string(size(region))"),
    ],
)
def test_types_that_are_known_are_checked(node: dict[str, Any], told: str) -> None:
    assert told in only(source(node, spec=REGIONS))


def test_state_of_an_authors_status_is_dropped_as_kro_does() -> None:
    """Rgd 1.8: `state` is reserved, values given for it are dropped."""
    definition = compiled(source(resource("web"), status={"state": "${web.x}", "name": "${web.metadata.name}"}))
    assert definition.status.evaluate_known({"web": {"metadata": {"name": "w"}}}) == {"name": "w"}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"kind": "app"}, "spec.schema.kind: 'app': must be an UpperCamelCase word"),
        ({"kind": "${x}"}, "spec.schema.kind"),
        ({"kind": None}, "spec.schema.kind: missing"),
        ({"apiVersion": "g/v1"}, "spec.schema.apiVersion"),
        ({"group": "Not A Group"}, "spec.schema.group"),
        ({"scope": "Everywhere"}, "spec.schema.scope: 'Everywhere' is not one of Namespaced, Cluster"),
        ({"spec": {"name": "strng"}}, "spec.schema.spec.name"),
        ({"spce": {}}, "spec.schema.spce: no field 'spce'; did you mean 'spec'?"),
    ],
)
def test_schemas_that_cannot_be(schema: Any, told: str) -> None:
    assert told in "\n".join(mistakes(source(resource("a"), **schema)))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"shortNames": [f"a{n}" for n in range(33)]}, "spec.schema.shortNames: has 33 items, but may have at most 32"),
        ({"shortNames": ["Ab"]}, "spec.schema.shortNames[0]: 'Ab' does not match"),
        ({"categories": ["a" * 64]}, "spec.schema.categories[0]: has 64 characters"),
        ({"categories": ["a", "a"]}, "spec.schema.categories[1]: 'a' is already at [0]"),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
            "additionalPrinterColumns[0].jsonPath: is required",
        ),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]},
            "additionalPrinterColumns[0].type: 'text' is not one of",
        ),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a", "prio": 1}]},
            "did you mean 'priority'?",
        ),
        ({"metadata": {"labels": {"applyset.kubernetes.io/part-of": "x"}}}, "keys of applyset.kubernetes.io/"),
        ({"metadata": {"annotations": {"internal.levelgate.dev/x": "x"}}}, "keys of internal.levelgate.dev/"),
    ],
)
def test_what_is_copied_to_the_crd_must_be_what_the_server_takes(schema: dict[str, Any], told: str) -> None:
    assert told in only(source(resource("a"), **schema))


def test_what_is_copied_to_the_crd_is_there() -> None:
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    text = source(
        resource("a"),
        shortNames=["ap"],
        categories=["all"],
        additionalPrinterColumns=[column],
        metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}},
    )
    crd = compiled(text.replace("  name: apps\n", "  name: apps\n  annotations: {levelgate.dev/prune: allowed}\n")).crd
    assert crd["spec"]["names"]["shortNames"] == ["ap"]
    assert crd["spec"]["names"]["categories"] == ["all"]
    assert crd["spec"]["versions"][0]["additionalPrinterColumns"] == [column]
    assert crd["metadata"]["labels"]["team"] == "a"
    assert crd["metadata"]["annotations"]["note"] == "b"
    assert crd["metadata"]["annotations"]["levelgate.dev/prune"] == "allowed"


def test_a_definition_is_no_resource() -> None:
    node = resource("a")
    node["template"] |= {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
    assert "commit the definition as a file" in only(source(node))


def test_a_definition_without_a_schema_is_an_error() -> None:
    """S1-38: a graph without a schema is no definition."""
    found = mistakes("{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: a}, spec: {}}")
    assert any("a definition needs spec.schema" in line for line in found)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("{schema: {kind: App}}", GroupKind("kro.run", "App")),
        ("{schema: {kind: App, group: g.test}}", GroupKind("g.test", "App")),
        ("{schema: {kind: 1}}", None),
        ("{schema: {kind: App, group: 1}}", None),
        ("{schema: text}", None),
        ("text", None),
        ("{}", None),
    ],
)
def test_the_kind_is_known_as_far_as_it_can_be_read(spec: str, kind: GroupKind | None) -> None:
    """Its instances are held, not applied as plain objects."""
    text = f"{{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {{name: a}}, spec: {spec}}}"
    found, _ = documents.load("a.yaml", text.encode())
    assert group_kind_of(found[0]) == kind
    with pytest.raises(DefinitionErrors) as raised:
        compile_definition(found[0])
    assert raised.value.group_kind == kind


def test_equal_text_compiles_to_equal_crds() -> None:
    text = source(resource("a"), status={"name": "${a.metadata.name}"})
    assert compiled(text).crd == compiled(text).crd


@pytest.mark.parametrize("name", ["forEach", "includeWhen", "readyWhen", "propagateWhen"])
@pytest.mark.parametrize("value", [None, []])
@pytest.mark.parametrize("place", ["template", "externalRef"])
def test_a_list_of_a_resource_that_is_empty_or_null_is_none(name: str, value: object, place: str) -> None:
    """As kro's upgrade fixtures write them (`foreach-empty`, `mixed-nil-empty`); the digest of the definition does not change by it."""
    node = resource("a")
    if place == "externalRef":
        node = {"id": "a", place: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}
    found, plain = compiled(source({**node, name: value})), compiled(source(node))
    assert not (found.nodes[0].for_each)
    assert not (found.nodes[0].include_when)
    assert not (found.nodes[0].ready_when)
    assert (found.digest == plain.digest) is (name != "propagateWhen" or value is None)


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(("group", "scope", "types", "status", "metadata", "shortNames", "categories")),
        {"additionalPrinterColumns": None},
        {"additionalPrinterColumns": [], "shortNames": [], "categories": [], "types": {}, "status": {}},
        {"metadata": {"labels": None, "annotations": None}},
        {"metadata": {"labels": {}, "annotations": {}}},
        {"status": {"conditions": None}},
    ],
)
def test_a_field_of_the_schema_that_is_empty_or_null_is_absent(fields: dict[str, Any]) -> None:
    """As the API server keeps kro's definitions: nulls of fields that are not nullable are pruned, and defaults filled in."""
    assert compiled(source(resource("a"), **fields)).crd == compiled(source(resource("a"))).crd


@pytest.mark.parametrize(
    "node",
    [
        {"externalRef": None, **resource("a")},
        {"id": "a", "template": None, "externalRef": reference(name="a", selector=None)},
        {"id": "a", "externalRef": reference(name="a", namespace=None)},
        {
            "id": "a",
            "externalRef": reference(name=None, selector={"matchLabels": {"a": "b"}, "matchExpressions": None}),
        },
    ],
)
def test_what_stands_beside_the_body_of_a_resource_may_be_null(node: dict[str, Any]) -> None:
    assert [one.external for one in compiled(source(node)).nodes] == [node.get("externalRef") is not None]


def test_a_printer_column_of_the_author_is_passed_on_without_what_is_null() -> None:
    column = {"name": "A", "type": "string", "jsonPath": ".a", "description": "of mine"}
    found = compiled(source(resource("a"), additionalPrinterColumns=[{**column, "priority": None}]))
    assert found.crd["spec"]["versions"][0]["additionalPrinterColumns"] == [column]
