"""Leaving a cluster, broken off before and after every single write: the next call goes on, and the end is the same."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from applier.kube.cluster import KubeCluster
from applier.sandbox.api import Sandbox
from applier.sandbox.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.clock import SystemClock
from gitops.reconcile import Reconciler
from gitops.record import read_records
from gitops.sources import SourceState
from gitops.uninstall import Leaver
from renderer.catalog import load
from tests.scenarios.definitions import chain, config_map, link

NAMESPACE = "default"


class KilledError(BaseException):
    """The process is gone; nothing can catch it."""


class Door:
    """A sandbox that kills who calls it at the n-th write, before or after it is carried out."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(clock=lambda: 1e9)
        self.writes = 0
        self.last: int | None = None
        self.carried_out = False

    async def answer(self, request: Request) -> Response:
        if request.method == "GET":
            return self.sandbox.handle(request)
        if self.last is not None and self.writes >= self.last:
            if self.carried_out:
                self.sandbox.handle(request)
            raise KilledError
        self.writes += 1
        return self.sandbox.handle(request)

    @property
    def cluster(self) -> KubeCluster:
        return cluster_of(self.answer, concurrency=1)

    def objects(self) -> list[dict[str, Any]]:
        """All that is stored, but for what the server counts."""
        found = []
        for path in (
            "/api/v1/namespaces",
            "/api/v1/configmaps",
            "/apis/apps/v1/controllerrevisions",
            "/apis/g.test/v1/chains",
        ):
            listed = json.loads(self.sandbox.handle(Request("GET", path)).body)
            for item in listed.get("items", []):
                for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
                    item["metadata"].pop(name, None)
                found.append(item)
        return found


def installed() -> Door:
    door = Door()
    files = {
        "chain.yaml": chain("g.test", "ab"),
        "one.yaml": link("g.test", NAMESPACE),
        "plain.yaml": config_map(NAMESPACE, "p", a="b"),
    }
    state = SourceState(load({name: text.encode() for name, text in files.items()}, source="s", revision="1" * 40))
    for _ in range(3):
        asyncio.run(Reconciler(door.cluster, "0.1.0", SystemClock()).reconcile([state]))
    assert "one-b" in str(door.objects())
    return door


async def leave(door: Door, *, with_workloads: bool) -> None:
    leaver = Leaver(door.cluster)
    if with_workloads:
        records = dict(await read_records(door.cluster))
        await leaver.remove(records, SystemClock(), version="0.1.0", wait=timedelta())
    left, errors = await leaver.leave()
    assert (left.is_empty, errors) == (True, [])


@pytest.mark.parametrize("with_workloads", [False, True], ids=["release", "with-workloads"])
def test_it_may_be_killed_at_every_write(*, with_workloads: bool) -> None:
    """Enumerated: each write, before and after it was carried out."""
    whole = installed()
    before = whole.writes
    asyncio.run(leave(whole, with_workloads=with_workloads))
    whole.sandbox.settle()
    wanted, points = whole.objects(), whole.writes - before
    assert "levelgate-system" not in str(wanted)
    assert ("one-b" in str(wanted)) is not with_workloads
    assert points > 8
    for point in range(points):
        for carried_out in (False, True):
            door = installed()
            door.writes, door.last, door.carried_out = 0, point, carried_out
            with pytest.raises(KilledError):
                asyncio.run(leave(door, with_workloads=with_workloads))
            door.last = None
            door.sandbox.settle()
            asyncio.run(leave(door, with_workloads=with_workloads))
            door.sandbox.settle()
            assert door.objects() == wanted, (point, carried_out)
