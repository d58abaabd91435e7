"""Random histories of writes by several managers: the real server and the sandbox agree after every step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.support.conformance import merge_schema as things
from tests.support.conformance.merge_servers import (
    Connection,
    InProcess,
    MergeWrite,
    OneObject,
    comparable,
    content,
    ownership,
)
from tests.support.properties.examples import examples

Json = dict[str, Any]

managers = st.sampled_from(["m1", "m2", "m3"])
_numbers = count()


def agree(real: OneObject, ours: OneObject, writes: list[MergeWrite]) -> None:
    """Ends where only the real server's validation refuses what was merged: the sandbox knows fewer rules."""
    for write in writes:
        note(f"{write}")
        theirs, answer = real.write(write), ours.write(write)
        if theirs.code == 422 and answer.code < 300:
            return
        assert comparable(answer) == comparable(theirs), (theirs.message, answer.message)
        assert _text(content(ours.live())) == _text(content(real.live()))
        assert ownership(ours.live()) == ownership(real.live())


def _text(obj: Json | None) -> list[str]:
    """Lines that pytest can compare."""
    return json.dumps(obj, indent=1, sort_keys=True).splitlines()


def bodies(api_version: str, kind: str, content: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(
        lambda metadata, rest: {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest},
        things.metadata,
        content,
    )


def histories(
    objects: st.SearchStrategy[Json], broken: st.SearchStrategy[Json], *more: st.SearchStrategy[MergeWrite]
) -> st.SearchStrategy[list[MergeWrite]]:
    """A first apply, then writes of all sorts, most of them applies."""
    applies = st.builds(MergeWrite, st.just("apply"), managers, objects, st.booleans())
    updates = st.builds(MergeWrite, st.just("update"), managers, objects)
    merges = st.builds(MergeWrite, st.just("patch"), managers, patches(objects))
    mistakes = st.builds(MergeWrite, st.just("apply"), managers, broken, st.booleans())
    rare = st.sampled_from([MergeWrite("delete"), MergeWrite("patch", "m1", {"metadata": {"managedFields": [{}]}})])
    write = st.one_of(*[applies] * 8, *[updates] * 3, *[merges] * 3, mistakes, rare, *more)
    return st.builds(lambda first, rest: [first, *rest], applies, st.lists(write, min_size=4, max_size=9))


def patches(objects: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """JSON merge patches: parts of an object, some of them nulls."""
    return st.builds(_patch, objects, st.lists(st.integers(0, 30), max_size=3))


def _patch(obj: Json, removed: list[int]) -> Json:
    spots = list(_spots({name: obj[name] for name in obj if name not in ("apiVersion", "kind")}, ()))
    out: Json = json.loads(json.dumps({name: obj[name] for name in obj if name not in ("apiVersion", "kind")}))
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


def named(write: MergeWrite, name: str) -> MergeWrite:
    body = write.body
    if body is None or write.verb == "patch":
        return write
    body = {**body, "metadata": {"name": name, "namespace": "default", **body["metadata"]}}
    return MergeWrite(write.verb, write.manager, body, write.force, write.subresource)


thing_objects = bodies(f"{things.GROUP}/v1", "Thing", st.builds(lambda spec: {"spec": spec}, things.specs))
broken_things = bodies(
    f"{things.GROUP}/v1", "Thing", st.builds(lambda spec: {"spec": spec}, things.broken(things.specs))
)


statuses = bodies(f"{things.GROUP}/v1", "Thing", st.builds(lambda status: {"status": status}, things.statuses))
status_writes = st.one_of(
    st.builds(MergeWrite, st.just("apply"), managers, statuses, st.booleans(), st.just("status")),
    st.builds(MergeWrite, st.just("patch"), managers, patches(statuses), st.just(False), st.just("status")),
)


def compare(connection: Connection, sandbox: InProcess, path: str, history: list[MergeWrite]) -> None:
    name = f"t{next(_numbers)}"
    writes = [named(write, name) for write in history]
    agree(OneObject(connection, path, name), OneObject(sandbox, path, name), writes)


@settings(examples(40), report_multiple_bugs=False)
@given(histories(thing_objects, broken_things, status_writes))
def test_custom_resources(connection: Connection, embedded: InProcess, history: list[MergeWrite]) -> None:
    compare(connection, embedded, things.PATH, history)


@settings(examples(25), report_multiple_bugs=False)
@given(histories(bodies("v1", "ConfigMap", things.config_maps), bodies("v1", "ConfigMap", things.broken_config_maps)))
def test_config_maps(connection: Connection, embedded: InProcess, history: list[MergeWrite]) -> None:
    compare(connection, embedded, things.CONFIG_MAPS, history)


@settings(examples(25), report_multiple_bugs=False)
@given(histories(bodies("v1", "Service", things.services), bodies("v1", "Service", things.broken_services)))
def test_services(connection: Connection, embedded: InProcess, history: list[MergeWrite]) -> None:
    compare(connection, embedded, things.SERVICES, history)


@settings(examples(25), report_multiple_bugs=False)
@given(
    histories(
        bodies("apps/v1", "Deployment", things.deployments), bodies("apps/v1", "Deployment", things.broken_deployments)
    )
)
def test_deployments(connection: Connection, embedded: InProcess, history: list[MergeWrite]) -> None:
    compare(connection, embedded, things.DEPLOYMENTS, history)
