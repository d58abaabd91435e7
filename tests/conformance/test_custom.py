"""CustomResourceDefinitions and their objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cluster.http_api import Api, Json, RealApi
from tests.support.conformance.custom import DEFINITIONS, definition, established


def define(api: Api) -> str:
    """The group of a new definition that is served."""
    name = f"g{uuid4().hex[:8]}.test"
    crd = definition(name)
    crd["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}]
    created = api.post(DEFINITIONS, crd)
    assert created.code == 201, created.body
    assert created.body["spec"]["names"]["listKind"] == "WidgetList"
    assert created.body["spec"]["conversion"] == {"strategy": "None"}
    assert api.eventually(lambda: established(api, f"widgets.{name}"))
    assert api.eventually(lambda: api.get(f"/apis/{name}/v1/widgets").code == 200)
    return name


@pytest.fixture(scope="module")
def defined() -> list[str]:
    """The group of the real server's definition, once a test has asked for it."""
    return []


@pytest.fixture
def group(api: Api, defined: list[str]) -> str:
    """The group of a definition that no test changes. The real server has one for all: its first object takes two seconds."""
    if not isinstance(api, RealApi):
        return define(api)
    if not defined:
        defined.append(define(api))
    return defined[0]


@pytest.fixture
def widgets(group: str, home: str) -> str:
    return f"/apis/{group}/v1/namespaces/{home}/widgets"


@pytest.fixture
def widget(group: str) -> Any:
    def make(name: str = "a", **spec: Any) -> Json:
        return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, **spec}}

    return make


def test_unknown_fields_are_dropped_and_defaults_set(api: Api, widgets: str, widget: Any) -> None:
    answer = api.post(widgets, widget(zz=1, free={"any": {"thing": [1]}}))
    assert answer.code == 201
    assert answer.body["spec"] == {"size": 1, "mode": "x", "free": {"any": {"thing": [1]}}}
    assert 'unknown field \\"spec.zz\\"' in answer.headers["warning"]
    strict = api.post(f"{widgets}?fieldValidation=Strict", widget("b", zz=1))
    assert strict.refusal == (400, "BadRequest")
    assert 'unknown field "spec.zz"' in strict.body["message"]


def test_a_whole_number_is_stored_without_a_fraction(api: Api, widgets: str, widget: Any) -> None:
    spec = widget(free={"a": [1.0, 1.5, -0.0], "b": 1e3})
    api.post(widgets, spec)
    api.apply(f"{widgets}/b", {**spec, "metadata": {"name": "b"}})
    for name in ("a", "b"):
        free = api.get(f"{widgets}/{name}").body["spec"]["free"]
        assert str(free) == "{'a': [1, 1.5, 0], 'b': 1000}"


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"size": "x"}, [("FieldValueTypeInvalid", "spec.size")]),
        ({"size": None}, [("FieldValueRequired", "spec.size")]),
        ({"size": 0}, [("FieldValueInvalid", "spec.size")]),
        ({"mode": "q"}, [("FieldValueNotSupported", "spec.mode")]),
        ({"tags": ["a", "a"]}, [("FieldValueDuplicate", "spec.tags[1]")]),
        ({"tags": ["toolong"]}, [("FieldValueTooLong", "spec.tags[0]")]),
        ({"ports": [{"port": 1}, {"port": 1}]}, [("FieldValueDuplicate", "spec.ports[1]")]),
        ({"ports": [{"note": "x"}]}, [("FieldValueRequired", "spec.ports[0].port")]),
        ({"ports": [{"port": 1}, {"port": 2}, {"port": 3}, {"port": 4}]}, [("FieldValueTooMany", "spec.ports")]),
        ({"word": "A"}, [("FieldValueInvalid", "spec.word")]),
        ({"either": {}}, [("FieldValueTypeInvalid", "spec.either")]),
    ],
)
def test_a_value_that_breaks_the_schema(
    api: Api, widgets: str, widget: Any, spec: Json, causes: list[tuple[str, str]]
) -> None:
    answer = api.post(widgets, widget(**spec))
    assert answer.refusal == (422, "Invalid")
    # Both servers say too that rules were not checked.
    assert [cause for cause in answer.causes if cause[1] != "<nil>"] == causes


def test_rules_and_rules_of_transition(api: Api, widgets: str, widget: Any) -> None:
    odd = api.post(widgets, widget(even=3))
    assert odd.refusal == (422, "Invalid")
    assert odd.causes == [("FieldValueInvalid", "spec.even")]
    assert "must be even" in odd.body["message"]
    assert api.post(widgets, widget(even=4)).code == 201
    less = api.merge(f"{widgets}/a", {"spec": {"even": 2}})
    assert less.causes == [("FieldValueInvalid", "spec.even")]
    assert "self >= oldSelf" in less.body["message"]
    assert api.merge(f"{widgets}/a", {"spec": {"even": 6}}).code == 200


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"kind": "Gadget"}, (422, "Invalid")),
        ({"apiVersion": "other.test/v1"}, (400, "BadRequest")),
        ({"kind": ""}, (400, "BadRequest")),
        ({"metadata": {"name": "a", "labels": {"a": 1}}}, (400, "BadRequest")),
    ],
)
def test_a_body_of_another_kind(api: Api, widgets: str, widget: Any, change: Json, refusal: tuple[int, str]) -> None:
    assert api.post(widgets, widget() | change).refusal == refusal


def test_an_update_needs_a_version(api: Api, widgets: str, widget: Any) -> None:
    stored = api.post(widgets, widget()).body
    without = api.put(f"{widgets}/a", widget(size=2))
    assert without.refusal == (422, "Invalid")
    assert without.causes == [("FieldValueInvalid", "metadata.resourceVersion")]
    body = widget(size=2)
    body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    assert api.put(f"{widgets}/a", body).body["spec"] == {"size": 2, "mode": "x"}


def test_the_generation_counts_changes_of_content(api: Api, widgets: str, widget: Any) -> None:
    assert api.post(widgets, widget()).body["metadata"]["generation"] == 1
    assert api.merge(f"{widgets}/a", {"metadata": {"labels": {"l": "1"}}}).body["metadata"]["generation"] == 1
    assert api.merge(f"{widgets}/a", {"spec": {"size": 2}}).body["metadata"]["generation"] == 2
    status = api.merge(f"{widgets}/a/status", {"status": {"ok": True}}).body
    assert status["metadata"]["generation"] == 2
    for value, generation in ((1, 3), (1, 3), (True, 4)):
        written = api.merge(f"{widgets}/a", {"spec": {"free": {"on": value}}}).body
        assert (written["spec"]["free"]["on"] is value, written["metadata"]["generation"]) == (True, generation)


def test_spec_and_status_are_written_apart(api: Api, widgets: str, widget: Any) -> None:
    assert "status" not in api.post(widgets, {**widget(), "status": {"ok": True}}).body
    assert "status" not in api.merge(f"{widgets}/a", {"status": {"ok": True}}).body
    body = {"spec": {"size": 9}, "status": {"ok": True}, "metadata": {"labels": {"l": "1"}}}
    written = api.merge(f"{widgets}/a/status", body).body
    assert written["status"] == {"ok": True}
    assert written["spec"]["size"] == 1
    assert "labels" not in written["metadata"]
    intent = {"apiVersion": widget()["apiVersion"], "kind": "Widget", "metadata": {"name": "a"}, "status": {"ok": True}}
    assert api.apply(f"{widgets}/a/status", intent, force=True).code == 200
    assert api.apply(f"{widgets}/absent/status", intent | {"metadata": {"name": "absent"}}).refusal == (404, "NotFound")


def test_a_write_without_a_difference(api: Api, widgets: str, widget: Any) -> None:
    version = api.post(widgets, widget()).body["metadata"]["resourceVersion"]
    assert api.merge(f"{widgets}/a", {"spec": {"size": 1}}).body["metadata"]["resourceVersion"] == version
    first = api.apply(f"{widgets}/a", widget())
    second = api.apply(f"{widgets}/a", widget())
    assert first.body["metadata"]["resourceVersion"] == second.body["metadata"]["resourceVersion"]


def test_null_is_absent_where_it_is_not_allowed(api: Api, widgets: str, widget: Any) -> None:
    answer = api.post(widgets, widget(mode=None, ports=[{"port": 80, "note": None}]))
    assert answer.body["spec"] == {"size": 1, "mode": "x", "ports": [{"port": 80, "note": None}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"word": None}, "spec.word"),
        ({"tags": None}, "spec.tags"),
        ({"size": None}, "spec.size"),
        ({"ports": [{"port": 80}, {"port": None}]}, "spec.ports[1].port"),
    ],
)
def test_an_apply_of_null_where_it_is_not_allowed(api: Api, widgets: str, widget: Any, spec: Json, field: str) -> None:
    """It is not dropped, as in a create."""
    answer = api.apply(f"{widgets}/a", widget(**spec))
    assert answer.refusal == (422, "Invalid")
    assert ("FieldValueTypeInvalid", field) in answer.causes


def test_an_apply_of_null_where_there_is_a_default(api: Api, widgets: str, widget: Any) -> None:
    assert api.apply(f"{widgets}/a", widget(mode=None)).body["spec"] == {"size": 1, "mode": "x"}


def test_the_last_entry_of_managed_fields_goes_with_its_last_field(api: Api, widgets: str, widget: Any) -> None:
    api.post(widgets, widget())
    entries = api.merge(f"{widgets}/a/status?fieldManager=s", {"status": {"ok": True}}).body["metadata"][
        "managedFields"
    ]
    left = [entry for entry in entries if entry["manager"] == "s"]
    kept = api.json_patch(f"{widgets}/a", [{"op": "replace", "path": "/metadata/managedFields", "value": left}]).body
    assert [entry["manager"] for entry in kept["metadata"]["managedFields"]] == ["s"]
    assert "managedFields" not in api.merge(f"{widgets}/a/status", {"status": None}).body["metadata"]


def test_applies_that_do_not_fit(api: Api, widgets: str, widget: Any) -> None:
    unknown = api.apply(f"{widgets}/a", widget(zz=1))
    assert unknown.refusal == (500, "")
    assert ".spec.zz: field not declared in schema" in unknown.body["message"]
    assert api.apply(f"{widgets}/a", widget(size="x")).refusal == (500, "")
    assert api.apply(f"{widgets}/a", widget(size=0)).refusal == (422, "Invalid")
    assert api.apply(f"{widgets}/a", widget()).code == 201


def test_strategic_merge_is_for_built_in_kinds(api: Api, widgets: str, widget: Any) -> None:
    api.post(widgets, widget())
    patch = api.request("PATCH", f"{widgets}/a", {}, content_type="application/strategic-merge-patch+json")
    assert patch.refusal == (415, "UnsupportedMediaType")


def test_versions_are_views_of_one_object(api: Api, widgets: str, widget: Any, group: str) -> None:
    api.post(widgets, widget())
    other = api.get(f"{widgets.replace('/v1/', '/v2/')}/a").body
    assert (other["apiVersion"], other["spec"]) == (f"{group}/v2", {"size": 1, "mode": "x"})
    listed = api.get(f"/apis/{group}/v2/widgets").body
    assert (listed["kind"], listed["items"][0]["apiVersion"]) == ("WidgetList", f"{group}/v2")
    for path in (f"/apis/{group}/v3/widgets", f"/apis/{group}/v1/others"):
        assert api.get(path).body == "404 page not found\n"


def test_printer_columns(api: Api, widgets: str, widget: Any) -> None:
    api.post(widgets, widget(ports=[{"port": 80, "note": "web"}, {"port": 443}]))
    table = api.get(widgets, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    columns = [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", "string", 0), ("Size", "integer", 0), ("Ports", "string", 0), ("Note", "string", 1)]
    assert table["rows"][0]["cells"][:2] == ["a", 1]
    assert table["rows"][0]["cells"][3] == "web"


def test_fields_that_a_definition_lets_select_by(api: Api, widgets: str, widget: Any) -> None:
    for name, size in (("a", 1), ("b", 2)):
        api.post(widgets, widget(name, size=size))
    for selector, found in (("spec.size%3D2", ["b"]), ("spec.mode%3Dx,spec.size!%3D2", ["a"]), ("spec.word%3D", None)):
        answer = api.get(f"{widgets}?fieldSelector={selector}")
        assert found == ([one["metadata"]["name"] for one in answer.body["items"]] if answer.code == 200 else None)


def test_addresses_of_custom_kinds(api: Api, group: str) -> None:
    """Where a namespace is missing nothing is served, and nothing is deleted."""
    for method, path in (("POST", "widgets"), ("DELETE", "widgets"), ("GET", "widgets/a")):
        assert api.request(method, f"/apis/{group}/v1/{path}", {}).body == "404 page not found\n"


def test_discovery_shows_a_custom_kind(api: Api, group: str) -> None:
    document = api.eventually(lambda: api.get(f"/apis/{group}/v1").body)
    entry = next(one for one in document["resources"] if one["name"] == "widgets")
    assert (entry["kind"], entry["namespaced"], entry["shortNames"]) == ("Widget", True, ["wd"])
    preferred = api.eventually(lambda: api.get(f"/apis/{group}").body["preferredVersion"])
    assert preferred["version"] == "v2"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"group": "other.test"}, "spec.group"),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind"),
    ],
)
def test_the_identity_of_a_definition_stays(api: Api, group: str, change: Json, field: str) -> None:
    answer = api.merge(f"{DEFINITIONS}/widgets.{group}", {"spec": change})
    assert answer.refusal == (422, "Invalid")
    assert ("FieldValueInvalid", field) in answer.causes


@pytest.mark.parametrize(
    "break_it",
    [
        lambda crd: crd["metadata"].update(name="other.name"),
        lambda crd: crd["spec"].update(scope="Galaxy"),
        lambda crd: crd["spec"]["versions"][1].update(storage=True),
        lambda crd: crd["spec"]["versions"][0].pop("schema"),
        lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(x={}),
        lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(x={"type": "array"}),
    ],
)
def test_a_definition_that_cannot_be(api: Api, break_it: Any) -> None:
    crd = definition(f"g{uuid4().hex[:8]}.test")
    break_it(crd)
    assert api.post(DEFINITIONS, crd).refusal == (422, "Invalid")


class TestADefinitionOfItsOwn:
    @pytest.fixture
    def group(self, api: Api) -> Iterator[str]:
        name = define(api)
        yield name
        api.delete(f"{DEFINITIONS}/widgets.{name}")

    def test_a_definition_that_takes_a_name_of_another(self, api: Api, group: str) -> None:
        other = definition(group)
        other["metadata"]["name"] = f"gadgets.{group}"
        other["spec"]["names"] = {"plural": "gadgets", "kind": "Widget", "listKind": "GadgetList"}
        assert api.post(DEFINITIONS, other).code == 201

        def conditions() -> dict[str, str]:
            found = api.get(f"{DEFINITIONS}/gadgets.{group}").body.get("status", {}).get("conditions") or []
            return {one["type"]: f"{one['status']} {one['reason']}" for one in found}

        assert api.eventually(conditions) == {"NamesAccepted": "False KindConflict", "Established": "False NotAccepted"}
        api.delete(f"{DEFINITIONS}/gadgets.{group}")

    def test_a_definition_takes_its_objects_along(self, api: Api, widgets: str, widget: Any, group: str) -> None:
        api.post(widgets, widget())
        answer = api.delete(f"{DEFINITIONS}/widgets.{group}")
        assert answer.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert api.eventually(lambda: api.get(f"{DEFINITIONS}/widgets.{group}").code == 404)
        assert api.eventually(lambda: api.get(widgets).code == 404)
        assert api.eventually(lambda: api.get(f"/apis/{group}").code == 404)

    def test_a_changed_schema_holds_from_then_on(self, api: Api, widgets: str, widget: Any, group: str) -> None:
        crd = api.get(f"{DEFINITIONS}/widgets.{group}").body
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["more"] = {"type": "string", "default": "new"}
        assert api.put(f"{DEFINITIONS}/widgets.{group}", crd).code == 200

        def is_known() -> bool:
            answer = api.post(f"{widgets}?dryRun=All", widget())
            return bool(answer.body.get("spec", {}).get("more") == "new")

        assert api.eventually(is_known)

    def test_what_is_stored_is_shown_by_the_schema_of_today(
        self, api: Api, widgets: str, widget: Any, group: str
    ) -> None:
        """A property that leaves the schema vanishes, one that comes with a default is there; nothing is written for that."""
        version = api.apply(f"{widgets}/a", widget(word="kept")).body["metadata"]["resourceVersion"]
        crd = api.get(f"{DEFINITIONS}/widgets.{group}").body
        properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        del properties["word"]
        properties["more"] = {"type": "string", "default": "new"}
        assert api.put(f"{DEFINITIONS}/widgets.{group}", crd).code == 200
        expected = {"size": 1, "mode": "x", "more": "new"}
        assert api.eventually(lambda: api.get(f"{widgets}/a").body["spec"] == expected)
        assert api.get(widgets).body["items"][0]["spec"] == expected
        assert api.get(f"{widgets}/a").body["metadata"]["resourceVersion"] == version
        refused = api.apply(f"{widgets}/a", widget(word="again"))
        assert (refused.code, ".spec.word: field not declared in schema" in refused.body["message"]) == (500, True)
        assert api.apply(f"{widgets}/a", widget(size=2)).body["spec"] == expected | {"size": 2}
