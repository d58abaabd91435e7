"""The world that a simulation runs in: a sandbox, a clock that jumps, and what the repository takes for granted of a cluster.

Namespaces that no manifest holds exist as soon as something is written to them; kinds that nothing describes are served without a schema. Events are
taken and not kept, as nobody reads them, and nobody is told who owns what of a status.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from applier.cluster import Cluster, Object, WatchEvent, WatchTarget
from applier.errors import ClusterError
from applier.read.watches import Watches
from applier.sandbox.api.request_path import address, segments
from applier.sandbox.controllers.workloads import Script
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store, StoredKey, StoreEvent
from applier.sandbox.wire import Request, Response
from gitops.reconcile.incremental.interests import is_watched
from gitops.sandbox import evaluate
from gitops.simulate.assumptions import AssumedBehaviour, Assumptions
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, group_kind
from renderer.schema.plurals import plural

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AT_ONCE: Final = Script()
_JSON: Final = {"content-type": "application/json", "user-agent": "levelgate-simulate"}


@dataclass(slots=True)
class VirtualClock:
    """Shows `moment` until somebody moves it."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class SimulatedCluster:
    """A cluster that holds nothing yet. Everything gets ready at once until `assume` is called."""

    clock: VirtualClock
    seed: int = 0
    served: set[GroupKind] = field(default_factory=set)
    _assumed: AssumedBehaviour | None = None
    _events: list[StoreEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.sandbox: Sandbox = Sandbox(
            evaluate=evaluate,
            clock=self.clock.seconds,
            store=Store(journal=self._events.append),
            new_uid=lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            script=_AT_ONCE,
        )
        self.cluster: Cluster = cluster_of(
            self._door, name="simulation", concurrency=1, sleep=self.clock.sleep, rng=chance.random
        )

    def assume(self, assumptions: Assumptions) -> None:
        """From now on workloads behave like this."""
        assert self.sandbox.workloads
        self._assumed = self.sandbox.workloads.script = AssumedBehaviour(assumptions, self._owner)

    @property
    def unmet(self) -> list[str]:
        """Patterns of the assumptions that named no object."""
        if self._assumed is None:
            return []
        rules = self._assumed.assumptions.rules
        return [f"{word}={pattern}" for word, pattern in rules if pattern not in self._assumed.met]

    @property
    def due(self) -> datetime | None:
        """When time brings a workload further; None: it never does."""
        assert self.sandbox.workloads
        moment = self.sandbox.workloads.due()
        return None if moment is None else datetime.fromtimestamp(moment, UTC)

    def watches(
        self,
        cluster: Cluster,
        changed: Callable[[WatchEvent], None],
        begun: Callable[[WatchTarget], None],
        failed: Callable[[WatchTarget, ClusterError], None],
    ) -> Watches:
        """Who is told by `settle`."""
        self._told = _Told(cluster, changed, begun, failed)
        return self._told

    def settle(self) -> None:
        """Do what controllers do at this time, then tell of all that has changed since the last time."""
        self.sandbox.settle()
        events, self._events[:] = self._events.copy(), ()
        for event in events:
            if kind := self.sandbox.state.kinds.stored(event.after.key.resource):
                typed = {"apiVersion": kind.api_version, "kind": kind.kind}
                self._told.tell(WatchEvent({**typed, **event.after.object()}, event.type == "DELETED"))

    def get(self, key: ObjectKey) -> Object | None:
        """An object as it is now, without apiVersion and kind."""
        kinds = (one for one in self.sandbox.state.kinds if (one.group, one.kind) == (key.group, key.kind))
        kind = next(kinds, None)
        stored = self.sandbox.state.store.get(kind.key(key.namespace, key.name)) if kind else None
        return stored.object() if stored else None

    def serve(self, catalog: Catalog) -> None:
        """Serve the kinds that this commit uses and neither it nor Kubernetes describes, such as those of an operator that is installed otherwise."""
        for kind, version in sorted(set(_used(catalog))):
            described = kind in catalog.definitions or kind in catalog.broken or kind in catalog.types.described
            if described or kind in self.served or self._is_served(kind):
                continue
            self.served.add(kind)
            body = orjson.dumps(_open_kind(kind, version))
            self.sandbox.handle(Request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _JSON, body))

    def _is_served(self, kind: GroupKind) -> bool:
        return any((known.group, known.kind) == (kind.group, kind.kind) for known in self.sandbox.state.kinds)

    async def _door(self, request: Request) -> Response:
        path = segments(request.target) if request.method != "GET" else []
        if "events" in path:
            return Response(201, request.body)
        name = path[path.index("namespaces") + 1] if "namespaces" in path[:-2] else ""
        if name and self.sandbox.state.store.get(StoredKey("namespaces", "", name)) is None:
            body = orjson.dumps({"metadata": {"name": name}})
            self.sandbox.handle(Request("POST", "/api/v1/namespaces", _JSON, body))
        laid = self._laid(request) if path[-1:] == ["status"] else None
        return laid or self.sandbox.handle(request)

    def _laid(self, request: Request) -> Response | None:
        """The answer to a status that took the place of the one before, as an apply would have left it: there is nothing to merge, as nobody else
        writes any. None leaves it to the server to say what is wrong with it.
        """
        where, state = address(request), self.sandbox.state
        kind = state.kinds.find(where.group, where.version, where.plural)
        live = state.read(kind, kind.key(where.namespace, where.name)) if kind else None
        if not (kind and live):
            return None
        laid = {**live, "status": orjson.loads(request.body)["status"]}
        if kind.model.validate(laid, live):
            return None
        if laid != live:
            state.write(kind.key(where.namespace, where.name), laid)
        return Response(200, orjson.dumps(laid))

    def _owner(self, key: StoredKey) -> str:
        stored = self.sandbox.state.store.get(key)
        metadata: Mapping[str, Any] = stored.object()["metadata"] if stored else {}
        found: str = (metadata.get("annotations") or {}).get(well_known.INSTANCE, "")
        return found


@dataclass
class _Told(Watches):
    """Watches that hear of what has changed when they are told, and wait for nothing."""

    _wanted: dict[GroupKind, list[WatchTarget]] = field(default_factory=dict)

    async def want(self, subjects: Collection[WatchTarget]) -> None:
        self._wanted = {}
        for subject in subjects:
            self._wanted.setdefault(subject.kind, []).append(subject)

    def tell(self, change: WatchEvent) -> None:
        wanted = self._wanted.get(group_kind(change.object), ())
        if any(is_watched(subject, change.object) for subject in wanted):
            self.changed(change)


def _used(catalog: Catalog) -> Iterator[tuple[GroupKind, str]]:
    """Kinds of objects and of templates, with their versions."""
    templates: Iterable[Mapping[str, Any]] = (
        resource.get("template") or resource.get("externalRef") or {}
        for definition in catalog.definitions.values()
        for resource in definition.manifest["spec"]["resources"]
    )
    for manifest in (*(declared.manifest for declared in catalog.objects), *templates):
        _, separator, version = str(manifest.get("apiVersion", "")).partition("/")
        if separator and version:
            yield group_kind(manifest), version


def _open_kind(kind: GroupKind, version: str) -> Mapping[str, Any]:
    name = plural(kind.kind.lower())
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{kind.group}", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": name},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _ANYTHING},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
