"""Random histories of writes by several managers: the real server and the engine agree after every step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from applier.sandbox.merge import type_of_schema
from renderer import schemas
from tests.conformance.merge import things
from tests.conformance.merge.servers import Connection, Engine, Kind, Real, Write, comparable, content, ownership
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import eventually
from tests.properties.test_convergence import examples

Json = dict[str, Any]

managers = st.sampled_from(["m1", "m2", "m3"])
_numbers = count()


def agree(real: Real, engine: Engine, writes: list[Write]) -> None:
    for write in writes:
        note(f"{write}")
        theirs, ours = real.write(write), engine.write(write)
        assert comparable(ours) == comparable(theirs), (theirs.message, ours.message)
        assert content(engine.live()) == content(real.live())
        assert ownership(engine.live()) == ownership(real.live())


@pytest.fixture(scope="module")
def connection(control_plane: ControlPlane) -> Iterator[Connection]:
    opened = Connection(control_plane)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def thing_path(control_plane: ControlPlane) -> Iterator[str]:
    created = control_plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", things.CRD)
    assert created.code == 201, created.body
    path = f"/apis/{things.GROUP}/v1/namespaces/default/things"
    eventually(lambda: control_plane.request("GET", path).code == 200)
    yield path
    control_plane.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{things.GROUP}")


def bodies(api_version: str, kind: str, content: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(
        lambda metadata, rest: {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest},
        things.metadata,
        content,
    )


def histories(objects: st.SearchStrategy[Json], broken: st.SearchStrategy[Json]) -> st.SearchStrategy[list[Write]]:
    write = st.one_of(
        st.builds(Write, st.just("apply"), managers, objects, st.booleans()),
        st.builds(Write, st.just("apply"), managers, objects, st.booleans()),
        st.builds(Write, st.just("apply"), managers, objects, st.just(True)),
        st.builds(Write, st.just("update"), managers, objects),
        st.builds(Write, st.just("patch"), managers, patches(objects)),
        st.builds(Write, st.just("apply"), managers, broken, st.booleans()),
        st.just(Write("delete")),
    )
    return st.lists(write, min_size=1, max_size=6)


def patches(objects: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """JSON merge patches: parts of an object, some of them nulls."""
    return st.builds(_patch, objects, st.lists(st.integers(0, 30), max_size=3))


def _patch(obj: Json, removed: list[int]) -> Json:
    spots = list(_spots({name: obj[name] for name in obj if name not in ("apiVersion", "kind")}, ()))
    out = json.loads(json.dumps({name: obj[name] for name in obj if name not in ("apiVersion", "kind")}))
    for index in removed:
        if spots:
            node, path = out, spots[index % len(spots)]
            for name in path[:-1]:
                node = node.get(name) or {}
            if path and path[-1] in node:
                node[path[-1]] = None
    return out


def _spots(value: Json, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, child in value.items():
        if (*path, name) != ("metadata",):
            yield (*path, name)
        if isinstance(child, dict):
            yield from _spots(child, (*path, name))


def named(write: Write, name: str) -> Write:
    body = write.body
    if body is None or write.verb == "patch":
        return write
    body = {**body, "metadata": {"name": name, "namespace": "default", **body["metadata"]}}
    return Write(write.verb, write.manager, body, write.force, write.subresource)


THINGS = Kind(
    type_of_schema(things.SCHEMA, crd=True, definitions=schemas.bundle().definitions),
    f"{things.GROUP}/v1",
    things.SCHEMA,
    has_status=True,
)
thing_objects = bodies(THINGS.version, "Thing", st.builds(lambda spec: {"spec": spec}, things.specs))
broken_things = bodies(THINGS.version, "Thing", st.builds(lambda spec: {"spec": spec}, things.broken(things.specs)))


@settings(examples(60), report_multiple_bugs=False)
@given(histories(thing_objects, broken_things))
def test_custom_resources(connection: Connection, thing_path: str, history: list[Write]) -> None:
    name = f"t{next(_numbers)}"
    real = Real(connection, thing_path, name)
    agree(real, Engine(THINGS), [named(write, name) for write in history])
