"""Entries of `metadata.managedFields`, by their owner.

An owner is a manager with an operation and a subresource. For updates, each API version is an owner of its own.

Source: apimachinery `managedfields`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple

import orjson

from applier.cluster import Object
from applier.sandbox.merge.field_set import Fields, decode, encode, union
from applier.sandbox.merge.path_elements import InvalidFieldsError, format_json
from applier.sandbox.merge.reset_fields import ResetFields
from applier.sandbox.merge.types import MergeType
from renderer.frozen import dataclass

Operation = Literal["Apply", "Update"]

MAX_UPDATE_ENTRIES: Final = 10
"""So many entries of updates are kept apart; the oldest beyond are put together."""

_ANCIENT_MANAGER: Final = "ancient-changes"


class ManagerKey(NamedTuple):
    manager: str
    operation: Operation
    version: str
    """API version of an update; "" of an apply, which has one entry in whatever version."""
    subresource: str = ""

    def __str__(self) -> str:
        """As conflicts name it: `"m" with subresource "status" using v1`."""
        text = format_json(self.manager)
        if self.subresource:
            text += f" with subresource {format_json(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == "Update" else text

    @property
    def sort_key(self) -> bytes:
        """Sorts owners as the server does, which compares them as JSON."""
        key_fields = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.version,
            "subresource": self.subresource,
        }
        return orjson.dumps({name: value for name, value in key_fields.items() if value})


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    fields: Fields
    version: str
    time: str
    """RFC 3339; "" if the object never changed by what this owner did."""
    original: Mapping[str, Any] | None = field(default=None, compare=False)
    """How it stands in the live object, from which it was read; it need not be written anew."""


Entries = dict[ManagerKey, ManagedFieldsEntry]


def read_entries(obj: Object | None) -> Entries:
    """Those of a live object, which we wrote."""
    raw_entries = ((obj or {}).get("metadata") or {}).get("managedFields") or ()
    return {_parse_owner(raw_entry): _parse_entry(raw_entry, original=raw_entry) for raw_entry in raw_entries}


def parse_entries(raw_entries: Any) -> Entries:
    """Those that a client sent; none of them if one is not valid."""
    if not isinstance(raw_entries, list):
        return {}
    try:
        return {_parse_owner(raw_entry): _parse_entry(raw_entry) for raw_entry in raw_entries}
    except InvalidFieldsError:
        return {}


def _parse_owner(raw_entry: Any) -> ManagerKey:
    if not isinstance(raw_entry, Mapping):
        raise InvalidFieldsError("an entry is not an object")
    operation = raw_entry.get("operation")
    if operation not in ("Apply", "Update"):
        raise InvalidFieldsError("operation must be `Apply` or `Update`")
    version = "" if operation == "Apply" else _get_text(raw_entry, "apiVersion")
    return ManagerKey(_get_text(raw_entry, "manager"), operation, version, _get_text(raw_entry, "subresource"))


def _parse_entry(raw_entry: Mapping[str, Any], *, original: Mapping[str, Any] | None = None) -> ManagedFieldsEntry:
    version = _get_text(raw_entry, "apiVersion")
    if not version:
        raise InvalidFieldsError("apiVersion must not be empty")
    if raw_entry.get("fieldsType") != "FieldsV1":
        raise InvalidFieldsError(f"invalid fieldsType {raw_entry.get('fieldsType')!r}")
    fields = raw_entry.get("fieldsV1") or {}
    if not isinstance(fields, dict):
        raise InvalidFieldsError("fieldsV1 is not an object")
    return ManagedFieldsEntry(decode(fields), version, _get_text(raw_entry, "time"), original)


def _get_text(raw_entry: Mapping[str, Any], name: str) -> str:
    value = raw_entry.get(name) or ""
    if not isinstance(value, str):
        raise InvalidFieldsError(f"{name} is not text")
    return value


def encode_entries(entries: Entries) -> list[Mapping[str, Any]]:
    """In the server's order: applies before updates, then by time, then by name."""
    return [
        entry.original or _encode_entry(owner, entry) for owner, entry in sorted(entries.items(), key=_entry_sort_key)
    ]


def _entry_sort_key(item: tuple[ManagerKey, ManagedFieldsEntry]) -> tuple[str, ...]:
    owner, entry = item
    return owner.operation, entry.time, owner.manager, entry.version, owner.subresource


def _encode_entry(owner: ManagerKey, entry: ManagedFieldsEntry) -> dict[str, Any]:
    raw_entry = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": entry.version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": encode(entry.fields),
        "subresource": owner.subresource,
    }
    return {name: value for name, value in raw_entry.items() if value or name == "fieldsV1"}


def merge_oldest_updates(entries: Entries) -> Entries:
    """With the oldest updates put together, one entry for each API version, until there are no more than `MAX_UPDATE_ENTRIES`."""
    updates = [owner for owner in entries if owner.operation == "Update"]
    surplus = len(updates) - MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return entries
    updates.sort(key=lambda owner: (entries[owner].time, owner.sort_key))
    merged = dict(entries)
    oldest_owners: dict[str, ManagerKey] = {}
    for owner in updates:
        if not surplus:
            break
        entry = merged[owner]
        merged_owner = ManagerKey(_ANCIENT_MANAGER, "Update", entry.version)
        if entry.version not in oldest_owners:
            oldest_owners[entry.version] = owner
            continue
        if merged_owner not in merged:
            merged[merged_owner] = merged.pop(oldest_owners[entry.version])
        merged[merged_owner] = ManagedFieldsEntry(
            union(entry.fields, merged[merged_owner].fields), entry.version, entry.time
        )
        if owner != merged_owner:
            del merged[owner]
        surplus -= 1
    return merged


def is_equal_except_times(left: Iterable[Mapping[str, Any]], right: Iterable[Mapping[str, Any]]) -> bool:
    return [_without_time(raw_entry) for raw_entry in left] == [_without_time(raw_entry) for raw_entry in right]


def _without_time(raw_entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw_entry.items() if name != "time"}


_UNKNOWN_MANAGER: Final = "unknown"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who writes what: `manager` in `version` (as in apiVersion) at `time` (RFC 3339, UTC, whole seconds).

    `others` are the types of the same kind in other API versions that are served; ownership in a version that is not
    among them is dropped. Objects are taken to look the same in all versions, as in a CustomResourceDefinition without
    conversion.

    `blank` is what the server holds of an object before anything is written: nobody comes to own it by a create. That of
    built-in kinds has the structures that are never absent (`spec: {}`), and what is in them.
    """

    manager: str
    type: MergeType
    version: str
    time: str
    subresource: str = ""
    reset_fields: ResetFields = frozenset()
    other_types: Mapping[str, MergeType] | None = None
    blank: Mapping[str, Any] = field(default_factory=dict)

    def manager_key(self, operation: Operation) -> ManagerKey:
        version = self.version if operation == "Update" else ""
        return ManagerKey(self.manager or _UNKNOWN_MANAGER, operation, version, self.subresource)

    @property
    def types_by_version(self) -> Mapping[str, MergeType]:
        """By API version, of all that are served."""
        return {**(self.other_types or {}), self.version: self.type}
