"""Watches: what they tell, how they go on, and when they say that something was missed (Kubernetes API concepts; apply-and-prune 2.9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from applier.cluster import Object, WatchTarget
from applier.errors import ClusterError, Denied, Unavailable
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from renderer.identity import GroupKind, ObjectKey
from tests.support.scripted_server import Reply, refusal, scripted

KIND = GroupKind("", "ConfigMap")
PATH = "/api/v1/configmaps"
FIRST = Reply(body={"kind": "List", "metadata": {"resourceVersion": "7"}, "items": []})


EXPIRED = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}\n'


def event(kind: str, version: str, name: str = "a") -> bytes:
    metadata = {"name": name, "namespace": "prod", "resourceVersion": version}
    return orjson.dumps({"type": kind, "object": {"kind": "PartialObjectMetadata", "metadata": metadata}}) + b"\n"


def stream(*events: bytes) -> Reply:
    return Reply(body=b"".join(events).decode())


async def heard(cluster: KubeCluster) -> tuple[list[str], ClusterError | None]:
    found: list[str] = []
    try:
        async with cluster.watch(WatchTarget(KIND)) as changes:
            async for one in changes:
                version = one.object["metadata"]["resourceVersion"]
                found.append(f"-{version}" if one.deleted else f"+{version}")
    except ClusterError as error:
        return found, error
    raise AssertionError("a watch does not end by itself")


async def test_it_goes_on_from_the_last_version_where_the_server_ends_it(tmp_path: Path) -> None:
    """A bookmark, which is asked for, moves the version as well; the first version is the list's, not that of an item."""
    async with scripted(tmp_path) as (server, cluster):
        server.script(
            PATH,
            FIRST,
            stream(event("ADDED", "8"), event("BOOKMARK", "9")),
            stream(event("DELETED", "12")),
            refusal(410),
        )
        found, error = await heard(cluster)
        assert (found, error and error.status) == (["+8", "-12"], 410)
        assert [seen.query.get("resourceVersion") for seen in server.requests(PATH)] == [None, "7", "9", "12"]
        assert [seen.query.get("allowWatchBookmarks") for seen in server.requests(PATH)] == [
            None,
            "true",
            "true",
            "true",
        ]
        assert all("as=PartialObjectMetadata" in seen.headers["Accept"] for seen in server.requests(PATH))


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (stream(event("ADDED", "8"), EXPIRED), "too old"),
        (stream(event("ADDED", "8"), b"<html>\n"), "malformed event"),
        (stream(event("ADDED", "8"), b'{"type": "ADDED", "object": {}}\n'), "malformed event"),
    ],
)
async def test_it_says_that_something_was_missed(tmp_path: Path, answer: Reply, wanted: str) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, FIRST, answer)
        found, error = await heard(cluster)
        assert found == ["+8"]
        assert wanted in str(error)


async def test_a_server_that_ends_it_at_once_is_not_asked_for_ever(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, FIRST, stream())
        _, error = await heard(cluster)
        assert isinstance(error, Unavailable)
        assert len(server.requests(PATH)) == 2


async def test_a_server_that_says_nothing_any_more_counts_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault row "silent watch": not even a bookmark."""
    monkeypatch.setattr("applier.kube.watch.WATCH_SILENCE_SECONDS", 0.05)
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, FIRST, stream())
        async with cluster.watch(WatchTarget(KIND)) as changes:
            server.gate = asyncio.Event()
            with pytest.raises(Unavailable, match="no answer within"):
                await anext(changes)
        server.gate.set()


async def test_who_may_not_watch_is_told(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, FIRST, refusal(403, reason="Forbidden", message="cannot watch"))
        assert isinstance((await heard(cluster))[1], Denied)


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.cluster), "sandbox"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[tuple[KubeCluster, str]]:
    """A cluster and a namespace in it."""
    if request.param == "real":
        found = await connect(kubeconfig=str(request.getfixturevalue("kubeconfig")))
        namespace = request.getfixturevalue("namespace")
    else:
        found, namespace = cluster_of(Sandbox().answer), "default"
    yield found, namespace
    await found.close()


def config_map(namespace: str, name: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


async def test_what_happens_is_told_as_it_happens(cluster: tuple[KubeCluster, str]) -> None:
    """Of the selected objects alone, and of these the metadata."""
    server, namespace = cluster
    before = await server.apply(config_map(namespace, "old", team="a"), manager="test")
    async with server.watch(WatchTarget(KIND, namespace, "team=a")) as changes:
        await server.apply(config_map(namespace, "other", team="b"), manager="test")
        made = await server.apply(config_map(namespace, "new", team="a"), manager="test")
        first = await asyncio.wait_for(anext(changes), 60)
        assert (first.deleted, first.object["metadata"]["resourceVersion"]) == (
            False,
            made["metadata"]["resourceVersion"],
        )
        assert (first.object["apiVersion"], first.object["kind"], first.object.get("data")) == ("v1", "ConfigMap", None)
        key = ObjectKey.from_manifest(before)
        await server.delete(key, uid=before["metadata"]["uid"], resource_version=None)
        gone = await asyncio.wait_for(anext(changes), 60)
        assert (gone.deleted, ObjectKey.from_manifest(gone.object)) == (True, key)


async def test_one_object_can_be_watched_by_its_name(cluster: tuple[KubeCluster, str]) -> None:
    server, namespace = cluster
    async with server.watch(WatchTarget(KIND, namespace, name="one")) as changes:
        for name in ("other", "one"):
            await server.apply(config_map(namespace, name), manager="test")
        found = await asyncio.wait_for(anext(changes), 60)
        assert found.object["metadata"]["name"] == "one"
