"""Verbs get and list: consistent reads, selectors, pages.

All pages of a list show the same state, because the first page keeps references to the listed objects. The server keeps
at most `MAX_LIST_SNAPSHOTS` of these states, and drops the oldest state first. If the server has dropped the state of a
page, the server refuses the request as expired (410), and the client lists again.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from applier.sandbox.api.options import parse_list_options, parse_resource_version
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.selectors import parse_field_selector, parse_label_selector
from applier.sandbox.api.state import ApiState
from applier.sandbox.jsonpath import format_value, get_field
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.representations import Representation, encode_list
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Refusal, bad_request, expired_refusal
from renderer.frozen import dataclass

MAX_LIST_SNAPSHOTS = 32
"""Maximum number of list states that the server keeps for further pages."""

_METADATA_FIELDS = {"metadata.name": "", "metadata.namespace": ""}
_EVENT_REFERENCE_FIELDS = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_SELECTABLE_FIELDS: Mapping[str, Mapping[str, str]] = {
    "certificatesigningrequests.certificates.k8s.io": {"spec.signerName": ""},
    "events": dict.fromkeys(
        (*(f"involvedObject.{name}" for name in _EVENT_REFERENCE_FIELDS), "reason", "reportingComponent", "type"), ""
    ),
    "events.events.k8s.io": dict.fromkeys(
        (*(f"regarding.{name}" for name in _EVENT_REFERENCE_FIELDS), "reason", "reportingController", "type"), ""
    ),
    "jobs.batch": {"status.successful": "0"},
    "namespaces": {"status.phase": ""},
    "nodes": {"spec.unschedulable": "false"},
    "pods": {
        "spec.hostNetwork": "false",
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "status.nominatedNodeName": "",
        "status.phase": "",
        "status.podIP": "",
    },
    "replicationcontrollers": {"status.replicas": "0"},
    "secrets": {"type": ""},
    "services": {"spec.clusterIP": "", "spec.type": ""},
}
"""Fields that field selectors may use, besides name and namespace, by resource.

Each field maps to the value that counts if an object does not have the field.
"""

_NOT_SELECTABLE_BY_NAMESPACE = frozenset({"namespaces", "nodes"})

_TOKEN_VERSION = "meta.k8s.io/v1"
_EXPIRED_MESSAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)

ObjectPredicate = Callable[[StoredObject], bool]


def parse_selection(kind: ServedKind, request_path: RequestPath) -> tuple[ObjectPredicate, bool]:
    """Return a predicate for the selectors of a request, and whether any selector has a term.

    Raises: Refusal (400 if a selector is malformed, or selects by an unsupported field).
    """
    labels, fields = request_path.query.get("labelSelector", ""), request_path.query.get("fieldSelector", "")
    label_selector, terms = parse_label_selector(labels), parse_field_selector(fields)
    selectable = {**_METADATA_FIELDS, **_SELECTABLE_FIELDS.get(kind.resource, {}), **dict.fromkeys(kind.selectable, "")}
    if kind.resource in _NOT_SELECTABLE_BY_NAMESPACE:
        del selectable["metadata.namespace"]
    for path, _, _ in terms:
        if path not in selectable:
            raise bad_request(f"field label not supported: {path}")

    def matches(stored: StoredObject) -> bool:
        return label_selector.matches(stored.labels) and all(
            (_selectable_value(stored, path, selectable[path]) == value) is must_equal
            for path, value, must_equal in terms
        )

    return matches, bool(label_selector.requirements or terms)


def _selectable_value(stored: StoredObject, path: str, absent: str) -> str:
    match path:
        case "metadata.name":
            return stored.key.name
        case "metadata.namespace":
            return stored.key.namespace
    value = get_field(stored.to_object(), path)
    return absent if value is None else format_value(value)


@dataclass(frozen=True, slots=True)
class _ContinueToken:
    """Content of the continue token of a list, which tells where the next page starts."""

    version: int
    """resourceVersion of the listed state."""
    start: tuple[str, str]
    """Namespace and name of the last object before the page."""

    @property
    def text(self) -> str:
        document = {"v": _TOKEN_VERSION, "rv": self.version, "start": "/".join(self.start) + "\0"}
        return base64.urlsafe_b64encode(orjson.dumps(document)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> _ContinueToken:
        try:
            document = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
            namespace, _, name = document["start"].removesuffix("\0").rpartition("/")
            if document["v"] == _TOKEN_VERSION and type(document["rv"]) is int and document["rv"] > 0:
                return cls(document["rv"], (namespace, name))
        except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
            pass
        raise bad_request("invalid continue token: continue key is not valid")


class ReadVerbs:
    """Implementation of the verbs get and list on the objects of an `ApiState`, with the states of unfinished lists."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._snapshots: OrderedDict[tuple[int, str, str], list[StoredObject]] = OrderedDict()

    def find(self, kind: ServedKind, request_path: RequestPath) -> StoredObject:
        """Return the object at `request_path`.

        Raises: Refusal (404 if the object is absent, 500 if the requested version is malformed, 504 if the requested
        version is in the future).
        """
        self._check_version(parse_resource_version(request_path.query.get("resourceVersion", "")))
        return self._state.find(kind, request_path.namespace, request_path.name)

    def select(self, kind: ServedKind, request_path: RequestPath) -> list[StoredObject]:
        """Return all objects that the request selects, in the order of namespace and name.

        Raises: Refusal (400 if a selector is malformed).
        """
        matches, _ = parse_selection(kind, request_path)
        resource_store = self._state.store.resource_store(kind.resource)
        return [stored for stored in resource_store.sorted_objects(request_path.namespace) if matches(stored)]

    def list_page(self, kind: ServedKind, request_path: RequestPath, representation: Representation) -> bytes:
        """Return a page of a list, encoded in the form `representation`.

        Raises: Refusal (400 or 422 for wrong options, 410 for an expired version, 504 for a version in the future).
        """
        matches, is_filtered = parse_selection(kind, request_path)
        options = parse_list_options(request_path.query)
        limit, version = options.limit, self._state.store.version
        if options.continue_token:
            version, items = self._resume(kind, request_path, _ContinueToken.parse(options.continue_token))
        else:
            self._check_version(options.version)
            if options.exact and options.version != version:
                raise expired_refusal("The resourceVersion for the provided list is too old.")
            if options.version == 0:  # here the real server answers from a cache, without pages
                limit = 0
            items = self._state.store.resource_store(kind.resource).sorted_objects(request_path.namespace)
        page, remaining = _take_page((item for item in items if matches(item)), limit)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if remaining is not None:
            self._keep_snapshot((version, kind.resource, request_path.namespace), items)
            metadata["continue"] = _ContinueToken(version, page[-1].key[1:]).text
            if not is_filtered:
                metadata["remainingItemCount"] = 1 + sum(1 for _ in remaining)
        return encode_list(kind, page, representation, metadata)

    def _resume(
        self, kind: ServedKind, request_path: RequestPath, token: _ContinueToken
    ) -> tuple[int, list[StoredObject]]:
        snapshot = self._snapshots.get((token.version, kind.resource, request_path.namespace))
        if snapshot is None:
            raise expired_refusal(_EXPIRED_MESSAGE)
        return token.version, [item for item in snapshot if item.key[1:] > token.start]

    def _keep_snapshot(self, key: tuple[int, str, str], items: list[StoredObject]) -> None:
        self._snapshots.setdefault(key, items)
        while len(self._snapshots) > MAX_LIST_SNAPSHOTS:
            self._snapshots.popitem(last=False)

    def _check_version(self, version: int | None) -> None:
        current = self._state.store.version
        if version is not None and version > current:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: Too large resource version: {version}, current: {current}"
            raise Refusal(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)


def _take_page(items: Iterator[StoredObject], limit: int) -> tuple[list[StoredObject], Iterator[StoredObject] | None]:
    """Return the first `limit` items, and an iterator over all remaining items except the next item.

    The function reads the next item to learn whether another page follows. If no item is left, the second result is
    None. If `limit` is not positive, the first result has all items.
    """
    if limit <= 0:
        return list(items), None
    return list(islice(items, limit)), items if next(items, None) else None
