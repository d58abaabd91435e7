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

from applier.sandbox.addresses import Address
from applier.sandbox.kinds import Kind
from applier.sandbox.selectors import field_selector, label_selector
from applier.sandbox.shapes import Look, list_bytes
from applier.sandbox.state import State
from applier.sandbox.store import Stored
from applier.sandbox.wire import (
    Refusal,
    Subject,
    bad_request,
    expired,
    forbidden,
    invalid_object,
    not_found,
    unsupported,
)
from renderer.values import dataclass

SNAPSHOTS = 32
"""Lists that are being read in pages, kept at once."""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "configmaps": (),
    "events": (
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "reason",
        "type",
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase", "status.podIP"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}
"""What field selectors may ask for beside name and namespace."""

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)

Match = Callable[[Stored], bool]


def selection(kind: Kind, address: Address) -> tuple[Match, bool]:
    """Which objects an address means, and whether it leaves any out. Raises Refusal (400)."""
    labels, fields = address.query.get("labelSelector", ""), address.query.get("fieldSelector", "")
    matches_labels = label_selector(labels)
    terms = field_selector(fields)
    for path, _, _ in terms:
        if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind.resource, ())):
            allowed = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{path}" is not a known field selector: only {allowed}')

    def matches(stored: Stored) -> bool:
        return matches_labels(stored.labels) and all(
            (_field(stored, path) == value) is equal for path, value, equal in terms
        )

    return matches, bool(labels.strip() or terms)


def _field(stored: Stored, path: str) -> str:
    match path:
        case "metadata.name":
            return stored.key.name
        case "metadata.namespace":
            return stored.key.namespace
    value: Any = stored.object()
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def number(query: Mapping[str, str], name: str) -> int:
    """A parameter that is a whole number, 0 if it is not given. Raises Refusal (400)."""
    text = query.get(name, "")
    if not text:
        return 0
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


@dataclass(frozen=True, slots=True)
class _Token:
    """Where a page begins: after the object `start`, in the state of `version`."""

    version: int
    start: tuple[str, str]

    @property
    def text(self) -> str:
        document = {"v": "meta.k8s.io/v1", "rv": self.version, "start": "/".join(self.start) + "\0"}
        return base64.urlsafe_b64encode(orjson.dumps(document)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> _Token:
        try:
            document = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
            namespace, _, name = document["start"].removesuffix("\0").rpartition("/")
            if type(document["rv"]) is int:
                return cls(document["rv"], (namespace, name))
        except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
            pass
        raise bad_request("invalid continue token: continue key is not valid")


class Reading:
    """The read verbs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._snapshots: OrderedDict[tuple[int, str, str], builtins.list[Stored]] = OrderedDict()

    def find(self, kind: Kind, address: Address) -> Stored:
        """Raises Refusal (404, 400, 504)."""
        self._check_version(address.query)
        stored = self._state.store.get(kind.key(address.namespace, address.name))
        if stored is None:
            raise not_found(kind.subject(address.name))
        return stored

    def select(self, kind: Kind, address: Address) -> builtins.list[Stored]:
        """All objects that an address means, in order."""
        matches, _ = selection(kind, address)
        return [stored for stored in self._all(kind, address.namespace) if matches(stored)]

    def list(self, kind: Kind, address: Address, look: Look) -> bytes:
        """Raises Refusal (400, 410, 422, 504)."""
        query = address.query
        matches, partial = selection(kind, address)
        limit, token = number(query, "limit"), query.get("continue", "")
        version, items = self._state.store.version, None
        if token:
            if query.get("resourceVersion", "0") not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            version, items = self._resume(kind, address, _Token.parse(token))
        else:
            self._check_match(query)
            self._check_version(query)
        if items is None:
            items = self._all(kind, address.namespace)
        page, rest = _page((item for item in items if matches(item)), limit)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if rest is not None:
            self._keep((version, kind.resource, address.namespace), items)
            metadata["continue"] = _Token(version, page[-1].key[1:]).text
            if not partial:
                metadata["remainingItemCount"] = 1 + sum(1 for _ in rest)
        return list_bytes(kind, page, look, metadata)

    def _all(self, kind: Kind, namespace: str) -> builtins.list[Stored]:
        shelf = self._state.store.shelf(kind.resource)
        return [shelf.objects[key] for key in shelf.keys(namespace or None)]

    def _resume(self, kind: Kind, address: Address, token: _Token) -> tuple[int, builtins.list[Stored]]:
        kept = self._snapshots.get((token.version, kind.resource, address.namespace))
        if kept is None:
            raise expired(_EXPIRED)
        return token.version, [item for item in kept if item.key[1:] > token.start]

    def _keep(self, key: tuple[int, str, str], items: builtins.list[Stored]) -> None:
        if key not in self._snapshots:
            self._snapshots[key] = items
            while len(self._snapshots) > SNAPSHOTS:
                self._snapshots.popitem(last=False)

    def _check_version(self, query: Mapping[str, str]) -> None:
        text = query.get("resourceVersion", "")
        if text and not (text.isdecimal() and len(text) < 19):
            told = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
            raise bad_request(f"invalid resource version: {told}")
        if text and int(text) > self._state.store.version:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: Too large resource version: {text}, current: {self._state.store.version}"
            raise Refusal(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)

    def _check_match(self, query: Mapping[str, str]) -> None:
        asked = query.get("resourceVersionMatch", "")
        options = Subject("meta.k8s.io", "", "ListOptions")
        if not asked:
            return
        if not query.get("resourceVersion"):
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise invalid_object(options, [forbidden("resourceVersionMatch", why)])
        if asked not in ("Exact", "NotOlderThan"):
            mistake = unsupported("resourceVersionMatch", asked, ("Exact", "NotOlderThan", ""))
            raise invalid_object(options, [mistake])
        if asked == "Exact" and query["resourceVersion"] != str(self._state.store.version):
            raise expired("The resourceVersion for the provided list is too old.")


def _page(items: Iterator[Stored], limit: int) -> tuple[list[Stored], Iterator[Stored] | None]:
    """The first `limit` (0: all), and what comes after the one that follows them, None if none does."""
    page: list[Stored] = []
    for item in items:
        if limit > 0 and len(page) == limit:
            return page, items
        page.append(item)
    return page, None
