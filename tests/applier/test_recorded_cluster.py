"""A cluster that is only a record answers reads as a server does, and refuses everything else."""

from __future__ import annotations

import pytest

from applier.cluster import CONTENT_MANAGER, Discovery, Object, WatchTarget, parse_cluster_name
from applier.errors import Denied
from applier.recorded_cluster import RecordedCluster
from renderer.identity import GroupKind, ObjectKey

CONFIG_MAP = GroupKind("", "ConfigMap")


def config_map(namespace: str, name: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


OBJECTS = [config_map("prod", "b", tier="web"), config_map("prod", "a"), config_map("dev", "c", tier="db")]
RECORD = RecordedCluster(
    parse_cluster_name("noon"), {ObjectKey.from_manifest(obj): obj for obj in OBJECTS}, Discovery({})
)


@pytest.mark.parametrize(
    ("namespace", "selector", "names"),
    [
        (None, "", ["c", "a", "b"]),
        ("prod", "", ["a", "b"]),
        (None, "tier", ["c", "b"]),
        (None, "tier=web", ["b"]),
        (None, "tier in (web, db),tier!=web", ["c"]),
        ("test", "", []),
    ],
)
async def test_lists_by_namespace_and_selector(namespace: str | None, selector: str, names: list[str]) -> None:
    found = await RECORD.list(CONFIG_MAP, namespace, selector=selector)
    assert [obj["metadata"]["name"] for obj in found] == names


async def test_what_is_not_in_it_is_absent() -> None:
    assert await RECORD.get(ObjectKey("", "ConfigMap", "dev", "c")) == OBJECTS[2]
    assert await RECORD.get(ObjectKey("", "ConfigMap", "dev", "d")) is None
    assert await RECORD.list(GroupKind("", "Secret")) == []


async def test_nothing_can_be_written_or_watched() -> None:
    key = ObjectKey.from_manifest(OBJECTS[0])
    with pytest.raises(Denied, match="noon is a snapshot"):
        await RECORD.apply(OBJECTS[0], manager=CONTENT_MANAGER)
    with pytest.raises(Denied):
        await RECORD.merge(key, {}, manager=CONTENT_MANAGER)
    with pytest.raises(Denied):
        await RECORD.delete(key, uid="u", resource_version=None)
    with pytest.raises(Denied):
        RECORD.watch(WatchTarget(CONFIG_MAP))
