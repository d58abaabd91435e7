"""A sandbox whose caller is killed at a chosen write, for tests that enumerate where a program may die."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import copy
from itertools import count
from typing import Any

from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from tests.support.platform import copy_of

NAMESPACE, GROUP = "default", "g.test"
_PATHS = (
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/apis/apps/v1/controllerrevisions",
    f"/apis/{GROUP}/v1/chains",
)


class KilledError(BaseException):
    """The process is gone; nothing can catch it."""


class KillableSandbox:
    """A sandbox that kills who calls it at write number `last`, counted from 0, before or after it is `carried_out`."""

    def __init__(self, before: KillableSandbox | None = None) -> None:
        """Copy the sandbox *before*, if there is one; the two then differ independently."""
        self._numbers: count[int] = copy(before._numbers) if before else count()
        self.sandbox: Sandbox = Sandbox(
            clock=lambda: 1e9,
            new_uid=lambda: f"uid-{next(self._numbers)}",
            store=copy_of(before.sandbox.state.store) if before else None,
        )
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

    def kill_at(self, last: int, *, carried_out: bool) -> None:
        self.writes, self.last, self.carried_out = 0, last, carried_out

    @property
    def cluster(self) -> KubeCluster:
        """A new one: what a process knows dies with it."""
        return cluster_of(self.answer, concurrency=1)

    def left(self) -> list[bytes]:
        """Everything that another process could find, to tell it from what else may be left."""
        store = self.sandbox.state.store
        return [one.content for name in store.resources() for one in store.resource_store(name).objects.values()]

    def objects(self) -> list[dict[str, Any]]:
        """All that is stored, but for what the server counts."""
        found = []
        for path in _PATHS:
            listed = json.loads(self.sandbox.handle(Request("GET", path)).body)
            for item in listed.get("items", []):
                for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
                    item["metadata"].pop(name, None)
                found.append(item)
        return found


def deaths(begun: KillableSandbox, act: Callable[[KillableSandbox], object]) -> Iterator[tuple[KillableSandbox, str]]:
    """What `act` leaves behind when it is killed at each of its writes, before and after that was carried out; with the words for it. What one
    death leaves after a write is mostly what another one leaves before the next: the same is not given twice.
    """
    seen: list[list[bytes]] = []
    for point in count():
        for carried_out in (False, True):
            door = KillableSandbox(begun)
            door.kill_at(point, carried_out=carried_out)
            try:
                act(door)
            except KilledError:
                door.last = None
            else:
                assert seen, "nothing is written"
                return
            if (left := door.left()) not in seen:
                seen.append(left)
                yield door, f"killed {'after' if carried_out else 'before'} write {point}"
