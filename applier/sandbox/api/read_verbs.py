"""Get and list: consistent reads, selectors, pages.

Pages of one list show one state: the first page keeps references to what was there, for as long as there is room. A
page of a state that is no longer kept is refused as expired (410), and the client starts again.
"""

from __future__ import annotations

import base64
import binascii
import builtins
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from applier.sandbox.api.options import list_options, version_of
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.selectors import field_selector, label_selector
from applier.sandbox.api.state import ApiState
from applier.sandbox.jsonpath import at
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.representations import Representation, list_bytes
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Refusal, bad_request, expired, not_found
from renderer.frozen import dataclass

SNAPSHOTS = 32
"""Lists that are being read in pages, kept at once."""

_METADATA = {"metadata.name": "", "metadata.namespace": ""}
_EVENT = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "certificatesigningrequests.certificates.k8s.io": {"spec.signerName": ""},
    "events": dict.fromkeys(
        (*(f"involvedObject.{name}" for name in _EVENT), "reason", "reportingComponent", "type"), ""
    ),
    "events.events.k8s.io": dict.fromkeys(
        (*(f"regarding.{name}" for name in _EVENT), "reason", "reportingController", "type"), ""
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
"""What field selectors may ask for beside name and namespace, and what is found where there is nothing."""

_WITHOUT_NAMESPACE = frozenset({"namespaces", "nodes"})

_TOKEN = "meta.k8s.io/v1"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)

Match = Callable[[StoredObject], bool]


def selection(kind: ServedKind, address: RequestPath) -> tuple[Match, bool]:
    """Which objects an address means, and whether it leaves any out. Raises Refusal (400)."""
    labels, fields = address.query.get("labelSelector", ""), address.query.get("fieldSelector", "")
    matches_labels = label_selector(labels)
    terms = field_selector(fields)
    known = {**_METADATA, **_FIELDS.get(kind.resource, {}), **dict.fromkeys(kind.selectable, "")}
    if kind.resource in _WITHOUT_NAMESPACE:
        del known["metadata.namespace"]
    for path, _, _ in terms:
        if path not in known:
            raise bad_request(f"field label not supported: {path}")

    def matches(stored: StoredObject) -> bool:
        return matches_labels(stored.labels) and all(
            (_field(stored, path, known[path]) == value) is equal for path, value, equal in terms
        )

    return matches, bool(labels.strip() or terms)


def _field(stored: StoredObject, path: str, absent: str) -> str:
    match path:
        case "metadata.name":
            return stored.key.name
        case "metadata.namespace":
            return stored.key.namespace
    value = at(stored.object(), path)
    return absent if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class _Token:
    """Where a page begins: after the object `start`, in the state of `version`."""

    version: int
    start: tuple[str, str]

    @property
    def text(self) -> str:
        document = {"v": _TOKEN, "rv": self.version, "start": "/".join(self.start) + "\0"}
        return base64.urlsafe_b64encode(orjson.dumps(document)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> _Token:
        try:
            document = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
            namespace, _, name = document["start"].removesuffix("\0").rpartition("/")
            if document["v"] == _TOKEN and type(document["rv"]) is int and document["rv"] > 0:
                return cls(document["rv"], (namespace, name))
        except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
            pass
        raise bad_request("invalid continue token: continue key is not valid")


class ReadVerbs:
    """The read verbs."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._snapshots: OrderedDict[tuple[int, str, str], builtins.list[StoredObject]] = OrderedDict()

    def find(self, kind: ServedKind, address: RequestPath) -> StoredObject:
        """Raises Refusal (404, 500, 504)."""
        self._check_version(version_of(address.query.get("resourceVersion", "")))
        stored = self._state.store.get(kind.key(address.namespace, address.name))
        if stored is None:
            raise not_found(kind.subject(address.name))
        return stored

    def select(self, kind: ServedKind, address: RequestPath) -> builtins.list[StoredObject]:
        """All objects that an address means, in order."""
        matches, _ = selection(kind, address)
        return [stored for stored in self._all(kind, address.namespace) if matches(stored)]

    def list(self, kind: ServedKind, address: RequestPath, look: Representation) -> bytes:
        """Raises Refusal (400, 410, 422, 504)."""
        matches, partial = selection(kind, address)
        options = list_options(address.query)
        limit, version = options.limit, self._state.store.version
        if options.token:
            version, items = self._resume(kind, address, _Token.parse(options.token))
        else:
            self._check_version(options.version)
            if options.exact and options.version != version:
                raise expired("The resourceVersion for the provided list is too old.")
            if options.version == 0:  # Served from a cache, which knows no pages.
                limit = 0
            items = self._all(kind, address.namespace)
        page, rest = _page((item for item in items if matches(item)), limit)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if rest is not None:
            self._keep((version, kind.resource, address.namespace), items)
            metadata["continue"] = _Token(version, page[-1].key[1:]).text
            if not partial:
                metadata["remainingItemCount"] = 1 + sum(1 for _ in rest)
        return list_bytes(kind, page, look, metadata)

    def _all(self, kind: ServedKind, namespace: str) -> builtins.list[StoredObject]:
        shelf = self._state.store.shelf(kind.resource)
        return [shelf.objects[key] for key in shelf.keys(namespace or None)]

    def _resume(self, kind: ServedKind, address: RequestPath, token: _Token) -> tuple[int, builtins.list[StoredObject]]:
        kept = self._snapshots.get((token.version, kind.resource, address.namespace))
        if kept is None:
            raise expired(_EXPIRED)
        return token.version, [item for item in kept if item.key[1:] > token.start]

    def _keep(self, key: tuple[int, str, str], items: builtins.list[StoredObject]) -> None:
        if key not in self._snapshots:
            self._snapshots[key] = items
            while len(self._snapshots) > SNAPSHOTS:
                self._snapshots.popitem(last=False)

    def _check_version(self, version: int | None) -> None:
        present = self._state.store.version
        if version is not None and version > present:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: Too large resource version: {version}, current: {present}"
            raise Refusal(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)


def _page(items: Iterator[StoredObject], limit: int) -> tuple[list[StoredObject], Iterator[StoredObject] | None]:
    """The first `limit` (0: all), and what comes after the one that follows them, None if none does."""
    page: list[StoredObject] = []
    for item in items:
        if limit > 0 and len(page) == limit:
            return page, items
        page.append(item)
    return page, None
