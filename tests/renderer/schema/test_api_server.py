"""A real API server accepts our CRDs, and accepts, refuses and defaults the same instances as we do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.catalog.catalog import load
from renderer.definition.crd import KindIdentity, custom_resource_definition
from renderer.export.example import build_example
from renderer.identity import GroupKind
from renderer.schema import SchemaErrors, apply_defaults, rule_mistakes, to_openapi, union, validate
from tests.support.cluster.control_plane import ControlPlane, ServerResponse
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually
from tests.support.properties.repositories import config_map, definition

GROUP = "schema.test"

TYPES: dict[str, Any] = {
    "Port": {"port": "integer | required=true", "protocol": "string | default=TCP"},
    "Size": "string | pattern=^[0-9]+(Mi|Gi)$ default=1Gi",
    "Name": "string | required=true minLength=2",
    "Marks": {"low-mark": "float | default=1", "high": "float | default=3", "in": "string"},
}
SPECS: dict[str, dict[str, Any]] = {
    "Scalar": {
        "text": "string | minLength=1 maxLength=3",
        "count": "integer | minimum=-2 maximum=5 default=1",
        "ratio": "float | minimum=0.5 maximum=2",
        "on": "boolean | default=true",
        "mode": "string | enum=a,b default=b",
        "code": 'integer | enum="1,2"',
        "quoted": 'string | default="say \\"hi\\" \\\\ \\n"',
    },
    "Nested": {
        "name": "Name",
        "db": {"size": "Size", "retain": {"days": "integer | default=7"}, "host": "string"},
        "strict": {"must": "string | required=true", "may": "integer | default=1"},
        "free": 'object | default={"a": {"b": null}}',
    },
    "Listed": {
        "tags": "[]string | uniqueItems=true minItems=1 maxItems=3",
        "matrix": "[][]integer",
        "ports": "[]Port | listType=map listMapKey=port listMapKey=protocol",
        "plain": '[]Port | default=[{"port": 80}]',
        "sizes": "[]Size",
    },
    "Mapped": {
        "labels": 'map[string]string | default={"k": "\\"true\\""}',
        "ports": "map[string]Port",
        "deep": "map[string]map[string]integer",
        "sizes": "map[string]Size",
        "free": "map[string]object",
    },
    "Nothing": {},
    "Ruled": {
        "id": "string | immutable=true maxLength=20",
        "replicas": 'integer | default=1 minimum=0 maximum=100 validation="self <= 10 || self % 2 == 0"',
        "ports": '[]integer | maxItems=5 validation="self.all(p, p > 0)"',
        "marks": 'Marks | validation="!has(self.low__dash__mark) || self.low__dash__mark * 2.0 < self.high"'
        " validation=\"!has(self.__in__) || self.__in__ != 'b'\"",
        "strict": 'Marks | default={"in": "a"} validation="self.__in__ == \\"a\\""',
        "sizes": "map[string]Marks",
    },
}
SCHEMAS = {kind: to_openapi(spec, TYPES) for kind, spec in SPECS.items()}


def crd(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    status = {"type": "object", "properties": {"url": {"type": "string"}}}
    identity = KindIdentity(
        GroupKind(GROUP, kind),
        "v1",
        namespaced=False,
        short_names=[f"x{kind.lower()}"],
        categories=["probes"],
    )
    return custom_resource_definition(identity, schema, definition=kind.lower(), status_schema=status)


def created(server: ControlPlane, manifest: dict[str, Any]) -> str:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = server.request("POST", path, manifest)
    assert answer.code == 201, answer.body["message"]
    name = str(manifest["metadata"]["name"])
    eventually(lambda: server.request("GET", f"/apis/{GROUP}/v1/{name.partition('.')[0]}").code == 200)
    return name


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The server with a CRD for each schema."""
    names = [created(control_plane, crd(kind, schema)) for kind, schema in SCHEMAS.items()]
    yield control_plane
    for name in names:
        control_plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")


def attempt(server: ControlPlane, kind: str, spec: Any) -> ServerResponse:
    """Create an instance, strictly, as a dry run."""
    manifest = crd(kind, {"type": "object"})
    path = f"/apis/{GROUP}/v1/{manifest['spec']['names']['plural']}?dryRun=All&fieldValidation=Strict"
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "probe"}}
    return server.request("POST", path, body if spec is ... else {**body, "spec": spec})


def test_the_union_of_schemas_that_are_taken_is_taken(control_plane: ControlPlane) -> None:
    """What a rule may cost is reckoned by the bounds of what it stands in."""
    types = {"Name": """string | maxLength=100 validation="self.matches('^[a-z]+$') && self.contains('a')" """}
    few, many = (to_openapi({"names": f"[]Name | maxItems={most}"}, types) for most in (100, 200))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    for schema in (few, many, union([few, many])):
        answer = control_plane.request("POST", path, crd("Widening", schema))
        assert answer.code == 201, answer.body["message"]


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly fit the schema, and now and then do not."""
    odd = st.sampled_from([None, "", "x", 0, -1, 1.5, 2.0, True, [], {}, ["x"], {"x": 1}])
    # A fitting value is drawn six times as often as an odd one.
    return st.integers(0, 6).flatmap(lambda dice: odd if dice == 0 else _fitting(schema))


def _fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "string":
            return st.sampled_from(["ab", "10Gi", "5Mi", "a", "abcd", "\u00e9"])
        case "integer":
            return st.integers(-3, 6)
        case "number":
            return st.sampled_from([1, 0.5, 0.25, 2, 2.5, 1.0])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(values(schema["items"]), max_size=4)
    fields = {name: values(field) for name, field in schema.get("properties", {}).items()}
    if "additionalProperties" in schema:
        return st.dictionaries(st.sampled_from(["a", "b.c/d", "e"]), values(schema["additionalProperties"]), max_size=3)
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    extra = {"zz": st.just(1)} if schema.get("x-kubernetes-preserve-unknown-fields") else {}
    return st.fixed_dictionaries(required, optional={**fields, **extra})


def assert_same_judgement(server: ControlPlane, kind: str, spec: Any) -> bool:
    schema = SCHEMAS[kind]
    filled = apply_defaults(schema, None if spec is ... else spec)
    mistakes = [] if filled is None else validate(schema, filled) or rule_mistakes(schema, filled)
    answer = attempt(server, kind, spec)
    assert (answer.code == 201) == (not mistakes), (spec, mistakes, answer.body)
    if answer.code == 201:
        assert answer.body.get("spec", ...) == (... if filled is None else filled), spec
    return not mistakes


@pytest.mark.parametrize("kind", SPECS)
def test_the_server_judges_and_defaults_as_we_do(served: ControlPlane, kind: str) -> None:
    accepted = []

    @settings(max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(values(SCHEMAS[kind]))
    def judged(spec: Any) -> None:
        accepted.append(assert_same_judgement(served, kind, spec))

    judged()
    assert sum(accepted) >= 4
    assert kind == "Nothing" or not all(accepted)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Scalar", ...),
        ("Scalar", None),
        ("Scalar", {"unknown": 1}),
        ("Scalar", {"count": 2.0}),
        ("Scalar", {"count": None, "text": None, "mode": None}),
        ("Scalar", {"text": "\u00e9\u00e9\u00e9"}),
        ("Scalar", {"text": "\U0001f600\U0001f600\U0001f600\U0001f600"}),
        ("Scalar", {"code": 1.0}),
        ("Nested", ...),
        ("Nested", {"name": "ab", "strict": {}}),
        ("Nested", {"name": "ab", "db": {"retain": None, "host": None}}),
        ("Nested", {"name": "ab", "free": {"x": None, "y": [None, {"z": None}]}}),
        ("Nested", {"name": "ab", "free": None}),
        ("Nested", {"name": None}),
        ("Listed", {"tags": [None]}),
        ("Listed", {"tags": ["a", "a"]}),
        ("Listed", {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
        ("Listed", {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}),
        ("Listed", {"plain": [{"port": 1, "protocol": None}, {"port": 1}]}),
        ("Listed", {"sizes": ["1Gi", None]}),
        ("Mapped", {"labels": {"a": None}, "sizes": {"a": None, "b": "2Gi"}}),
        ("Mapped", {"deep": {"a": {"b": None, "c": 1}, "d": None}}),
        ("Mapped", {"free": {"a": {"b": None}, "c": None}}),
        ("Nothing", ...),
        ("Nothing", {}),
        ("Nothing", {"a": 1}),
        ("Ruled", {"replicas": 12, "ports": [1, 2]}),
        ("Ruled", {"replicas": 11}),
        ("Ruled", {"ports": [1, 0]}),
        ("Ruled", {"marks": {"low-mark": 2, "high": 4, "in": "a"}}),
        ("Ruled", {"marks": {"low-mark": 1, "high": 4, "in": "a"}}),
        ("Ruled", {"marks": {"low-mark": 1, "high": 4, "in": "b"}}),
        ("Ruled", {"marks": {"low-mark": 1, "high": 4}}),
        ("Ruled", {"strict": {"in": "b"}}),
        ("Ruled", {"strict": {}}),
    ],
)
def test_the_server_agrees_on_a_special_case(served: ControlPlane, kind: str, spec: Any) -> None:
    assert_same_judgement(served, kind, spec)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1, "default": 0}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": [1]}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "default": "y"}}},
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]}},
        },
    ],
)
def test_the_server_refuses_the_defaults_that_we_refuse(control_plane: ControlPlane, schema: dict[str, Any]) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    field = schema["properties"]["a"]
    assert validate(field, field["default"]) or rule_mistakes(field, field["default"])
    assert control_plane.request("POST", path, crd("Wrong", schema)).code == 422


_TYPES = (
    *("string", "integer", "float", "boolean", "object", "[]string", "[]integer", "[]float", "[]object", "[][]string"),
    *(
        "map[string]string",
        "map[string]integer",
        "map[string]object",
        "Port",
        "[]Port",
        "map[string]Port",
        "Size",
        "Name",
    ),
    *("[]Size", "[]Name", "Fixed", "[]Fixed", "map[string]Fixed", "Holder", "[]Holder", "Keyed"),
)
_MARKERS = (
    *(
        "required=true",
        "required=false",
        'description="a \\"b\\" \\\\ {c"',
        "immutable=true",
        "default={}",
        "default=[]",
    ),
    *(
        "default=1",
        "default=ab",
        "default=true",
        'default=["a","a"]',
        'default=["b"]',
        'default={"a": "b"}',
        "default=0.5",
    ),
    *(
        'default={"port": 1}',
        'default=[{"port": 1}]',
        'default=""',
        "enum=ab,b",
        'enum="1,2,1"',
        "minimum=1",
        "maximum=1",
    ),
    *(
        "minimum=0.5",
        "maximum=1e300",
        "minLength=0",
        "minLength=2",
        "maxLength=2",
        "pattern=^a",
        'pattern="[[:alpha:]]\\d*"',
    ),
    *("minItems=0", "minItems=1", "maxItems=1", "uniqueItems=true", "listType=atomic", "listType=set", "listType=map"),
    *("listMapKey=port", "listMapKey=protocol", "listMapKey=x"),
)
_EXTRA_TYPES = {
    **TYPES,
    "Fixed": "string | immutable=true maxLength=5",
    "Holder": {"fixed": "Fixed", "size": "Size"},
    "Keyed": "[]Port | listType=map listMapKey=port",
}
_FIELDS = st.builds(
    lambda kind, markers: " | ".join(filter(None, [kind, " ".join(markers)])),
    st.sampled_from(_TYPES),
    st.lists(st.sampled_from(_MARKERS), max_size=3, unique=True),
)
_FIELD_NAMES = st.sampled_from(["a", "b", "c-d", "e_f", "g.h", "i/j", "metadata", "kind", "apiVersion", "status", "1"])


@settings(max_examples=120, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(spec=st.dictionaries(_FIELD_NAMES, _FIELDS | st.dictionaries(_FIELD_NAMES, _FIELDS, max_size=2), max_size=3))
def test_the_server_accepts_every_schema_that_we_accept(control_plane: ControlPlane, spec: dict[str, Any]) -> None:
    try:
        schema = to_openapi(spec, _EXTRA_TYPES)
    except SchemaErrors:
        return
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All&fieldValidation=Strict"
    answer = control_plane.request("POST", path, crd("Random", schema))
    assert answer.code == 201, (spec, answer.body["message"])


@pytest.mark.parametrize("every", [True, False])
def test_the_server_accepts_the_definition_its_status_and_an_example(control_plane: ControlPlane, every: bool) -> None:
    """The CRD with types inferred from expressions; a status with such values; an instance that was made up."""
    spec = {
        "text": "string | required=true",
        "size": "integer | default=3",
        "names": "[]string | minItems=1",
        "on": "boolean",
    }
    status = {
        "name": "${a.metadata.name}",
        "size": "${schema.spec.size + 1}",
        "ratio": "${double(schema.spec.size) / 2.0}",
        "on": "${schema.spec.on}",
        "names": "${schema.spec.names}",
        "any": "${a.status}",
        "list": ["${a.metadata.name}", "${schema.spec.size}"],
        "empty": [],
        "map": "${{'a': 1, 'b': a.status.x}}",
        "labels": "${a.metadata.labels}",
        "whole": "${a}",
        "deep": {"text": "x-${a.metadata.name}", "none": "${a.status.?x}"},
    }
    kind = f"Whole{every}"
    node = config_map("a", name="a")  # of a kind that nobody knows: then all of its fields may be read
    node["template"] |= {"apiVersion": "other.test/v1", "kind": "Thing"}
    text = definition(kind, [node], spec=spec, status=status, group=GROUP)
    (found,) = load({"a.json": text.encode()}).definitions.values()
    name = created(control_plane, found.crd)
    place = f"/apis/{GROUP}/v1/namespaces/default/{name.partition('.')[0]}"
    answer = control_plane.request("POST", f"{place}?fieldValidation=Strict", build_example(found, all_fields=every))
    assert answer.code == 201, answer.body["message"]
    a = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"x": [1]}}
    values = {"a": a, "schema": {"spec": {"size": 1, "on": True, "names": ["n"]}}}
    body = {**answer.body, "status": found.status.evaluate_known(values)}
    path = f"{place}/{answer.body['metadata']['name']}/status?fieldValidation=Strict"
    stored = control_plane.request("PUT", path, body)
    assert stored.code == 200, stored.body
    assert stored.body["status"] == {**body["status"], "deep": {"text": "x-a", "none": [1]}}
    control_plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")


def test_kubectl_prints_our_columns(served: ControlPlane, kubectl: Kubectl) -> None:
    instance = {"apiVersion": f"{GROUP}/v1", "kind": "Nothing", "metadata": {"name": "one"}}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(instance))
    status = {
        "state": "ACTIVE",
        "url": "https://one",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1},
            {"type": "Propagated", "status": "False", "reason": "WindowClosed", "message": "opens at nine"},
        ],
        "levelgate": {
            "target": {"revision": 13, "commit": "9c1d2e7"},
            "applied": {"revision": 12, "commit": "4e01b7a"},
            "blocked": [{"node": "database"}],
        },
    }
    body = json.dumps({**instance, "status": status})
    kubectl("apply", "--server-side", "--subresource=status", "--field-manager=status", "-f", "-", stdin=body)

    header, row = kubectl("get", "xnothing", "-o", "wide").splitlines()
    assert header.split() == "NAME STATE READY HEALTHY REVISION PROPAGATED AGE TARGET COMMIT NODE MESSAGE".split()
    assert row.split()[:5] == ["one", "ACTIVE", "True", "12", "WindowClosed"]
    assert row.split()[6:] == ["13", "9c1d2e7", "database", "opens", "at", "nine"]
    assert json.loads(kubectl("get", "xnothing", "one", "-o", "json"))["status"] == status


def test_conditions_have_owners_of_their_own(served: ControlPlane, kubectl: Kubectl) -> None:
    instance = {"apiVersion": f"{GROUP}/v1", "kind": "Nothing", "metadata": {"name": "two"}}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(instance))
    for kind in ("Ready", "Healthy"):
        body = json.dumps({**instance, "status": {"conditions": [{"type": kind, "status": "True"}]}})
        manager = f"--field-manager={kind.lower()}"
        kubectl("apply", "--server-side", "--subresource=status", manager, "-f", "-", stdin=body)
    found = json.loads(kubectl("get", "xnothing", "two", "-o", "json"))
    assert sorted(condition["type"] for condition in found["status"]["conditions"]) == ["Healthy", "Ready"]


def test_applying_an_equal_definition_changes_nothing(served: ControlPlane, kubectl: Kubectl) -> None:
    manifest = crd("Listed", SCHEMAS["Listed"])
    for _ in range(2):
        text = json.dumps(manifest)
        kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=levelgate", "-f", "-", stdin=text)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{manifest['metadata']['name']}"
    before = served.request("GET", path).body["metadata"]["resourceVersion"]
    kubectl("apply", "--server-side", "--field-manager=levelgate", "-f", "-", stdin=json.dumps(manifest))
    assert served.request("GET", path).body["metadata"]["resourceVersion"] == before
