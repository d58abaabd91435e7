"""Collections on a real cluster: one object for each item, and references that select objects by their labels."""

from __future__ import annotations

import json

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import link
from tests.support.scenarios.collections import config_map, data, fleet

WORKERS = config_map("workers", "w-${name}", {"name": "${name}"}, forEach=[{"name": "${schema.spec.names}"}])
STATUS = {
    "workers": "${size(workers)}",
    "conditions": [
        "${runtime.newCondition({type: 'Staffed', status: size(workers) > 0 ? 'True' : 'False', reason: 'Workers'})}",
        "${workers.map(w, runtime.newCondition({type: 'Has-' + w.data.name, status: 'True', reason: 'Here'}))}",
    ],
}
READER = config_map("reader", "reader", {"names": "${workers.map(w, w.data.name).join(',')}"})


def test_a_collection_grows_and_shrinks_by_the_items_that_come_and_go(platform: CommandPlatform) -> None:
    """Other items are not written when the size changes, although their indexes shift."""

    def desire(*names: str) -> None:
        chain = link(platform.group, platform.namespace, names=list(names))
        platform.repository.commit(
            {"def.json": fleet(platform.group, WORKERS, READER, status=STATUS), "one.json": chain}
        )

    def writes(since: int) -> list[tuple[str, str]]:
        events = platform.writes(since)
        return [
            (event.verb, event.name)
            for event in events
            if event.resource == "configmaps" and event.namespace == platform.namespace
        ]

    desire("a", "b", "c")
    mark = platform.audit.mark()
    platform.run_once(check=0)
    assert sorted(writes(mark)[:3]) == [("patch", "w-a"), ("patch", "w-b"), ("patch", "w-c")]
    assert writes(mark)[3:] == [("patch", "reader")]
    assert data(platform, "reader") == {"names": "a,b,c"}

    desire("b", "c", "d")
    mark = platform.audit.mark()
    platform.run_once(check=0)
    twice = [("patch", "reader")] * 2  # its content; then its record, that it depends on w-a no more
    assert writes(mark) == [("patch", "w-d"), *twice, ("delete", "w-a")]
    status = json.loads(
        platform.kubectl("get", f"chains.{platform.group}", "one", "-n", platform.namespace, "-o", "jsonpath={.status}")
    )
    assert status["workers"] == 3
    assert [one["type"] for one in status["conditions"]] == [
        "Staffed",
        "Has-b",
        "Has-c",
        "Has-d",
        "Healthy",
        "Propagated",
    ]

    mark = platform.audit.mark()
    platform.run_once(check=0)
    assert platform.writes(mark) == []

    desire()
    platform.run_once(check=0)
    assert data(platform, "reader") == {"names": ""}
    assert "w-" not in platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "name")


def test_a_reference_follows_the_objects_that_carry_its_labels(platform: CommandPlatform) -> None:
    """An empty list is a value; a later pass sees what came."""
    found = {
        "id": "found",
        "externalRef": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"selector": {"matchLabels": {"team": "blue"}}, "namespace": "${schema.metadata.namespace}"},
        },
    }
    reader = config_map("reader", "reader", {"names": "${found.map(f, f.metadata.name).join(',')}"})
    platform.repository.commit(
        {"def.json": fleet(platform.group, found, reader), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once(check=0)
    assert data(platform, "reader") == {"names": ""}

    for name in ("q", "p", "other"):
        platform.kubectl("create", "configmap", name, "-n", platform.namespace)
    for name in ("q", "p"):
        platform.kubectl("label", "configmap", name, "-n", platform.namespace, "team=blue")
    platform.run_once(check=0)
    assert data(platform, "reader") == {"names": "p,q"}

    platform.repository.commit({"one.json": None})
    platform.run_once(check=0)
    left = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "name").split()
    assert {"configmap/p", "configmap/q"} <= set(left)
    assert "configmap/reader" not in left
