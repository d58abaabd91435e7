"""The cluster of a simulation: a sandbox with a clock that jumps.

The cluster provides what a repository presupposes:

- If a Namespace has no manifest, the first write into the Namespace creates it.
- If neither the commit nor Kubernetes describes a kind, the cluster serves the kind without a schema.

A simulation reads neither Kubernetes Events nor the managed fields of statuses, so the cluster stores neither. While
the cluster applies the base commit, all windows are open.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from applier.cluster import Cluster, Object, WatchEvent, WatchTarget
from applier.errors import ClusterError
from applier.read.watches import Watches
from applier.sandbox.api.request_path import parse_request_path, path_segments
from applier.sandbox.controllers.workloads import WorkloadScript
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store, StoredKey, StoreEvent
from applier.sandbox.wire import Request, Response
from applier.state.observed import annotation
from gitops.reconcile.incremental.interests import is_watched
from gitops.sandbox import evaluate_cel
from gitops.simulate.assumptions import AssumedBehaviour, Assumptions
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, group_kind
from renderer.kinds import WINDOW
from renderer.schema.plurals import plural

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_IMMEDIATE: Final = WorkloadScript()
_JSON: Final = {"content-type": "application/json", "user-agent": "levelgate-simulate"}


@dataclass(slots=True)
class VirtualClock:
    """Clock that shows `moment`. A sleep advances the clock at once, without waiting."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class SimulatedCluster:
    """Simulated cluster, empty at first. Before the first call of `assume`, workloads are ready at once."""

    clock: VirtualClock
    seed: int = 0
    added_kinds: set[GroupKind] = field(default_factory=set)
    _behaviour: AssumedBehaviour | None = None
    _events: list[StoreEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.sandbox: Sandbox = Sandbox(
            evaluate=evaluate_cel,
            clock=self.clock.seconds,
            store=Store(journal=self._events.append),
            new_uid=lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            script=_IMMEDIATE,
        )
        self.cluster: Cluster = cluster_of(
            self._handle_request, name="simulation", concurrency=1, sleep=self.clock.sleep, rng=rng.random
        )

    def assume(self, assumptions: Assumptions) -> None:
        """Let workloads behave as `assumptions` describe, from now on."""
        assert self.sandbox.workloads
        self._behaviour = self.sandbox.workloads.script = AssumedBehaviour(assumptions, self._owning_instance)

    @property
    def unmatched_patterns(self) -> list[str]:
        """Return the rules of the assumptions whose pattern has not matched any object, such as `hang=prod/db-*`."""
        if self._behaviour is None:
            return []
        return [
            f"{word}={pattern}"
            for word, pattern in self._behaviour.assumptions.rules
            if pattern not in self._behaviour.matched_patterns
        ]

    @property
    def next_workload_change(self) -> datetime | None:
        """Return the time of the next change of a workload, or None if no change is due."""
        assert self.sandbox.workloads
        moment = self.sandbox.workloads.next_change_time()
        return None if moment is None else datetime.fromtimestamp(moment, UTC)

    def create_watches(
        self,
        cluster: Cluster,
        changed: Callable[[WatchEvent], None],
        begun: Callable[[WatchTarget], None],
        failed: Callable[[WatchTarget, ClusterError], None],
    ) -> Watches:
        """Return new watches, to which `settle` sends the events of the sandbox."""
        self._watches = _ManualWatches(cluster, changed, begun, failed)
        return self._watches

    def settle(self) -> None:
        """Run the sandbox's controllers until no object changes, then send the watch events since the last call."""
        self.sandbox.tick_until_stable()
        events, self._events[:] = self._events.copy(), ()
        for event in events:
            if kind := self.sandbox.state.kinds.find_resource(event.after.key.resource):
                typed = {"apiVersion": kind.api_version, "kind": kind.kind}
                self._watches.notify(WatchEvent({**typed, **event.after.to_object()}, event.type == "DELETED"))

    def get(self, key: ObjectKey) -> Object | None:
        """Return the live object, without apiVersion and kind, or None if the object does not exist."""
        kind = self._find_served_kind(key.group_kind)
        stored = self.sandbox.state.store.get(kind.key(key.namespace, key.name)) if kind else None
        return stored.to_object() if stored else None

    def serve(self, catalog: Catalog) -> None:
        """Serve the kinds that a commit uses and that neither the commit nor Kubernetes describes, without a schema.

        A kind of this sort belongs to an operator that the repository does not install.
        """
        for kind, version in sorted(set(_used_kinds(catalog))):
            described = kind in catalog.definitions or kind in catalog.broken or kind in catalog.types.described
            if described or kind in self.added_kinds or self._find_served_kind(kind):
                continue
            self.added_kinds.add(kind)
            body = orjson.dumps(_open_kind(kind, version))
            self.sandbox.handle(Request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _JSON, body))

    def _find_served_kind(self, kind: GroupKind) -> ServedKind | None:
        return next((served for served in self.sandbox.state.kinds if (served.group, served.kind) == kind), None)

    async def _handle_request(self, request: Request) -> Response:
        """Answer a request. Discard a Kubernetes Event.

        Before a write into a missing Namespace, create the Namespace.
        """
        path = path_segments(request.target) if request.method != "GET" else []
        if "events" in path:
            return Response(201, request.body)
        name = path[path.index("namespaces") + 1] if "namespaces" in path[:-2] else ""
        if name and self.sandbox.state.store.get(StoredKey("namespaces", "", name)) is None:
            body = orjson.dumps({"metadata": {"name": name}})
            self.sandbox.handle(Request("POST", "/api/v1/namespaces", _JSON, body))
        response = self._replace_status(request) if path[-1:] == ["status"] else None
        return response or self.sandbox.handle(request)

    def _replace_status(self, request: Request) -> Response | None:
        """Replace a status and return the response, or return None if the object is missing or the status is invalid.

        An apply would have the same result, because no other manager owns a status. If the result is None, the sandbox
        handles the request, and its answer contains the reason.
        """
        request_path, state = parse_request_path(request), self.sandbox.state
        kind = state.kinds.find(request_path.group, request_path.version, request_path.plural)
        live = state.read(kind, kind.key(request_path.namespace, request_path.name)) if kind else None
        if not (kind and live):
            return None
        updated = {**live, "status": orjson.loads(request.body)["status"]}
        if kind.model.validate(updated, live):
            return None
        if updated != live:
            state.write(kind.key(request_path.namespace, request_path.name), updated)
        return Response(200, orjson.dumps(updated))

    def _owning_instance(self, key: StoredKey) -> str:
        stored = self.sandbox.state.store.get(key)
        return annotation(stored.to_object(), well_known.INSTANCE) if stored else ""


@dataclass
class _ManualWatches(Watches):
    """Watches to which `notify` passes events, without connections or delays."""

    _targets: dict[GroupKind, list[WatchTarget]] = field(default_factory=dict)

    async def set_targets(self, subjects: Collection[WatchTarget], served_kinds: Container[GroupKind]) -> None:
        self._targets = {}
        for subject in subjects:
            self._targets.setdefault(subject.kind, []).append(subject)

    def notify(self, change: WatchEvent) -> None:
        if any(is_watched(subject, change.object) for subject in self._targets.get(group_kind(change.object), ())):
            self.on_change(change)


def _used_kinds(catalog: Catalog) -> Iterator[tuple[GroupKind, str]]:
    """Yield the kind and version of each object and template in a commit, except the kinds of the core API group."""
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
    """Return a CRD for a namespaced kind, with a schema that accepts any content."""
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


_ALWAYS_ACTIVE: Final = {"once": [{"start": "1970-01-01T00:00", "end": "2400-01-01T00:00"}]}
_NEVER_ACTIVE: Final = {"once": [{"start": "1970-01-01T00:00", "end": "1970-01-02T00:00"}]}


def open_windows(catalog: Catalog) -> Catalog:
    """Return the commit with every window open and no policy. Windows keep their names, because gates may use them."""
    return replace(
        catalog, rules=tuple(_without_effect(rule) for rule in catalog.rules if rule.group_kind.kind == WINDOW)
    )


def _without_effect(rule: DeclaredObject) -> DeclaredObject:
    """Return a window that permits every change: an Allow that is always active, or a Deny that is never active."""
    spec: Mapping[str, Any] = rule.manifest.get("spec") or {}
    kept_fields = {name: spec[name] for name in ("kind", "timeZone") if name in spec}
    schedule = _ALWAYS_ACTIVE if spec.get("kind") == "Allow" else _NEVER_ACTIVE
    return replace(rule, manifest={**rule.manifest, "spec": {**kept_fields, "schedule": schedule}})
