"""Values as their schema means them (rgd 1.10, 1.11; "schema-aware values"): bytes, times and doubles."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import Catalog, load
from renderer.cel.openapi import from_openapi
from renderer.identity import ObjectKey
from renderer.render.render import render
from renderer.render.world import ClusterView
from renderer.template.typed_views import view_of
from tests.support.properties.repositories import GROUP, config_map, definition, instance, widget, widgets

X = ObjectKey(GROUP, "Link", "default", "x")
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default", "creationTimestamp": "2026-01-31T08:00:00Z"},
    "data": {"password": "cMOkc3M=", "user": "bWU=", "raw": "/w=="},
}
GIVEN = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
ALL = {
    "id": "all",
    "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "selector": {}}},
}
STATUS = {
    "type": "object",
    "properties": {
        "until": {"type": "string", "format": "date-time"},
        "lasts": {"type": "string", "format": "duration"},
        "share": {"type": "number"},
        "day": {"type": "string", "format": "date"},
    },
}
CRD = widgets("free.test", {"properties": {"status": STATUS}})
WIDGET = {
    "apiVersion": "free.test/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "default"},
    "status": {"until": "2026-03-01T00:00:00Z", "lasts": "90m", "share": 2, "day": "2026-01-31"},
}
REFERENCE = {"id": "w", "externalRef": {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": {"name": "w"}}}


def loaded(*resources: dict[str, Any], crd: bool = True, **schema: Any) -> Catalog:
    spec = {"text": "string | default=a", "ratio": "float | default=1", "many": "[]float | default=[1,2.5]"}
    files = {"link.json": definition("Link", list(resources), spec=spec, **schema), "x.json": instance("Link", "x")}
    if crd:
        files["crd.json"] = json.dumps(CRD)
    return load({name: text.encode() for name, text in files.items()})


def made(expression: Any, **template: Any) -> Any:
    """What a node that reads the Secret and the Widget becomes."""
    node = config_map("r")
    node["template"]["data"] = {"value": expression}
    node["template"] |= template
    catalog = loaded(GIVEN, REFERENCE, node)
    assert catalog.problems == ()
    live = {ObjectKey.from_manifest(one): one for one in (SECRET, WIDGET)}
    (found,) = (one for one in render([catalog], ClusterView(live=live)).instances[X].nodes if one.id == "r")
    assert (found.error, found.waiting) == ("", ())
    return found.manifest


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("${string(given.data.password)}", "päss"),
        ("${'user=' + string(given.data.user)}", "user=me"),
        ("${base64.encode(given.data.raw)}", "/w=="),
        ("${string(size(given.data.raw))}", "1"),
        ("${given.data.map(k, string(size(given.data[k]))).sort().join(',')}", "1,2,5"),
        ("${string(given.metadata.creationTimestamp.getFullYear())}", "2026"),
        ("${string(given.metadata.creationTimestamp)}", "2026-01-31T08:00:00Z"),
        ("${string(w.status.until - duration('24h'))}", "2026-02-28T00:00:00Z"),
        ("${string(w.status.until - given.metadata.creationTimestamp > w.status.lasts)}", "true"),
        ("${string(w.status.share / 4.0)}", "0.5"),
        ("${w.status.day}", "2026-01-31"),
        ("${string(schema.spec.ratio / 2.0)}", "0.5"),
        ("${string(schema.spec.many.map(m, m * 2.0).sum())}", "7"),
        ("${json.marshal(w.status.share)}", "2"),
    ],
)
def test_values_are_what_their_schema_means(expression: str, value: str) -> None:
    assert made(expression)["data"] == {"value": value}


def test_bytes_go_to_bytes_as_base64_text() -> None:
    """In kro bytes can be no field at all; copying a Secret is what people do."""
    found = made("x", kind="Secret", data="${given.data}")
    assert found["data"] == SECRET["data"]
    found = made("x", kind="Secret", data={"a": "${given.data.raw}", "b": "${base64.encode(bytes('b'))}"})
    assert found["data"] == {"a": "/w==", "b": "Yg=="}
    assert made("x", kind="ConfigMap", data={}, binaryData="${given.?data}")["binaryData"] == SECRET["data"]


def test_whole_objects_go_on_as_they_are() -> None:
    free = widget("r")
    free["template"]["data"] = {"meta": "${given.metadata}", "until": "${w.status.until}", "share": "${w.status.share}"}
    catalog = loaded(GIVEN, REFERENCE, free, crd=False)
    live = {ObjectKey.from_manifest(one): one for one in (SECRET, WIDGET)}
    (found,) = (one for one in render([catalog], ClusterView(live=live)).instances[X].nodes if one.id == "r")
    assert found.manifest["data"] == {
        "meta": SECRET["metadata"],
        "until": "2026-03-01T00:00:00Z",
        "share": 2,
    }


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("${given.data.user}", "${given.data.user}: is bytes, where a string is needed; write string(given.data.user)"),
        (
            "u-${given.data.user}",
            "${given.data.user}: is bytes, where a string is needed; write string(given.data.user)",
        ),
        ("${given.data.user + 'x'}", "no such overload: bytes + string (use string(given.data.user))"),
        ("until ${w.status.until}", "${w.status.until}: is a timestamp, where a string is needed"),
        ("${string(w.status.share * 2)}", "no such overload: double * int"),
        ("${string(schema.spec.ratio + 1)}", "no such overload: double + int"),
    ],
)
def test_the_check_says_what_would_go_wrong(expression: str, message: str) -> None:
    node = config_map("r")
    node["template"]["data"] = {"value": expression}
    (problem,) = loaded(GIVEN, REFERENCE, node).problems
    assert message in problem.message


def test_bytes_are_no_field_of_a_kind_that_nobody_describes() -> None:
    free = widget("r")
    free["template"]["data"] = {"one": "${given.data.user}", "all": "${given.data}"}
    found = [problem.message for problem in loaded(GIVEN, free, crd=False).problems]
    assert len(found) == 2
    assert all("cannot be a field; use base64.encode(...) or string(...)" in message for message in found)


def test_items_and_selected_objects_are_seen_alike() -> None:
    ready = ["${string(each.data.user) == 'me'}", "${all.all(s, string(s.data.user) == 'me')}"]
    node = config_map("r")
    node["template"]["data"] = {"value": "${all.map(s, string(s.data.user)).join(',')}"}
    catalog = loaded({**ALL, "readyWhen": ready}, node)
    assert catalog.problems == ()
    (first,) = (one for one in render([catalog]).instances[X].nodes if one.selection)
    assert first.selection
    world = ClusterView(
        live={ObjectKey.from_manifest(SECRET): SECRET}, selected={first.selection: (ObjectKey.from_manifest(SECRET),)}
    )
    found = {one.id: one for one in render([catalog], world).instances[X].nodes}
    assert found["all/0"].ready.verdict is True
    assert found["r"].manifest["data"] == {"value": "me"}


def test_what_has_not_the_form_of_its_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "format": "byte"},
            "b": {"type": "string", "format": "date-time"},
            "c": {"type": "number"},
            "d": {"type": "array", "items": {"type": "number"}},
        },
    }
    view = view_of(from_openapi(schema), [()])
    assert view
    maps: list[object] = [{"a": "!", "b": "soon", "c": "1", "d": {}}, {"a": 1, "b": None, "c": True, "d": 7}]
    for odd in (*maps, None, [], "text"):
        assert view.convert(odd) == odd


def test_what_nothing_reads_is_not_touched() -> None:
    (one,) = loaded(GIVEN, config_map("a", "given")).definitions.values()
    assert one.views == {}
