"""Sandbox: an embedded Kubernetes API, without a transport.

    sandbox = Sandbox(evaluate=...)
    response = sandbox.handle(Request("GET", "/api/v1/namespaces"))

`handle` never waits and never raises an exception. So the sandbox executes requests one after the other, and each
request sees all earlier changes. The garbage collector and the workload controllers run only in `tick`. The sandbox
runs no containers. `docs/adr/0009-sandbox.md` lists further omissions.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import orjson

from applier.sandbox.api.access_reviews import answer_review, is_review
from applier.sandbox.api.delete_verbs import DeleteVerbs
from applier.sandbox.api.discovery import DiscoveryService
from applier.sandbox.api.openapi import EMPTY_V2_DOCUMENT, OpenApi
from applier.sandbox.api.options import parse_delete_options
from applier.sandbox.api.read_verbs import ReadVerbs
from applier.sandbox.api.request_bodies import with_json_body
from applier.sandbox.api.request_path import RequestPath, parse_request_path, path_segments
from applier.sandbox.api.state import ApiState
from applier.sandbox.api.watch_verb import WatchVerb
from applier.sandbox.api.write_verbs import WriteResult, WriteVerbs
from applier.sandbox.controllers.crds import CRD_RESOURCE, CrdController
from applier.sandbox.controllers.garbage_collector import GarbageCollector
from applier.sandbox.controllers.workloads import BehaviourSource, WorkloadControllers
from applier.sandbox.kinds.builtin import built_in_go_types, built_in_kinds, scale_kind
from applier.sandbox.kinds.go_types import DELETE_OPTIONS
from applier.sandbox.kinds.registry import KindRegistry, ServedKind
from applier.sandbox.kinds.scale import build_stored_scale
from applier.sandbox.kinds.structural_schema import is_established
from applier.sandbox.printing.representations import Representation, encode_list, encode_object, negotiate_shape
from applier.sandbox.storage.store import Store, StoredKey, StoredObject
from applier.sandbox.wire import (
    MAX_BODY_BYTES,
    Refusal,
    Request,
    Response,
    UnknownPathError,
    bad_request,
    json_response,
    method_not_allowed_refusal,
    unknown_resource_refusal,
)
from renderer import builtin_kinds
from renderer.schema import Evaluate

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that every new cluster has."""

_MAX_TICKS = 1000


class Sandbox:
    """Embedded Kubernetes API with its store and controllers.

    Only one thread may use a sandbox. Each watch belongs to the event loop that reads the watch.

    Args:
        clock: function that returns the seconds after 1970-01-01 00:00 UTC.
        new_uid: function that returns unique strings.
        evaluate: function that evaluates the CEL rules of custom kinds. If None, the server does not check CEL rules.
        store: store with the objects of an earlier sandbox, or None for a new store.
        script: source of the behaviour of workloads. If None, workloads make no progress.
        serve_immediately: True to serve a new CRD at once, False to serve a new CRD after the next `tick`.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        evaluate: Evaluate | None = None,
        store: Store | None = None,
        script: BehaviourSource | None = None,
        serve_immediately: bool = True,
    ) -> None:
        schemas = builtin_kinds.load_builtin_schemas()
        self.state = ApiState(store or Store(), KindRegistry(built_in_kinds()), clock, new_uid)
        self.request_count = 0
        self._serve_immediately = serve_immediately
        self._finished_crds_version = -1
        self._scale_kind = scale_kind()
        self._delete_options = built_in_go_types().definition_type(DELETE_OPTIONS)
        self._crd_controller = CrdController(self.state, schemas=schemas.definitions, evaluate=evaluate)
        self._delete_verbs = DeleteVerbs(self.state)
        self._garbage_collector = GarbageCollector(self.state, self._delete_verbs)
        self._discovery = DiscoveryService(self.state.kinds, schemas.version)
        self._openapi = OpenApi(self.state.kinds, schemas)
        self._read_verbs = ReadVerbs(self.state)
        self._watch_verb = WatchVerb(self.state)
        self._write_verbs = WriteVerbs(self.state, scale_kind=self._scale_kind)
        self.workloads = WorkloadControllers(self.state, self.handle, script) if script else None
        self._bootstrap()

    def handle(self, request: Request) -> Response:
        """Return the response to `request`.

        No request that a client can send raises an exception.
        """
        self.request_count += 1
        try:
            return self._dispatch(request)
        except Refusal as refusal:
            return refusal.response
        except UnknownPathError as unknown:
            return unknown.response
        except (RecursionError, orjson.JSONEncodeError):
            return bad_request(
                "the object is nested too deeply, or has values that JSON cannot represent; simplify the object"
            ).response

    async def answer(self, request: Request) -> Response:
        """Return the response of `handle`, as the asynchronous `RequestHandler` that endpoints expect."""
        return self.handle(request)

    def tick(self) -> bool:
        """Run all controllers for one step, and return whether any object changed."""
        changed = self._garbage_collector.tick()
        if self.workloads:
            changed |= self.workloads.tick()
        version = self.state.store.version
        for stored in self._unfinished_crds():
            self._crd_controller.reconcile(stored.key.name)
        return changed or version != self.state.store.version

    def tick_until_stable(self) -> None:
        """Run all controllers until no object changes, for at most `_MAX_TICKS` steps.

        The clock does not advance.
        """
        for _ in range(_MAX_TICKS):
            if not self.tick():
                return

    def _unfinished_crds(self) -> list[StoredObject]:
        """Return the CRDs that wait for `CrdController`.

        If no CRD has changed since a step that found none, do not read the CRDs: a sandbox may have hundreds.
        """
        crds = self.state.store.resource_store(CRD_RESOURCE)
        if crds.latest_version <= self._finished_crds_version:
            return []
        unfinished = [crd for crd in crds.sorted_objects() if crd.is_deleting or not _has_conditions(crd)]
        if not unfinished:
            self._finished_crds_version = crds.latest_version
        return unfinished

    # ---- requests

    def _dispatch(self, request: Request) -> Response:
        """Return the response to `request`: a document of the API, or the result of a verb on a resource.

        Raises: Refusal if the API refuses the request, or UnknownPathError if the API has no such path.
        """
        path = path_segments(request.target)
        if path[:2] == ["openapi", "v3"]:
            return self._openapi.answer(path[2:])
        if path == ["openapi", "v2"]:
            return EMPTY_V2_DOCUMENT
        if len(path) <= (2 if path[0] == "api" else 3) or path[0] not in ("api", "apis"):
            return self._discovery.answer(request, path)
        if len(request.body) > MAX_BODY_BYTES:
            message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            raise Refusal(413, "RequestEntityTooLarge", message)
        if "watch" in path[2:4]:
            request, path = _translate_legacy_watch(request)
        return self._call_verb(parse_request_path(request), request)

    def _call_verb(self, request_path: RequestPath, request: Request) -> Response:
        if is_review(request_path):
            return answer_review(request_path, request)
        kind = self._resolve_kind(request_path)
        if request_path.verb not in kind.verbs and not request_path.subresource:
            raise method_not_allowed_refusal()
        match request_path.verb:
            case "get" | "list" | "watch":
                return self._read(kind, request_path, request)
            case "create" | "update" | "patch":
                return self._write(kind, request_path, request)
            case "delete":
                options = parse_delete_options(with_json_body(request, self._delete_options), request_path.query)
                deletion_result = self._delete_verbs.delete(kind, request_path.namespace, request_path.name, options)
                self._notify_controllers(kind.key(request_path.namespace, request_path.name))
                return json_response(deletion_result)
            case _:
                return self._delete_all(kind, request_path, request)

    def _resolve_kind(self, request_path: RequestPath) -> ServedKind:
        """Return the kind of a request.

        Raises: UnknownPathError or Refusal (404) if the server does not serve the kind, or Refusal (405) if the path
        needs a namespace.
        """
        kind = self.state.kinds.find(request_path.group, request_path.version, request_path.plural)
        if kind is None or (request_path.namespace and not kind.namespaced):
            raise self._unknown_resource(request_path.group)
        if request_path.subresource and request_path.subresource not in kind.subresources:
            raise unknown_resource_refusal()
        if kind.namespaced and not request_path.namespace and request_path.verb not in ("list", "watch"):
            raise (
                self._unknown_resource(request_path.group)
                if request_path.name or kind.is_custom
                else method_not_allowed_refusal()
            )
        return kind

    def _unknown_resource(self, group: str) -> Refusal | UnknownPathError:
        """Return the refusal of a resource that `group` does not serve.

        If `group` has no built-in kind, the refusal is plain text. Otherwise the refusal is a Status.
        """
        group_kinds = self.state.kinds.group_kinds(group)
        return UnknownPathError() if all(kind.is_custom for kind in group_kinds) else unknown_resource_refusal()

    def _read(self, kind: ServedKind, request_path: RequestPath, request: Request) -> Response:
        is_collection = request_path.verb != "get"
        shape = negotiate_shape(
            request.headers.get("accept", ""), is_list=is_collection and request_path.verb != "watch"
        )
        representation = Representation(shape, request_path.query.get("includeObject", "Metadata"), self.state.clock())
        match request_path.verb:
            case "get" if request_path.subresource == "scale":
                stored = self._read_verbs.find(kind, request_path)
                return Response(
                    200, encode_object(self._scale_kind, build_stored_scale(kind, stored.to_object()), representation)
                )
            case "get":
                return Response(200, encode_object(kind, self._read_verbs.find(kind, request_path), representation))
            case "list":
                return Response(200, self._read_verbs.list_page(kind, request_path, representation))
            case _:
                return Response(200, stream=self._watch_verb.watch(kind, request_path, representation))

    def _write(self, kind: ServedKind, request_path: RequestPath, request: Request) -> Response:
        request = with_json_body(
            request, (self._scale_kind if request_path.subresource == "scale" else kind).model.go_type
        )
        match request_path.verb:
            case "update" | "patch" if request_path.subresource == "scale":
                result = self._write_verbs.scale(kind, request_path, request)
            case "create":
                result = self._write_verbs.create(kind, request_path, request)
            case "update":
                result = self._write_verbs.update(kind, request_path, request)
            case _:
                result = self._write_verbs.patch(kind, request_path, request)
        if result.stored:
            self._notify_controllers(result.stored.key)
        if request_path.subresource == "scale":
            scale = build_stored_scale(kind, result.obj)
            return self._write_response(
                self._scale_kind, WriteResult(scale.to_object(), False, result.warnings, scale), request
            )
        return self._write_response(kind, result, request)

    def _write_response(self, kind: ServedKind, result: WriteResult, request: Request) -> Response:
        status = 201 if result.created else 200
        headers = (
            {"Warning": ", ".join(f'299 - "{_escape_quotes(warning)}"' for warning in result.warnings)}
            if result.warnings
            else {}
        )
        shape = negotiate_shape(request.headers.get("accept", ""), is_list=False)
        if result.stored is None:
            return Response(status, orjson.dumps(result.obj), headers=headers)
        representation = Representation(shape, now=self.state.clock())
        return Response(status, encode_object(kind, result.stored, representation), headers=headers)

    def _delete_all(self, kind: ServedKind, request_path: RequestPath, request: Request) -> Response:
        options = parse_delete_options(with_json_body(request, self._delete_options), request_path.query)
        selected = self._read_verbs.select(kind, request_path)
        metadata = {"resourceVersion": str(self.state.store.version)}
        body = encode_list(kind, selected, Representation(), metadata)
        self._delete_verbs.delete_all(kind, selected, options)
        for stored in selected:
            self._notify_controllers(stored.key)
        return Response(200, body)

    # ---- consequences of a write

    def _notify_controllers(self, key: StoredKey) -> None:
        stored = self.state.store.get(key)
        if stored and stored.is_deleting:
            self._garbage_collector.enqueue(key)
        needs_crd_update = key.resource == CRD_RESOURCE and not (stored and stored.is_deleting)
        if needs_crd_update and (self._serve_immediately or not stored or _has_conditions(stored)):
            self._crd_controller.reconcile(key.name)

    def _bootstrap(self) -> None:
        """Create the initial namespaces, serve the stored CRDs, and find the unfinished deletions in the store."""
        for name in INITIAL_NAMESPACES:
            if self.state.store.get(StoredKey("namespaces", "", name)) is None:
                body = orjson.dumps({"metadata": {"name": name}})
                headers = {"user-agent": "levelgate-sandbox"}
                self.handle(Request("POST", "/api/v1/namespaces", headers, body))
        for stored in self.state.store.resource_store(CRD_RESOURCE).sorted_objects():
            definition = stored.to_object()
            if is_established(definition):
                self._crd_controller.serve(definition)
        self._garbage_collector.restore()
        self.request_count = 0


def _has_conditions(stored: StoredObject) -> bool:
    """Return whether the controller has already decided to serve or to reject a CRD."""
    return bool((stored.to_object().get("status") or {}).get("conditions"))


def _translate_legacy_watch(request: Request) -> tuple[Request, list[str]]:
    """Return the watch `request` in the current form, with its path segments.

    The request has the old form `/api/v1/watch/...`.
    """
    path, _, query = request.target.partition("?")
    target = f"{path.replace('/watch', '', 1)}?{query}&watch=1"
    return Request(request.method, target, request.headers, request.body), path_segments(target)


def _escape_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
