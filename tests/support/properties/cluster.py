"""The cluster of the properties: a sandbox, every write of which is seen, and at any of which the process may die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import orjson

from applier.cluster import Object
from applier.kube.cluster import KubeCluster
from applier.kube.discovery import DiscoveryCache
from applier.kube.transport_port import NotSentError
from applier.sandbox.api.request_bodies import APPLY_PATCH, media_type
from applier.sandbox.api.request_path import parse_request_path
from applier.sandbox.api.state import with_type_meta
from applier.sandbox.controllers.workloads import WorkloadScript
from applier.sandbox.endpoints.transport import SandboxTransport
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import StoredKey, StoredObject
from applier.sandbox.wire import ConnectionDroppedError, Request, Response
from renderer.identity import ObjectKey

MOST_READS = 20_000
_SERVERS_OWN = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})


class Crash(BaseException):
    """The process died: nothing after this reaches the cluster until `revive`."""


@dataclass(frozen=True, slots=True)
class ClusterWrite:
    """One write request that was carried out: `apply`, `merge` or `delete`. `changed` is false where the server found
    nothing to store.
    """

    verb: str
    key: ObjectKey
    manager: str
    changed: bool
    before: Object | None = field(repr=False)
    after: Object | None = field(repr=False)


class WitnessedCluster(KubeCluster):
    """`faults` maps the number of a write request, from 0 since `revive`, to what befalls it: `before` and `after` kill the
    process there, `unavailable` refuses it, `unknown` carries it out and loses the answer. `witness` is called after every
    write carried out. `pause` says how often a request gives way to others, so that answers come in any order.

    Controllers work after every write if they are `instant`, else when `tick` is called.
    """

    def __init__(self, *, instant: bool = True, pause: Callable[[], int] = lambda: 0) -> None:
        numbers = count(1)
        self.sandbox = Sandbox(
            clock=lambda: 1_767_225_600.0,  # The first of January 2026, before any time that a platform tells.
            new_uid=lambda: f"uid-{next(numbers)}",
            script=WorkloadScript(),
            serve_immediately=instant,
        )
        self.faults: Mapping[int, str] = {}
        self.writes: list[ClusterWrite] = []
        self.sent = 0
        self.reads = 0
        self.dead = False
        self.witness: Callable[[ClusterWrite], None] = lambda _: None
        self._instant = instant
        self._pause = pause
        self._objects: dict[StoredKey, tuple[StoredObject, ObjectKey, Object]] = {}
        transport = SandboxTransport(self._answer, "memory")
        super().__init__(transport, concurrency=16, sleep=_at_once, rng=random.Random(1).random)
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})

    # ---- what tests do

    def revive(self, faults: Mapping[int, str] | None = None) -> None:
        """Start a new process: it remembers nothing of discovery, and counts writes from 0."""
        self._discovery = DiscoveryCache(self._client)
        self.go_on(faults)

    def go_on(self, faults: Mapping[int, str] | None = None) -> None:
        """Let the same process reconcile again: discovery is remembered."""
        self.dead, self.sent, self.reads, self.faults = False, 0, 0, faults or {}

    @property
    def objects(self) -> dict[ObjectKey, Object]:
        """Everything stored, as read. Not to be changed."""
        state, found = self.sandbox.state, {}
        for resource in state.store.resources():
            kind = state.kinds.find_resource(resource)
            for stored in state.store.resource_store(resource).objects.values() if kind else ():
                known = self._objects.get(stored.key)
                if known is None or known[0] is not stored:
                    assert kind
                    obj = with_type_meta(kind, stored)
                    known = self._objects[stored.key] = (stored, ObjectKey.from_manifest(obj), obj)
                found[known[1]] = known[2]
        return found

    def put(self, manifest: Object, *, manager: str = "somebody") -> None:
        """Create or change an object as another client."""
        kind, key = self._placed(ObjectKey.from_manifest(manifest))
        if key.namespace and not self.sandbox.state.store.get(StoredKey("namespaces", "", key.namespace)):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}})
        metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVERS_OWN}
        many = _path(kind, key.namespace)
        body = orjson.dumps({**manifest, "metadata": metadata})
        if self.sandbox.state.store.get(key):
            headers = {"content-type": "application/merge-patch+json"}
            self._by_hand(Request("PATCH", f"{many}/{key.name}?fieldManager={manager}", headers, body))
        else:
            self._by_hand(Request("POST", f"{many}?fieldManager={manager}", {}, body))

    def apply_by(self, manager: str, key: ObjectKey, content: Object) -> None:
        """Apply by force as another manager, who then owns exactly *content*."""
        kind, place = self._placed(key)
        if self.sandbox.state.store.get(place):
            headers = {"content-type": APPLY_PATCH}
            identity = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": key.name}}
            target = f"{_path(kind, place.namespace)}/{place.name}?fieldManager={manager}&force=true"
            self._by_hand(Request("PATCH", target, headers, orjson.dumps({**identity, **content})))

    def take_away(self, key: ObjectKey) -> None:
        """Delete an object as another client."""
        kind, place = self._placed(key)
        if self.sandbox.state.store.get(place):
            self._by_hand(Request("DELETE", f"{_path(kind, place.namespace)}/{place.name}"))

    def edit(self, key: ObjectKey, change: Callable[[Object], object]) -> None:
        """Change the stored object without any rule of the server."""
        kind, place = self._placed(key)
        obj = self.sandbox.state.read(kind, place)
        assert obj is not None
        change(obj)
        self.sandbox.state.write(place, obj)
        if "deletionTimestamp" in obj["metadata"] and not obj["metadata"].get("finalizers"):
            self.take_away(key)

    def tick(self) -> None:
        """Let controllers catch up."""
        self.sandbox.tick_until_stable()

    # ---- between the client and the sandbox

    async def _answer(self, request: Request) -> Response:
        for _ in range(self._pause()):
            await asyncio.sleep(0)
        if self.dead:
            raise Crash
        if request.method == "GET" or "dryRun=All" in request.target:
            self.reads += 1
            assert self.reads < MOST_READS, "one pass reads without an end"
            return self.sandbox.handle(request)
        fault = self.faults.get(self.sent, "")
        self.sent += 1
        if fault == "before":
            self.dead = True
            raise Crash
        if fault == "unavailable":
            raise NotSentError("refused", is_final=True)
        response = self._written(request)
        if fault == "after":
            self.dead = True
            raise Crash
        if fault == "unknown":
            raise ConnectionDroppedError("the answer was lost", request_sent=True)
        return response

    def _written(self, request: Request) -> Response:
        where = parse_request_path(request)
        kind = self.sandbox.state.kinds.find(where.group, where.version, where.plural)
        place = kind.key(where.namespace, where.name) if kind else None
        before = self._shown(kind, place)
        response = self.sandbox.handle(request)
        if self._instant:
            self.sandbox.tick_until_stable()
        if kind and response.status < 300:
            key = ObjectKey(kind.group, kind.kind, where.namespace, where.name)
            verb = {"DELETE": "delete", "PATCH": "merge"}[request.method]
            after = self._shown(kind, place)
            verb = "apply" if media_type(request) == APPLY_PATCH else verb
            write = ClusterWrite(verb, key, where.query.get("fieldManager", ""), before != after, before, after)
            self.writes.append(write)
            self.witness(write)
        return response

    def _shown(self, kind: ServedKind | None, place: StoredKey | None) -> Object | None:
        stored = self.sandbox.state.store.get(place) if place else None
        return with_type_meta(kind, stored) if kind and stored else None

    def _placed(self, key: ObjectKey) -> tuple[ServedKind, StoredKey]:
        kind = next(one for one in self.sandbox.state.kinds if (one.group, one.kind) == (key.group, key.kind))
        return kind, kind.key(key.namespace, key.name)

    def _by_hand(self, request: Request) -> None:
        response = self.sandbox.handle(request)
        assert response.status < 300, response.body
        if self._instant:
            self.sandbox.tick_until_stable()


async def _at_once(_: float) -> None:
    return


def _path(kind: ServedKind, namespace: str) -> str:
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
