"""Realistic objects of built-in kinds: both servers give the same answers, but for identity, time and addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from renderer import schemas
from tests.applier.kube.objects import builtins
from tests.conformance.objects import OBJECTS
from tests.conformance.servers import Api, Json

pytestmark = pytest.mark.cluster

_numbers = count()
_SPECIAL = frozenset({"HorizontalPodAutoscaler v1", "ControllerRevision"})
"""What the sandbox does not serve; and what the real server lets nobody patch: it takes its data for changed."""


def objects(namespace: str) -> dict[str, Json]:
    """Objects of both collections, with names that no other test uses."""
    found = {name: obj for name, obj in builtins(namespace).items() if name not in _SPECIAL}
    for name, (api_version, kind, content) in OBJECTS.items():
        metadata = {"name": f"{namespace}-{name}".replace(" ", "-"), **content.get("metadata", {})}
        found[name] = {**content, "apiVersion": api_version, "kind": kind, "metadata": metadata}
    return found


def collection(obj: Json, namespace: str) -> str:
    """The path of the objects of a kind."""
    group, _, version = obj["apiVersion"].rpartition("/")
    for one in schemas.bundle().discovery:
        for served in one["versions"]:
            if (one["metadata"]["name"], served["version"]) == (group, version):
                for entry in served["resources"]:
                    if entry["responseKind"]["kind"] == obj["kind"]:
                        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
                        inside = f"/namespaces/{namespace}" if entry["scope"] == "Namespaced" else ""
                        return f"{root}{inside}/{entry['resource']}"
    raise AssertionError(obj)


_TIME = re.compile(r'"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"')
_GIVEN_OUT = frozenset({"uid", "resourceVersion", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})


def comparable(answer: Any, obj: Json) -> Any:
    """What two servers must agree on."""
    if obj["kind"] == "DaemonSet":
        # The sandbox does not count templates.
        for where in (obj["metadata"], *(one["fieldsV1"].get("f:metadata", {}) for one in _entries(obj))):
            for name in ("annotations", "f:annotations"):
                where.pop(name, None)
    text = json.dumps(obj, sort_keys=True).replace(obj["metadata"]["uid"], "uid")
    known = json.loads(_TIME.sub('"time"', text))
    if obj["kind"] in ("PersistentVolumeClaim", "PersistentVolume"):
        # The sandbox runs no controller that would take these away again.
        known["metadata"].pop("finalizers", None)
    for entry in _entries(known):
        entry["fieldsV1"].get("f:metadata", {}) or entry["fieldsV1"].pop("f:metadata", None)
    return answer.code, _masked(known)


def _entries(obj: Json) -> list[Json]:
    found: list[Json] = obj["metadata"].get("managedFields") or []
    return found


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: "given out" if name in _GIVEN_OUT and item != "None" and item != ["None"] else _masked(item)
                for name, item in value.items()
            }
        case list():
            return [_masked(item) for item in value]
        case _:
            return value


def steps(api: Api, obj: Json, namespace: str) -> Iterator[Any]:
    """Answers to a create, an apply by another manager, a merge patch, an update with what was read, a dry run."""
    many = collection(obj, namespace)
    one = f"{many}/{obj['metadata']['name']}"
    ask: list[Callable[[], Any]] = [
        lambda: api.post(f"{many}?fieldManager=m1&fieldValidation=Strict", obj),
        lambda: api.apply(one, obj, manager="m2", force=True),
        lambda: api.merge(f"{one}?fieldManager=m3", {"metadata": {"labels": {"l": "1"}}}),
        lambda: api.put(f"{one}?fieldManager=m4", api.get(one).body),
        lambda: api.apply(f"{one}?dryRun=All", {**obj, "metadata": {**obj["metadata"], "labels": {"l": "2"}}}),
        lambda: api.get(one),
    ]
    for step in ask:
        answer = step()
        body = answer.body
        yield comparable(answer, body) if answer.code < 300 else (answer.refusal, answer.causes)
    api.merge(one, {"metadata": {"finalizers": None}})
    api.delete(one)


@pytest.mark.parametrize("name", sorted(objects("x")))
def test_an_object_is_stored_alike(both: tuple[Api, Api], name: str) -> None:
    namespace = f"o{next(_numbers)}"
    obj = objects(namespace)[name]
    for api in both:
        assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    real, sandbox = both
    for theirs, ours in zip(steps(real, obj, namespace), steps(sandbox, obj, namespace), strict=True):
        assert lines(ours) == lines(theirs)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def shown(api: Api, obj: Json, namespace: str) -> list[tuple[Any, ...]]:
    """What `kubectl get -o wide` prints of an object: name, type, priority and cell of each column."""
    assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    many = collection(obj, namespace)
    one = f"{many}/{obj['metadata']['name']}"
    uid = api.post(many, obj).body["metadata"]["uid"]
    table = api.get(one, accept=TABLE).body
    found = []
    for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True):
        told = str(cell).replace(uid, "uid") if column["name"] not in _VARIES else ""
        found.append((column["name"], column["type"], column["priority"], told))
    api.merge(one, {"metadata": {"finalizers": None}})
    api.delete(one)
    return found


_VARIES = frozenset({"Age", "Created At", "Cluster-IP", "Port(s)"})


@pytest.mark.parametrize("name", sorted(objects("x")))
def test_an_object_is_printed_alike(both: tuple[Api, Api], name: str) -> None:
    namespace = f"p{next(_numbers)}"
    real, sandbox = (shown(api, objects(namespace)[name], namespace) for api in both)
    assert sandbox == real


def lines(value: Any) -> list[str]:
    """So that pytest shows what differs."""
    return json.dumps(value, indent=1, sort_keys=True).splitlines()
