"""`metadata.managedFields`: who owns what, as entries by their owner.

An owner is a manager with an operation and a subresource; of updates, each API version has its own. Rules: apimachinery
`managedfields`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple

import orjson

from applier.cluster import Object
from applier.sandbox.merge.field_set import Fields, decode, encode, union
from applier.sandbox.merge.path_elements import InvalidFields
from renderer.frozen import dataclass

Operation = Literal["Apply", "Update"]

MAX_UPDATES: Final = 10
"""So many entries of updates are kept apart; the oldest beyond are put together."""

_ANCIENT: Final = "ancient-changes"


class ManagerKey(NamedTuple):
    manager: str
    operation: Operation
    version: str
    """API version of an update; "" of an apply, which has one entry in whatever version."""
    subresource: str = ""

    def __str__(self) -> str:
        """As conflicts name it: `"m" with subresource "status" using v1`."""
        text = _quoted(self.manager)
        if self.subresource:
            text += f" with subresource {_quoted(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == "Update" else text

    @property
    def rank(self) -> bytes:
        """Sorts owners as the server does, which compares them as JSON."""
        parts = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.version,
            "subresource": self.subresource,
        }
        return orjson.dumps({name: value for name, value in parts.items() if value})


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    fields: Fields
    version: str
    time: str = ""
    """RFC 3339; "" if the object never changed by what this owner did."""
    wire: Mapping[str, Any] | None = field(default=None, compare=False)
    """How it stands in the live object, from which it was read; it need not be written anew."""


Entries = dict[ManagerKey, ManagedFieldsEntry]


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def stored(obj: Object | None) -> Entries:
    """Those of a live object, which we wrote."""
    managed = ((obj or {}).get("metadata") or {}).get("managedFields") or ()
    return {_owner(each): _entry(each, wire=each) for each in managed}


def sent(managed: Any) -> Entries:
    """Those that a client sent; none of them if one is not valid."""
    if not isinstance(managed, list):
        return {}
    try:
        return {_owner(each): _entry(each) for each in managed}
    except InvalidFields:
        return {}


def _owner(raw: Any) -> ManagerKey:
    if not isinstance(raw, Mapping):
        raise InvalidFields("an entry is not an object")
    operation = raw.get("operation")
    if operation not in ("Apply", "Update"):
        raise InvalidFields("operation must be `Apply` or `Update`")
    version = "" if operation == "Apply" else _text(raw, "apiVersion")
    return ManagerKey(_text(raw, "manager"), operation, version, _text(raw, "subresource"))


def _entry(raw: Mapping[str, Any], *, wire: Mapping[str, Any] | None = None) -> ManagedFieldsEntry:
    version = _text(raw, "apiVersion")
    if not version:
        raise InvalidFields("apiVersion must not be empty")
    if raw.get("fieldsType") != "FieldsV1":
        raise InvalidFields(f"invalid fieldsType {raw.get('fieldsType')!r}")
    fields = raw.get("fieldsV1") or {}
    if not isinstance(fields, dict):
        raise InvalidFields("fieldsV1 is not an object")
    return ManagedFieldsEntry(decode(fields), version, _text(raw, "time"), wire)


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name) or ""
    if not isinstance(value, str):
        raise InvalidFields(f"{name} is not text")
    return value


def write(entries: Entries) -> list[Mapping[str, Any]]:
    """In the server's order: applies before updates, then by time, then by name."""
    return [entry.wire or _written(owner, entry) for owner, entry in sorted(entries.items(), key=_order)]


def _order(item: tuple[ManagerKey, ManagedFieldsEntry]) -> tuple[str, ...]:
    owner, entry = item
    return owner.operation, entry.time, owner.manager, entry.version, owner.subresource


def _written(owner: ManagerKey, entry: ManagedFieldsEntry) -> dict[str, Any]:
    out: dict[str, Any] = {"manager": owner.manager} if owner.manager else {}
    out |= {"operation": owner.operation, "apiVersion": entry.version}
    if entry.time:
        out["time"] = entry.time
    out |= {"fieldsType": "FieldsV1", "fieldsV1": encode(entry.fields)}
    if owner.subresource:
        out["subresource"] = owner.subresource
    return out


def capped(entries: Entries) -> Entries:
    """With the oldest updates put together, one entry for each API version, until there are no more than `MAX_UPDATES`."""
    updates = [owner for owner in entries if owner.operation == "Update"]
    surplus = len(updates) - MAX_UPDATES
    if surplus <= 0:
        return entries
    updates.sort(key=lambda owner: (entries[owner].time, owner.rank))
    out = dict(entries)
    first: dict[str, ManagerKey] = {}
    for owner in updates:
        if not surplus:
            break
        entry = out[owner]
        bucket = ManagerKey(_ANCIENT, "Update", entry.version)
        if entry.version not in first:
            first[entry.version] = owner
            continue
        if bucket not in out:
            out[bucket] = out.pop(first[entry.version])
        out[bucket] = ManagedFieldsEntry(union(entry.fields, out[bucket].fields), entry.version, entry.time)
        if owner != bucket:
            del out[owner]
        surplus -= 1
    return out


def same_but_times(left: Iterable[Mapping[str, Any]], right: Iterable[Mapping[str, Any]]) -> bool:
    return [_timeless(each) for each in left] == [_timeless(each) for each in right]


def _timeless(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name != "time"}
