"""The sandbox: an embedded Kubernetes API, without a transport.

    sandbox = Sandbox(evaluate=...)
    response = sandbox.handle(Request("GET", "/api/v1/namespaces"))

One request is one step: `handle` never waits and never raises, so requests are carried out one after another and each
sees all that was done before. What controllers would do happens in `tick`, and only there. It is no cluster: nothing
runs in it. See docs/adr/0009-sandbox.md for what it leaves out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import orjson

from applier.sandbox.api.access_reviews import is_review, review
from applier.sandbox.api.delete_verbs import DeleteVerbs
from applier.sandbox.api.discovery import DiscoveryService
from applier.sandbox.api.openapi import NO_DOCUMENT, OpenApi
from applier.sandbox.api.options import delete_options
from applier.sandbox.api.read_verbs import ReadVerbs
from applier.sandbox.api.request_bodies import as_json
from applier.sandbox.api.request_path import RequestPath, address, segments
from applier.sandbox.api.state import ApiState
from applier.sandbox.api.watch_verb import WatchVerb
from applier.sandbox.api.write_verbs import WriteResult, WriteVerbs
from applier.sandbox.controllers.crds import RESOURCE as DEFINITIONS
from applier.sandbox.controllers.crds import CrdController
from applier.sandbox.controllers.garbage_collector import Collector
from applier.sandbox.controllers.workloads import Behaves, Workloads
from applier.sandbox.kinds.builtin import built_in_kinds, scale_kind, structures
from applier.sandbox.kinds.go_types import DELETE_OPTIONS
from applier.sandbox.kinds.registry import Registry, ServedKind
from applier.sandbox.kinds.scale import scaled
from applier.sandbox.printing.representations import Representation, list_bytes, object_bytes, wanted_shape
from applier.sandbox.storage.store import Store, StoredKey, StoredObject
from applier.sandbox.wire import (
    LARGEST_BODY,
    Refusal,
    Request,
    Response,
    UnknownPathError,
    bad_request,
    not_allowed,
    not_found,
    not_served,
)
from renderer import builtin_kinds
from renderer.schema import Evaluate

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Those that every cluster has."""

_ROUNDS = 1000


class Sandbox:
    """`clock` answers seconds since 1970, `new_uid` texts that differ; `evaluate` judges the CEL rules of custom kinds,
    which without it are not checked; `store` may hold what an earlier sandbox left; with a `script` workloads get on. A
    new definition is served at once, unless `prompt` is false: then in the next `tick`.

    All methods belong to one thread; watches to the event loop in which they are read.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        evaluate: Evaluate | None = None,
        store: Store | None = None,
        script: Behaves | None = None,
        prompt: bool = True,
    ) -> None:
        bundle = builtin_kinds.bundle()
        self.state = ApiState(store or Store(), Registry(built_in_kinds()), clock, new_uid)
        self.requests = 0
        self._prompt = prompt
        self._scale = scale_kind()
        self._delete_options = structures().definition(DELETE_OPTIONS)
        self._definitions = CrdController(self.state, schemas=bundle.definitions, evaluate=evaluate)
        self._deleting = DeleteVerbs(self.state, gone=self._after_removal)
        self._collector = Collector(self.state, self._deleting)
        self._discovery = DiscoveryService(self.state.kinds, bundle.version)
        self._openapi = OpenApi(self.state.kinds, bundle)
        self._reading = ReadVerbs(self.state)
        self._watching = WatchVerb(self.state, served=self._is_served)
        self._writing = WriteVerbs(
            self.state,
            check_namespace=self._check_namespace,
            gone=self._after_removal,
            scale=self._scale,
        )
        self.workloads = Workloads(self.state, self.handle, script) if script else None
        self._start()

    def handle(self, request: Request) -> Response:
        """The answer to one request. Never raises for what a client can send."""
        self.requests += 1
        try:
            return self._answer(request)
        except Refusal as refusal:
            return refusal.response
        except UnknownPathError as unknown:
            return unknown.response
        except (RecursionError, orjson.JSONEncodeError):
            return bad_request("the object is nested too deeply, or holds numbers or texts that JSON cannot").response

    async def answer(self, request: Request) -> Response:
        """As `handle`, for doors, which may have something in between that takes time (`faults`)."""
        return self.handle(request)

    def tick(self) -> bool:
        """One step of all controllers; whether it changed anything."""
        changed = self._collector.tick()
        if self.workloads:
            changed |= self.workloads.tick()
        for place in self.state.store.shelf(DEFINITIONS).keys(None):
            stored = self.state.store.get(StoredKey(DEFINITIONS, *place))
            if stored and (stored.deleting or not _is_settled(stored)):
                version = self.state.store.version
                self._definitions.settle(stored.key.name)
                changed |= version != self.state.store.version
        return changed

    def settle(self) -> None:
        """Steps until nothing changes any more, at the time that it is."""
        for _ in range(_ROUNDS):
            if not self.tick():
                return

    # ---- requests

    def _answer(self, request: Request) -> Response:
        path = segments(request.target)
        if path[:2] == ["openapi", "v3"]:
            return self._openapi.answer(path[2:])
        if path == ["openapi", "v2"]:
            return NO_DOCUMENT
        if len(path) <= (2 if path[0] == "api" else 3) or path[0] not in ("api", "apis"):
            return self._discovery.answer(request, path)
        if len(request.body) > LARGEST_BODY:
            message = f"Request entity too large: limit is {LARGEST_BODY}"
            raise Refusal(413, "RequestEntityTooLarge", message)
        if "watch" in path[2:4]:
            request, path = _without_watch(request)
        where = address(request)
        if is_review(where):
            return review(where, request)
        kind = self._kind(where)
        if where.verb not in kind.verbs and not where.subresource:
            raise not_allowed()
        match where.verb:
            case "get" | "list" | "watch":
                return self._read(kind, where, request)
            case "create" | "update" | "patch":
                return self._write(kind, where, request)
            case "delete":
                options = delete_options(as_json(request, self._delete_options), where.query)
                gone = self._deleting.delete(kind, where.namespace, where.name, options)
                self._after_write(kind.key(where.namespace, where.name))
                return Response(200, orjson.dumps(gone))
            case _:
                return self._delete_all(kind, where, request)

    def _kind(self, where: RequestPath) -> ServedKind:
        """Raises UnknownPathError, Refusal (404, 405)."""
        kind = self.state.kinds.find(where.group, where.version, where.plural)
        if kind is None or (where.namespace and not kind.namespaced):
            raise self._unknown(where.group)
        if where.subresource and where.subresource not in kind.subresources:
            raise not_served()
        if kind.namespaced and not where.namespace and where.verb not in ("list", "watch"):
            raise self._unknown(where.group) if where.name or kind.custom else not_allowed()
        return kind

    def _unknown(self, group: str) -> Refusal | UnknownPathError:
        """A built-in group knows its resources; what serves custom kinds has never heard of the others."""
        kinds = self.state.kinds
        known = (kind for version in kinds.versions(group) for kind in kinds.kinds(group, version))
        return UnknownPathError() if all(kind.custom for kind in known) else not_served()

    def _read(self, kind: ServedKind, where: RequestPath, request: Request) -> Response:
        many = where.verb != "get"
        shape = wanted_shape(request.headers.get("accept", ""), many=many and where.verb != "watch")
        look = Representation(shape, where.query.get("includeObject", "Metadata"), self.state.clock())
        match where.verb:
            case "get" if where.subresource == "scale":
                stored = self._reading.find(kind, where)
                return Response(200, object_bytes(self._scale, scaled(kind, stored.object()), look))
            case "get":
                return Response(200, object_bytes(kind, self._reading.find(kind, where), look))
            case "list":
                return Response(200, self._reading.list(kind, where, look))
            case _:
                return Response(200, stream=self._watching.watch(kind, where, look))

    def _write(self, kind: ServedKind, where: RequestPath, request: Request) -> Response:
        request = as_json(request, (self._scale if where.subresource == "scale" else kind).model.form)
        match where.verb:
            case "update" | "patch" if where.subresource == "scale":
                written = self._writing.scale(kind, where, request)
            case "create":
                written = self._writing.create(kind, where, request)
            case "update":
                written = self._writing.update(kind, where, request)
            case _:
                written = self._writing.patch(kind, where, request)
        if written.stored:
            self._after_write(written.stored.key)
        if where.subresource == "scale":
            scale = scaled(kind, written.obj)
            return self._written(self._scale, WriteResult(scale.object(), False, written.warnings, scale), request)
        return self._written(kind, written, request)

    def _written(self, kind: ServedKind, written: WriteResult, request: Request) -> Response:
        status = 201 if written.created else 200
        headers = (
            {"Warning": ", ".join(f'299 - "{_quoted(text)}"' for text in written.warnings)} if written.warnings else {}
        )
        shape = wanted_shape(request.headers.get("accept", ""), many=False)
        if written.stored is None:
            return Response(status, orjson.dumps(written.obj), headers=headers)
        look = Representation(shape, now=self.state.clock())
        return Response(status, object_bytes(kind, written.stored, look), headers=headers)

    def _delete_all(self, kind: ServedKind, where: RequestPath, request: Request) -> Response:
        options = delete_options(as_json(request, self._delete_options), where.query)
        found = self._reading.select(kind, where)
        metadata = {"resourceVersion": str(self.state.store.version)}
        body = list_bytes(kind, found, Representation(), metadata)
        self._deleting.delete_all(kind, found, options)
        for stored in found:
            self._after_write(stored.key)
        return Response(200, body)

    # ---- what follows from a write

    def _after_write(self, key: StoredKey) -> None:
        stored = self.state.store.get(key)
        if stored and stored.deleting:
            self._collector.marked(key)
        changed = key.resource == DEFINITIONS and not (stored and stored.deleting)
        if changed and (self._prompt or not stored or _is_settled(stored)):
            self._definitions.settle(key.name)

    def _after_removal(self, _kind: ServedKind, stored: StoredObject) -> None:
        self._collector.removed(stored)

    def _check_namespace(self, kind: ServedKind, key: StoredKey) -> None:
        """Raises Refusal: 404 if the namespace is absent, 403 while it is being deleted."""
        if not kind.namespaced:
            return
        found = self.state.store.get(StoredKey("namespaces", "", key.namespace))
        namespaces = self.state.kinds.find("", "v1", "namespaces")
        assert namespaces is not None
        if found is None:
            raise not_found(namespaces.subject(key.namespace))
        if found.deleting:
            subject = kind.subject(key.name)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {key.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            message = (
                f'{subject.resource} "{key.name}" is forbidden: unable to create new content in namespace '
                f"{key.namespace} because it is being terminated"
            )
            raise Refusal(403, "Forbidden", message, details=subject.details(causes=[cause]))

    def _is_served(self, kind: ServedKind) -> bool:
        return self.state.kinds.find(kind.group, kind.version, kind.plural) is not None

    def _start(self) -> None:
        """The namespaces that every cluster has, and what a store brings along."""
        for name in NAMESPACES:
            if self.state.store.get(StoredKey("namespaces", "", name)) is None:
                body = orjson.dumps({"metadata": {"name": name}})
                headers = {"user-agent": "levelgate-sandbox"}
                self.handle(Request("POST", "/api/v1/namespaces", headers, body))
        for place in self.state.store.shelf(DEFINITIONS).keys(None):
            stored = self.state.store.get(StoredKey(DEFINITIONS, *place))
            if stored and _is_established(stored):
                self._definitions.serve(stored.object())
        self._collector.restore()
        self.requests = 0


def _is_settled(stored: StoredObject) -> bool:
    """Whether it has been decided if a definition is served."""
    return bool((stored.object().get("status") or {}).get("conditions"))


def _is_established(stored: StoredObject) -> bool:
    conditions = (stored.object().get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _without_watch(request: Request) -> tuple[Request, list[str]]:
    """The old form of a watch, `/api/v1/watch/...`, as the new one."""
    path, _, query = request.target.partition("?")
    target = f"{path.replace('/watch', '', 1)}?{query}&watch=1"
    return Request(request.method, target, request.headers, request.body), segments(target)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
