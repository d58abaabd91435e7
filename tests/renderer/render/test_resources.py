"""Rendering of one resource: the live objects that a result depends on, and what other expressions see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from renderer import well_known
from renderer.cel import Meter
from renderer.identity import ObjectKey, digest
from renderer.render.resources import (
    RenderedResource,
    ResourceRenderer,
    is_ready,
    live_value,
    resource_value,
    with_defaults,
)
from tests.support.compiled_definitions import compiled, resource, source

INSTANCE: dict[str, Any] = {
    "apiVersion": "kro.run/v1alpha1",
    "kind": "App",
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {"name": "shop"},
}
DB = ObjectKey("", "ConfigMap", "default", "shop-db")


class Recorded(Mapping[ObjectKey, Mapping[str, Any]]):
    """Live objects with a record of the keys that somebody has read."""

    def __init__(self, objects: Mapping[ObjectKey, Mapping[str, Any]]) -> None:
        self.objects = objects
        self.read: set[ObjectKey] = set()

    def __getitem__(self, key: ObjectKey) -> Mapping[str, Any]:
        self.read.add(key)
        return self.objects[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("a renderer must not iterate over all objects")

    def __len__(self) -> int:
        return len(self.objects)


def render(live: Mapping[ObjectKey, Mapping[str, Any]], *resources: Any) -> tuple[RenderedResource, Recorded]:
    """Return the first resource of a definition, and the live objects."""
    definition = compiled(source(*resources))
    observed = Recorded(live)
    manifest, mistakes = with_defaults(definition, INSTANCE)
    assert mistakes == []
    renderer = ResourceRenderer(
        definition, manifest, observed, {}, {}, {}, {}, {"schema": manifest}, Meter.of_instance(), lambda: 0
    )
    return renderer.render(definition.nodes[0]), observed


def test_a_resource_without_conditions_reads_no_live_object() -> None:
    rendered, observed = render({}, resource("db"))
    assert rendered.nodes[0].writable
    assert observed.read == set()


def test_a_resource_with_ready_when_reads_its_own_object() -> None:
    rendered, observed = render({}, resource("db", readyWhen=["${db.data.name == 'shop'}"]))
    assert observed.read == {DB}
    assert rendered.nodes[0].ready.why == "db does not exist yet"


def test_a_reference_reads_the_object_that_it_names() -> None:
    external = {
        "id": "db",
        "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop-db"}},
    }
    rendered, observed = render({}, external)
    assert rendered.nodes[0].waiting == (f"{DB} to exist",)
    assert observed.read == {DB}


@pytest.mark.parametrize("is_written", [True, False])
def test_other_expressions_see_the_manifest_over_the_live_object_until_it_is_written(is_written: bool) -> None:
    definition = compiled(source(resource("db")))
    (rendered, _) = render({}, resource("db"))
    manifest = rendered.nodes[0].manifest
    metadata = {
        "name": "shop-db",
        "namespace": "default",
        "uid": "u1",
        "annotations": {well_known.HASH: digest(manifest) if is_written else "other"},
    }
    live = {DB: {**manifest, "metadata": metadata, "data": {"name": "old"}}}
    value = resource_value(definition.nodes[0], rendered, live)
    assert value["metadata"]["uid"] == "u1"
    assert value["data"]["name"] == ("old" if is_written else "shop")
    assert live_value(definition.nodes[0], rendered, live) is live[DB]


def test_the_status_sees_only_objects_that_exist() -> None:
    definition = compiled(source(resource("db")))
    rendered, _ = render({}, resource("db"))
    assert live_value(definition.nodes[0], rendered, {}) is None
    assert resource_value(definition.nodes[0], rendered, {}) == rendered.nodes[0].manifest


def test_a_resource_is_ready_once_its_object_exists() -> None:
    rendered, _ = render({}, resource("db"))
    assert not is_ready(rendered, {})
    assert is_ready(rendered, {DB: {}})
    assert is_ready(RenderedResource(), {})


def test_an_excluded_resource_is_not_ready() -> None:
    rendered, _ = render({}, resource("db", includeWhen=["${schema.spec.name == 'other'}"]))
    assert rendered.excluded
    assert rendered.excluded.because == "${schema.spec.name == 'other'} is false"
    assert not is_ready(rendered, {DB: {}})
