"""The harness killed at each of its writes, for tests that enumerate where a program may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from applier.cluster import Cluster
from applier.sandbox.endpoints.transport import RequestHandler, cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from tests.support.platform import Died, Platform

NAMESPACE, GROUP = "default", "g.test"
_PATHS = (
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/apis/apps/v1/controllerrevisions",
    f"/apis/{GROUP}/v1/chains",
)


@dataclass
class KillablePlatform(Platform):
    """A platform whose histories repeat: uids are numbers, and the process sends one request at a time."""

    uids: count[int] = field(default_factory=count)

    def new_sandbox(self, store: Store | None = None) -> Sandbox:
        return Sandbox(clock=self.clock.seconds, new_uid=lambda: f"uid-{next(self.uids)}", store=store)

    def connect(self, door: RequestHandler) -> Cluster:
        return cluster_of(door, concurrency=1)

    def _copied_fields(self) -> dict[str, Any]:
        return {**super()._copied_fields(), "uids": copy(self.uids)}

    def objects(self) -> list[dict[str, Any]]:
        """Return all that is stored, without what the server counts."""
        found = []
        for path in _PATHS:
            for item in (self.find(path) or {"items": ()})["items"]:
                for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
                    item["metadata"].pop(name, None)
                found.append(item)
        return found


P = TypeVar("P", bound=Platform)


def deaths(begun: P, act: Callable[[P], object]) -> Iterator[tuple[P, str]]:
    """Yield what `act` leaves if it is killed at each of its writes, before and after the write, with words for it.

    A death after a write mostly leaves what a death before the next write leaves; equal states are yielded once.
    """
    seen: list[list[bytes]] = []
    for point in count():
        for is_done in (False, True):
            with begun.copied() as platform:
                platform.dies_at = platform.writes + point, is_done
                try:
                    act(platform)
                except Died:
                    platform.dies_at = None
                    platform.restart()
                else:
                    assert seen, "nothing is written"
                    return
                if (left := _contents(platform)) not in seen:
                    seen.append(left)
                    yield platform, f"killed {'after' if is_done else 'before'} write {point}"


def _contents(platform: Platform) -> list[bytes]:
    store = platform.sandbox.state.store
    return [one.content for name in store.resources() for one in store.resource_store(name).objects.values()]
