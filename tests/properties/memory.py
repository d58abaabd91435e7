"""A cluster in memory, behind the port `applier.cluster.Cluster`: for properties over thousands of passes.

What it does as an API server does: server-side apply with owners of single fields (conflicts, `force`, removal of what a manager no longer sends),
resourceVersion that stands still when nothing changes, generation, uid and resourceVersion as preconditions, finalizers and deletionTimestamp (an
apply to a terminating object is accepted and lost), ConfigMaps that are immutable, managed fields that a patch replaces, absent and terminating
namespaces, kinds that are served only once their CRD is
established, a cached discovery.

What it is not: there are no schemas (nothing is defaulted, dropped or refused as an unknown field), every list is atomic but for finalizers, there
are no admission, quotas, versions to convert or pages. `tick()` stands for all controllers. It is no proof of how a real server answers; the
scenarios are.
"""

from __future__ import annotations

import asyncio
import builtins
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from applier.cluster import ClusterName, Discovery, Object, Resource
from applier.errors import (
    Cause,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    StaleWrite,
    Unavailable,
    UnknownOutcome,
)
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE

T = TypeVar("T")
Path = tuple[str, ...]
Owner = tuple[str, str, str]
"""Manager, operation, subresource."""

DEPLOYMENT = GroupKind("apps", "Deployment")
ALL_VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})
BUILT_IN = (
    Resource("", "v1", "ConfigMap", "configmaps", True, ALL_VERBS, ("cm",)),
    Resource("", "v1", "Secret", "secrets", True, ALL_VERBS),
    Resource("", "v1", "Service", "services", True, ALL_VERBS),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", True, ALL_VERBS),
    Resource("", "v1", "Namespace", "namespaces", False, ALL_VERBS),
    Resource("apps", "v1", "Deployment", "deployments", True, ALL_VERBS),
    Resource("apps", "v1", "ControllerRevision", "controllerrevisions", True, ALL_VERBS),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, ALL_VERBS),
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, ALL_VERBS),
)
MOST_READS = 20_000
_SERVERS_OWN = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
)


class Crash(BaseException):
    """The process died: nothing after this reaches the cluster until `revive`."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write request that was carried out. `changed` is false where the server found nothing to store."""

    verb: str
    key: ObjectKey
    manager: str
    changed: bool
    before: Object | None = field(repr=False)
    after: Object | None = field(repr=False)


@dataclass
class _Stored:
    obj: Object
    owners: dict[Owner, set[Path]] = field(default_factory=dict)


class MemoryCluster:
    """See the module. `faults` maps the number of a write request, from 0 since `revive`, to what befalls it: `before` and `after` kill the process
    there, `unavailable` refuses it, `unknown` carries it out and loses the answer. `watch` is called after every write carried out. `pause` says
    how often a request gives way to others, so that answers come in any order.
    """

    def __init__(self, *, instant: bool = True, pause: Callable[[], int] = lambda: 0) -> None:
        self.name = ClusterName("memory")
        self.faults: Mapping[int, str] = {}
        self.writes: builtins.list[Write] = []
        self.requests = 0
        self.reads = 0
        self.dead = False
        self.watch: Callable[[Write], None] = lambda _: None
        self._instant = instant
        self._pause = pause
        self._stored: dict[ObjectKey, _Stored] = {}
        self._served_kinds = {resource.group_kind: resource for resource in BUILT_IN}
        self._cached: Discovery | None = None
        self._counter = 0
        for name in ("default", "team"):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    # ---- what tests do

    def revive(self, faults: Mapping[int, str] | None = None) -> None:
        """A new process: nothing is remembered of discovery, writes are counted from 0."""
        self._cached = None
        self.go_on(faults)

    def go_on(self, faults: Mapping[int, str] | None = None) -> None:
        """The same process goes on with another pass: discovery is remembered."""
        self.dead, self.requests, self.reads, self.faults = False, 0, 0, faults or {}

    @property
    def objects(self) -> dict[ObjectKey, Object]:
        """Everything stored, as read."""
        return {key: self._shown(stored) for key, stored in self._stored.items()}

    def put(self, manifest: Object, *, manager: str = "somebody") -> None:
        """Created or replaced by somebody else, with every field taken from its owners."""
        key = ObjectKey.of(manifest)
        stored = self._stored.setdefault(key, _Stored(self._new(manifest)))
        self._assign(stored, _content(manifest), (manager, "Update", ""), force=True)
        self._controlled(key)

    def take_away(self, key: ObjectKey) -> None:
        """`kubectl delete` by somebody else."""
        if key in self._stored:
            self._deleted(key)

    def edit(self, key: ObjectKey, change: Callable[[Object], None]) -> None:
        """Any change of the object as stored, behind the back of every rule."""
        stored = self._stored[key]
        change(stored.obj)
        self._bump(stored)
        self._collect(key)

    def tick(self) -> None:
        """Controllers catch up: CRDs are established, Deployments available, what is going away empties."""
        for key in builtins.list(self._stored):
            if key in self._stored:
                self._controlled(key, late=True)
        for key in builtins.list(self._stored):
            if key in self._stored and key.group_kind in {NAMESPACE, CRD}:
                self._empty(key)

    # ---- the port

    async def discover(self, *, refresh: bool = False) -> Discovery:
        if self._cached is None or refresh:
            self._cached = Discovery(dict(self._served_kinds))
        return self._cached

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        await self._read()

        def ask(_: Resource) -> Object | None:
            stored = self._stored.get(key)
            return self._shown(stored, metadata_only=metadata_only) if stored else None

        return await self._served(key.group_kind, ask)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        await self._read()

        def ask(_: Resource) -> builtins.list[Object]:
            return [
                self._shown(stored, metadata_only=metadata_only)
                for key, stored in sorted(self._stored.items())
                if key.group_kind == kind
                and (namespace is None or key.namespace == namespace)
                and _selected(stored.obj, selector)
            ]

        return await self._served(kind, ask)

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        manifest = _copy(manifest)
        key = ObjectKey.of(manifest)

        def ask(resource: Resource) -> Object:
            if manifest["apiVersion"] != resource.api_version:
                raise KindNotServed(f"{manifest['apiVersion']} is not served")
            _validate(manifest, key)
            stored = self._stored.get(key)
            uid = manifest["metadata"].get("uid")
            if stored is None:
                if uid or subresource:
                    raise (StaleWrite if uid else NotFound)(f"{key}: no existing object was found", status=409)
                self._check_namespace(key, resource)
                stored = _Stored(self._new(manifest))
                self._assign(stored, _content(manifest), (manager, "Apply", ""), force=True)
                self._stored[key] = stored
            else:
                if uid and uid != stored.obj["metadata"]["uid"]:
                    raise StaleWrite(f"{key}: the uid is immutable", status=422)
                if stored.obj.get("immutable") and stored.obj.get("data") != manifest.get("data"):
                    raise Immutable(f"{key}: data: field is immutable when `immutable` is set", status=422)
                content = {"status": manifest.get("status") or {}} if subresource else _content(manifest)
                if not subresource and key.group_kind not in _WITHOUT_STATUS:
                    content.pop("status", None)
                self._assign(stored, content, (manager, "Apply", subresource), force=force)
            self._controlled(key)
            self._collect(key)
            return self._shown(stored)

        return await (self._rehearsed(key, ask) if dry_run else self._write("apply", key, manager, ask))

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        patch = _copy(patch)

        def ask(_: Resource) -> Object | None:
            stored = self._stored.get(key)
            if stored is None:
                return None
            metadata = patch.get("metadata") or {}
            self._check(stored, metadata.pop("uid", None), metadata.pop("resourceVersion", None))
            before = _copy(stored.obj)
            if (entries := metadata.pop("managedFields", None)) is not None:
                stored.owners = {
                    (entry["manager"], entry["operation"], entry.get("subresource", "")): set(_paths(entry["fieldsV1"]))
                    for entry in entries
                }
                self._bump(stored)
                before = _copy(stored.obj)
            _merge(stored.obj, patch)
            present = {path for path, _ in _leaves(_content(stored.obj))}
            for owner, paths in stored.owners.items():
                if owner[:2] != (manager, "Update"):
                    stored.owners[owner] = {
                        path for path in paths if path in present and _at(before, path) == _at(stored.obj, path)
                    }
            if before != stored.obj:
                self._bump(stored)
            self._collect(key)
            return self._shown(stored)

        return await self._write("merge", key, manager, ask)

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        def ask(_: Resource) -> None:
            stored = self._stored.get(key)
            if stored is not None:
                self._check(stored, uid, resource_version)
                self._deleted(key)

        await self._write("delete", key, "", ask)

    async def close(self) -> None:
        return

    # ---- inside

    async def _read(self) -> None:
        await self._give_way()
        self.reads += 1
        assert self.reads < MOST_READS, "one pass reads without an end"
        if self.dead:
            raise Crash

    async def _give_way(self) -> None:
        for _ in range(self._pause()):
            await asyncio.sleep(0)

    async def _served(self, kind: GroupKind, ask: Callable[[Resource], T]) -> T:
        for refresh in (False, True):
            resource = (await self.discover(refresh=refresh)).resources.get(kind)
            if resource and kind in self._served_kinds:
                return ask(resource)
        raise KindNotServed(f"{kind}: the cluster does not serve this kind", status=404)

    async def _rehearsed(self, key: ObjectKey, ask: Callable[[Resource], Object]) -> Object:
        """The answer to a write that is not carried out."""
        await self._read()
        before = copy.deepcopy((self._stored, self._served_kinds))
        try:
            return await self._served(key.group_kind, ask)
        finally:
            self._stored, self._served_kinds = before

    async def _write(self, verb: str, key: ObjectKey, manager: str, ask: Callable[[Resource], T]) -> T:
        await self._give_way()
        if self.dead:
            raise Crash
        fault = self.faults.get(self.requests, "")
        self.requests += 1
        if fault == "before":
            self.dead = True
            raise Crash
        if fault == "unavailable":
            raise Unavailable(f"{verb} {key}: refused", status=503)
        before = self._stored.get(key)
        shown = self._shown(before) if before else None
        answer = await self._served(key.group_kind, ask)
        after = self._stored.get(key)
        now = self._shown(after) if after else None
        write = Write(verb, key, manager, shown != now, shown, now)
        self.writes.append(write)
        self.watch(write)
        if fault == "after":
            self.dead = True
            raise Crash
        if fault == "unknown":
            raise UnknownOutcome(f"{verb} {key}: the answer was lost", status=504)
        return answer

    def _new(self, manifest: Object) -> Object:
        self._counter += 1
        metadata = {name: manifest["metadata"][name] for name in ("name", "namespace") if name in manifest["metadata"]}
        metadata |= {"uid": f"uid-{self._counter}", "resourceVersion": "0", "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
            "metadata": {**metadata, "generation": 0},
        }

    def _bump(self, stored: _Stored) -> None:
        self._counter += 1
        stored.obj["metadata"]["resourceVersion"] = str(self._counter)

    def _assign(self, stored: _Stored, content: Object, owner: Owner, *, force: bool) -> None:
        """Make `content` all that this owner says of the object."""
        before, owned_before = _copy(stored.obj), {name: set(paths) for name, paths in stored.owners.items()}
        wanted = dict(_leaves(content))
        lost = [
            (path, other)
            for path, value in wanted.items()
            for other, paths in stored.owners.items()
            if other != owner and path in paths and _at(stored.obj, path) != value
        ]
        if lost and not force:
            causes = tuple(
                Cause("FieldManagerConflict", f".{'.'.join(path)}", f'conflict with "{other[0]}"')
                for path, other in lost
            )
            raise FieldConflict(
                f"conflict with {', '.join(sorted({other[0] for _, other in lost}))}", status=409, causes=causes
            )
        for path, other in lost:
            stored.owners[other].discard(path)
        for path in stored.owners.get(owner, set()) - wanted.keys():
            if not any(path in paths for other, paths in stored.owners.items() if other != owner):
                _remove(stored.obj, path)
        for path, value in wanted.items():
            _set(stored.obj, path, _copy(value))
        stored.owners[owner] = set(wanted)
        stored.owners = {name: paths for name, paths in stored.owners.items() if paths}
        if before != stored.obj or owned_before != stored.owners:
            self._bump(stored)
        if _spec(before) != _spec(stored.obj):
            stored.obj["metadata"]["generation"] += 1

    def _check(self, stored: _Stored, uid: str | None, version: str | None) -> None:
        metadata = stored.obj["metadata"]
        if (uid and uid != metadata["uid"]) or (version and version != metadata["resourceVersion"]):
            raise StaleWrite("the precondition does not match", status=409)

    def _check_namespace(self, key: ObjectKey, resource: Resource) -> None:
        if resource.namespaced:
            found = self._stored.get(ObjectKey("", "Namespace", "", key.namespace))
            if found is None:
                raise NotFound(f"namespaces {key.namespace!r} not found", status=404)
            if "deletionTimestamp" in found.obj["metadata"]:
                raise NamespaceTerminating(f"namespace {key.namespace} is being terminated", status=403)

    def _deleted(self, key: ObjectKey) -> None:
        stored = self._stored[key]
        if stored.obj["metadata"].get("finalizers") or self._inside(key):
            if "deletionTimestamp" not in stored.obj["metadata"]:
                stored.obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z"
                self._bump(stored)
        else:
            self._gone(key)

    def _gone(self, key: ObjectKey) -> None:
        stored = self._stored.pop(key)
        if key.group_kind == CRD:
            spec = stored.obj["spec"]
            self._served_kinds.pop(GroupKind(spec["group"], spec["names"]["kind"]), None)

    def _collect(self, key: ObjectKey) -> None:
        """An object that is going away and that no finalizer holds is gone."""
        stored = self._stored.get(key)
        if stored and "deletionTimestamp" in stored.obj["metadata"]:
            self._deleted(key)

    def _inside(self, key: ObjectKey) -> builtins.list[ObjectKey]:
        if key.group_kind == NAMESPACE:
            return [other for other in self._stored if other.namespace == key.name]
        if key.group_kind == CRD:
            spec = self._stored[key].obj["spec"]
            kind = GroupKind(spec["group"], spec["names"]["kind"])
            return [other for other in self._stored if other.group_kind == kind]
        return []

    def _empty(self, key: ObjectKey) -> None:
        if "deletionTimestamp" in self._stored[key].obj["metadata"]:
            for other in self._inside(key):
                self._deleted(other)
            self._deleted(key)

    def _controlled(self, key: ObjectKey, *, late: bool = False) -> None:
        stored = self._stored[key]
        before = _copy(stored.obj.get("status"))
        match key.group_kind:
            case kind if kind == NAMESPACE:
                stored.obj["status"] = {"phase": "Active"}
            case kind if kind == CRD and (self._instant or late):
                spec = stored.obj["spec"]
                served = GroupKind(spec["group"], spec["names"]["kind"])
                self._served_kinds[served] = Resource(
                    *(spec["group"], spec["versions"][0]["name"], served.kind, spec["names"]["plural"]),
                    spec["scope"] == "Namespaced",
                    ALL_VERBS,
                )
                conditions = [{"type": name, "status": "True"} for name in ("Established", "NamesAccepted")]
                stored.obj["status"] = {"conditions": conditions}
            case kind if kind == DEPLOYMENT and (self._instant or late):
                spec = stored.obj.get("spec")
                wanted = spec.get("replicas", 1) if isinstance(spec, dict) else 1
                words = ("replicas", "updatedReplicas", "availableReplicas", "readyReplicas")
                stored.obj["status"] = {
                    **dict.fromkeys(words, wanted),
                    "observedGeneration": stored.obj["metadata"]["generation"],
                    "conditions": [{"type": "Available", "status": "True"}],
                }
        if before != stored.obj.get("status"):
            self._bump(stored)

    def _shown(self, stored: _Stored, *, metadata_only: bool = False) -> Object:
        shown: Object = _copy(stored.obj)
        shown["metadata"]["managedFields"] = [
            {
                "manager": manager,
                "operation": operation,
                "apiVersion": stored.obj["apiVersion"],
                "fieldsType": "FieldsV1",
                "fieldsV1": _fields(paths),
                **({"subresource": subresource} if subresource else {}),
            }
            for (manager, operation, subresource), paths in sorted(stored.owners.items())
        ]
        if metadata_only:
            return {name: shown[name] for name in ("apiVersion", "kind", "metadata")}
        return shown


_WITHOUT_STATUS = frozenset({GroupKind("", "ConfigMap"), GroupKind("", "Secret")})


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _selected(obj: Object, selector: str) -> bool:
    if not selector:
        return True
    labels = obj["metadata"].get("labels") or {}
    if " in (" in selector:
        name, _, values = selector.partition(" in (")
        return labels.get(name) in values.removesuffix(")").split(",")
    name, separator, value = selector.partition("=")
    return labels.get(name) == value if separator else name in labels


def _validate(manifest: Object, key: ObjectKey) -> None:
    """What no server takes: texts that are none where the type of every object wants them, a CRD without names."""
    metadata = manifest["metadata"]
    for name in ("labels", "annotations"):
        texts = metadata.get(name) or {}
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise Invalid(f"{key}: metadata.{name} must be a map of texts", status=422)
    if key.group_kind == CRD:
        spec = manifest.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        names = spec.get("names")
        wanted = [spec.get("group"), names.get("kind"), names.get("plural")] if isinstance(names, dict) else [None]
        if not all(isinstance(text, str) and text for text in wanted) or not isinstance(spec.get("versions"), list):
            raise Invalid(f"{key}: no such CustomResourceDefinition can be", status=422)


def _spec(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}


def _content(manifest: Object) -> Object:
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVERS_OWN}
    return {
        **{name: value for name, value in manifest.items() if name not in {"apiVersion", "kind", "metadata"}},
        "metadata": metadata,
    }


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and (value or not path):
        for name, item in value.items():
            if item is not None:
                yield from _leaves(item, (*path, name))
    elif path == ("metadata", "finalizers"):
        for name in value:
            yield (*path, f"v:{name}"), name
    elif path != ("metadata",):
        yield path, value


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(value, list):
            return step[2:] if step[2:] in value else None
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(obj: Any, path: Path, value: Any) -> None:
    if path[:2] == ("metadata", "finalizers"):
        found = obj["metadata"].setdefault("finalizers", [])
        if value not in found:
            found.append(value)
        return
    for step in path[:-1]:
        if not isinstance(obj.get(step), dict):
            obj[step] = {}
        obj = obj[step]
    obj[path[-1]] = value


def _remove(obj: Any, path: Path) -> None:
    parents = []
    for step in path[:-1]:
        parents.append((obj, step))
        obj = obj.get(step) if isinstance(obj, dict) else None
        if obj is None:
            return
    if isinstance(obj, list):
        if path[-1][2:] in obj:
            obj.remove(path[-1][2:])
    else:
        obj.pop(path[-1], None)
    for parent, step in reversed(parents):
        if parent[step] in ({}, []) and step != "metadata":
            del parent[step]


def _merge(obj: Any, patch: Any) -> None:
    """RFC 7386, in place."""
    for name, value in patch.items():
        if value is None:
            obj.pop(name, None)
        elif isinstance(value, dict):
            if not isinstance(obj.get(name), dict):
                obj[name] = {}
            _merge(obj[name], value)
        else:
            obj[name] = value
    for name in ("labels", "annotations", "finalizers"):
        if obj.get(name) in ({}, []):
            del obj[name]


def _paths(fields: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """The leaves of an entry of managed fields; what `_fields` wrote."""
    for name, below in fields.items():
        kind, _, text = name.partition(":")
        path = (*above, text if kind == "f" else f"v:{orjson.loads(text)}")
        yield from _paths(below, path) if below else (path,)


def _fields(paths: set[Path]) -> Object:
    found: Object = {}
    for path in sorted(paths):
        place = found
        for step in path:
            place = place.setdefault(
                step if step.startswith("v:") and path[1:2] == ("finalizers",) else f"f:{step}", {}
            )
    for name, values in (found.get("f:metadata") or {}).items():
        if name == "f:finalizers":
            found["f:metadata"][name] = {f"v:{orjson.dumps(key[2:]).decode()}": {} for key in values}
    return found
