"""Expressions against the types of what they read, before any instance is (kro documentation, "Static type checking"; rgd 1.10, 1.11, 6)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer import documents
from renderer.catalog.catalog import Catalog, load
from renderer.definition.compile import compile_definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.definition.type_check import check_definition
from renderer.export.lint import lint
from renderer.identity import GroupKind
from renderer.render.render import render
from tests.support.properties.repositories import GROUP, config_map, definition, instance, widget, widgets

SPEC = {
    "text": "string",
    "count": "integer",
    "on": "boolean",
    "names": "[]string",
    "ports": "[]Port",
    "any": "object",
}
TYPES = {"Port": {"name": "string", "number": "integer"}}
DEPLOYMENT = {
    "id": "web",
    "template": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": "${schema.spec.count}"},
    },
}
SECRETS = {
    "id": "secrets",
    "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"selector": {"matchLabels": {"a": "b"}}}},
}


def loaded(*resources: dict[str, Any], **schema: Any) -> Catalog:
    files = {
        "link.json": definition("Link", list(resources), **{"spec": SPEC, "types": TYPES, **schema}),
        "inner.json": definition("Inner", [config_map("a")], status={"name": "${a.metadata.name}"}),
    }
    return load({name: text.encode() for name, text in files.items()})


def told(*resources: dict[str, Any], **schema: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in loaded(*resources, **schema).problems]


def reading(expression: Any, **more: Any) -> dict[str, Any]:
    node = config_map("r", **more)
    node["template"]["data"] = {"value": expression}
    return node


INNER = widget("inner")
INNER["template"] |= {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "spec": {"text": "x"}}
del INNER["template"]["data"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("web.status.availableReplica", "no field 'availableReplica' in web.status; did you mean 'availableReplicas'?"),
        ("web.spec.template.spec.container", "no field 'container' in web.spec.template.spec; did you mean 'containers'?"),
        ("web.metadata.lables", "no field 'lables' in web.metadata; did you mean 'labels'?"),
        ("web.spec.replicas + 'x'", "no such overload: int + string (use string(web.spec.replicas))"),
        ("web.status.conditions.exists(c, c.typ == 'A') ? 'a' : 'b'", " (column 33): no field 'typ' in c; did you mean 'type'?"),
        ("secrets[0].dta.x", "no field 'dta' in secrets[0]; did you mean 'data'?"),
        ("secrets.map(s, s.metadata.nam)", " (column 16): no field 'nam' in s.metadata; did you mean 'name'?"),
        ("secrets.metadata.name", "list has no fields: secrets"),
        ("inner.status.nam", "no field 'nam' in inner.status; did you mean 'name'?"),
        ("inner.spec.txt", "no field 'txt' in inner.spec; did you mean 'text'?"),
        ("schema.spec.ports[0].nmae", "no field 'nmae' in schema.spec.ports[0]; did you mean 'name'?"),
        ("schema.status.x", "no field 'status' in schema"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_there_is_told_with_what_was_probably_meant(expression: str, message: str) -> None:
    """Built-in kinds, references, other definitions, custom types: with path, expression and column."""
    ((path, found),) = told(DEPLOYMENT, SECRETS, INNER, reading(f"${{{expression}}}"))
    assert path == "spec.resources[3].template.data.value"
    start = message if message.startswith(" (column") else f": {message}"
    assert found.startswith(f"${{{expression}}}{start}")


@pytest.mark.parametrize(
    "expression",
    [
        "string(web.status.availableReplicas)",
        "web.spec.template.spec.containers[0].image",
        "web.metadata.labels.anything",
        "web.status.?nosuch.orValue('x')",
        "has(web.status.nosuch) ? 'a' : 'b'",
        "string(secrets[0].data.anything)",
        "inner.status.conditions.filter(c, c.type == 'Ready')[0].status",
        "inner.status.levelgate.anything.goes",
        "schema.spec.any.thing.goes",
        "free.status.whatever.it.is",
        "string(free.spec.port)",
    ],
)
def test_what_may_be_there_is_no_mistake(expression: str) -> None:
    """`?` and `has()` ask; open fields and kinds that nobody describes have any."""
    assert told(DEPLOYMENT, SECRETS, INNER, widget("free"), reading(f"${{{expression}}}")) == []


@pytest.mark.parametrize(
    ("resource", "path", "message"),
    [
        ({**DEPLOYMENT, "includeWhen": ["${schema.spec.count}"]}, "includeWhen[0]", "is an integer, where a boolean"),
        ({**DEPLOYMENT, "readyWhen": ["${web.status.replicas}"]}, "readyWhen[0]", "is an integer, where a boolean"),
        ({**DEPLOYMENT, "readyWhen": ["${web.status.redyReplicas > 1}"]}, "readyWhen[0]", "did you mean 'readyReplicas'?"),
        (reading("x", name="${p}", forEach=[{"p": "${schema.spec.ports}"}]), "template.metadata.name",
         "${p}: is an object, where a string is needed"),
        (reading("${p.nam}", name="${p.name}", forEach=[{"p": "${schema.spec.ports}"}]), "template.data.value",
         "no field 'nam' in p"),
        (reading("x", name="${n}", forEach=[{"n": "${schema.spec.text}"}]), "forEach[0].n",
         "is a string, where a list is needed"),
        (reading("x", name="${n}", forEach=[{"n": "${schema.spec.names}"}], readyWhen=["${each.dta.x == '1'}"]),
         "readyWhen[0]", "no field 'dta' in each; did you mean 'data'?"),
        ({**SECRETS, "readyWhen": ["${size(secrets)}"]}, "readyWhen[0]", "is an integer, where a boolean is needed"),
        ({"id": "s", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${schema.spec.count}"}}},
         "externalRef.metadata.name", "is an integer, where a string is needed"),
        ({"id": "s", "externalRef": {"apiVersion": "v1", "kind": "Secret",
                                     "metadata": {"selector": {"matchLabels": {"a": "${schema.spec.count}"}}}}},
         "externalRef.metadata.selector.matchLabels.a", "is an integer, where a string is needed"),
    ],
)  # fmt: skip
def test_every_field_of_a_resource_is_checked(resource: dict[str, Any], path: str, message: str) -> None:
    """Rgd 1.4 to 1.7."""
    ((place, found),) = told(resource)
    assert place == f"spec.resources[0].{path}"
    assert message in found


def test_gates_are_checked_but_for_their_own_functions() -> None:
    """KREP-006: what is open is said by whoever judges gates; fields that are not there can be seen before."""
    gates = ["${inWindow('hours') && schema.spec.coun > 1}", "${a.ready() && a.data.x == 'y' && now.getHours() > 8}"]
    node = {**DEPLOYMENT, "propagateWhen": gates, "includeWhen": ["${a.data.x == 'y'}"]}
    text = definition("Link", [config_map("a"), node], spec=SPEC, types=TYPES)
    (document,), _ = documents.load("link.json", text.encode())
    (problem,) = check_definition(compile_definition(document), KindSchemas()).problems
    assert problem.path == "spec.resources[1].propagateWhen[0]"
    assert "no field 'coun' in schema.spec; did you mean 'count'?" in problem.message


@pytest.mark.parametrize(
    ("status", "path", "message"),
    [
        ({"x": "${web.status.replica}"}, "x", "did you mean 'replicas'?"),
        ({"x": "n-${web.status.replicas}"}, "x", "write string(web.status.replicas)"),
        ({"deep": [{"x": "${quantity(web.metadata.name)}"}]}, "deep[0].x", "is a quantity, which cannot be a field"),
        ({"conditions": ["${runtime.newCondition({type: 'A', status: web.status.replicas > '1' ? 'True' : 'False'})}"]},
         "conditions[0]", "no such overload: int > string"),
        ({"conditions": ["${runtime.newCondition({type: 'A', status: schema.status.condition[0].status})}"]},
         "conditions[0]", "did you mean 'conditions'?"),
    ],
)  # fmt: skip
def test_the_status_is_checked(status: Any, path: str, message: str) -> None:
    ((place, found),) = told(DEPLOYMENT, status=status)
    assert place == f"spec.schema.status.{path}"
    assert message in found


def test_the_status_has_the_types_of_built_in_kinds_and_no_other_file_changes_them() -> None:
    """Rgd 1.8; what another definition gives stays open, so that a CRD changes with its definition alone."""
    status = {"replicas": "${web.status.replicas}", "name": "${inner.status.name}"}
    found = loaded(DEPLOYMENT, INNER, status=status).definitions[GroupKind(GROUP, "Link")].crd
    fields = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert fields["replicas"] == {"type": "integer"}
    assert fields["name"] == {"x-kubernetes-preserve-unknown-fields": True}


def test_an_instance_without_namespace_has_none_to_read() -> None:
    """Rgd 1.10: a compile error in kro, too."""
    node = reading("${schema.metadata.namespace}", namespace="team")
    assert told(node) == []
    ((_, found),) = told(node, scope="Cluster")
    assert "no field 'namespace' in schema.metadata" in found


def test_templates_of_built_in_kinds_are_checked_to_the_last_field() -> None:
    """Rgd 1.3 rule 6: int-or-string takes both, a quantity text and numbers, null passes anywhere."""
    container = {
        "name": "c",
        "image": None,
        "ports": [{"containerPort": "${schema.spec.ports[0].number}"}],
        "resources": {"limits": {"cpu": 1, "memory": "${schema.spec.text}"}},
        "livenessProbe": {"httpGet": {"port": "http", "path": "/"}},
        "readinessProbe": {"httpGet": {"port": 80}},
    }
    node: dict[str, Any] = {"id": "pod", "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}
    node["template"]["spec"] = {"containers": [container]}
    assert told(node) == []
    for field, value, message in (
        ("imge", "x", "no field 'imge'; did you mean 'image'?"),
        ("tty", "yes", "'yes' is a string, where a boolean is needed"),
        ("ports", {"containerPort": 80}, "{'containerPort': 80} is an object, where a list is needed"),
        ("livenessProbe", {"httpGet": {"port": True}}, "True is a boolean, where a string or an integer is needed"),
        ("env", "${[{'name': 'a', 'vale': 'b'}]}", "${[{'name': 'a', 'vale': 'b'}]}: []: no field 'vale'; did you mean 'value'?"),
    ):  # fmt: skip
        node["template"]["spec"] = {"containers": [{**container, field: value}]}
        ((path, found),) = told(node)
        assert path.startswith(f"spec.resources[0].template.spec.containers[0].{field}")
        assert found.startswith(message)


def test_a_definition_with_a_wrong_type_breaks_alone() -> None:
    """S0-3, S1-23: it gets no new revision; everything else of the commit goes on."""
    catalog = loaded(DEPLOYMENT, reading("${web.status.nosuch}"))
    assert list(catalog.broken) == [GroupKind(GROUP, "Link")]
    assert list(catalog.definitions) == [GroupKind(GROUP, "Inner")]
    assert catalog.problems[0].line > 0


def test_what_was_checked_is_checked_again_only_when_it_or_a_kind_that_it_uses_changed() -> None:
    link = definition("Link", [INNER, reading("${inner.spec.text}")])
    files = {"link.json": link, "inner.json": definition("Inner", [config_map("a")]), "x.json": instance("Inner", "x")}
    kind = GroupKind(GROUP, "Link")

    def read(previous: Catalog | None) -> Catalog:
        return load({name: text.encode() for name, text in files.items()}, previous=previous)

    first = read(None)
    files["x.json"] = instance("Inner", "y")
    second = read(first)
    assert second.definitions[kind] is first.definitions[kind]
    files["inner.json"] = definition("Inner", [config_map("a")], spec={"txt": "string", "text": "string"})
    assert read(second).definitions[kind] is not second.definitions[kind]
    files["inner.json"] = definition("Inner", [config_map("a", name="n")], spec={"other": "string"})
    files["inner.json"] = files["inner.json"].replace("schema.spec.text", "schema.spec.other")
    assert "no field 'text' in inner.spec" in "".join(map(str, read(second).problems))


def test_a_kind_that_nobody_describes_is_warned_of_where_an_expression_reads_it() -> None:
    files = {"link.json": definition("Link", [widget("free"), widget("more"), reading("${free.status.x}")]).encode()}
    catalog = load(files)
    found = [str(one) for one in lint(files, catalog, render([catalog])) if "schema of" in str(one)]
    assert found == [
        "link.json:1: warning: spec.resources[0]: no schema of Widget.free.test is known, so Levelgate cannot check "
        "the fields of free; commit the CustomResourceDefinition, or name a folder that contains it with --schemas"
    ]


def test_a_crd_that_a_definition_makes_describes_its_kind() -> None:
    """Rgd 6: CRDs as templates; in kro the kind has to be in the cluster."""
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    crd = widgets("free.test", {"properties": {"spec": spec}})
    thing = widget("thing")
    thing["template"] |= {"spec": {"siz": 1}}
    del thing["template"]["data"]
    assert [message for _, message in told({"id": "crd", "template": crd}, thing)] == [
        "no field 'siz'; did you mean 'size'?"
    ]
