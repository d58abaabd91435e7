"""Entries of `metadata.managedFields`, by their owner.

An owner is a manager with an operation and a subresource. For updates, each API version is a separate owner.

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
"""Maximum number of separate update entries. If an object has more entries, the server merges the oldest entries."""

_ANCIENT_MANAGER: Final = "ancient-changes"


class ManagerKey(NamedTuple):
    """Identity of the owner of an entry in `managedFields`."""

    manager: str
    operation: Operation
    version: str
    """API version of an update. An apply has a single entry for all versions, so the version of an apply is empty."""
    subresource: str = ""

    def __str__(self) -> str:
        """Return the name of the owner in messages about conflicts: `"m" with subresource "status" using v1`."""
        text = format_json(self.manager)
        if self.subresource:
            text += f" with subresource {format_json(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == "Update" else text

    @property
    def sort_key(self) -> bytes:
        """Return a sort key for the server's order of owners, which compares the JSON of the owners."""
        key_fields = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.version,
            "subresource": self.subresource,
        }
        return orjson.dumps({name: value for name, value in key_fields.items() if value})


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """Fields of an owner, with the API version and the time of the owner's last change."""

    fields: Fields
    version: str
    time: str
    """Time of the last change in RFC 3339, or an empty string if the owner never changed the object."""
    original: Mapping[str, Any] | None = field(default=None, compare=False)
    """Encoded entry of the live object. The server reuses the encoded entry until the entry changes."""


Entries = dict[ManagerKey, ManagedFieldsEntry]


def read_entries(obj: Object | None) -> Entries:
    """Return the entries of `obj`, an object from the store, or no entries if `obj` is None."""
    raw_entries = ((obj or {}).get("metadata") or {}).get("managedFields") or ()
    return {_parse_owner(raw_entry): _parse_entry(raw_entry, original=raw_entry) for raw_entry in raw_entries}


def parse_entries(raw_entries: Any) -> Entries:
    """Return the entries that a client sent, or no entries if an entry is invalid."""
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
    """Return `entries` in the server's order: applies before updates, then by time, then by manager."""
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
    """Return `entries` with at most `MAX_UPDATE_ENTRIES` updates.

    For each API version, a single entry replaces the oldest updates.
    """
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
    """Return whether `left` and `right`, in the form of `managedFields`, are equal apart from `time`."""
    return [_without_time(raw_entry) for raw_entry in left] == [_without_time(raw_entry) for raw_entry in right]


def _without_time(raw_entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw_entry.items() if name != "time"}


_UNKNOWN_MANAGER: Final = "unknown"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Writer of a change.

    The server drops field ownership in versions that the server does not serve. An object has the same form in all
    versions, as for a CRD without conversion.
    """

    manager: str
    """Name of the manager."""
    type: MergeType
    """Type of the kind in `version`."""
    version: str
    """API version of the change."""
    time: str
    """Time of the change, in RFC 3339, UTC and whole seconds."""
    subresource: str = ""
    reset_fields: ResetFields = frozenset()
    other_types: Mapping[str, MergeType] | None = None
    """Types of the kind in all other served API versions."""
    blank: Mapping[str, Any] = field(default_factory=dict)
    """The server's representation of an empty object. A create does not own the fields of this object. For built-in
    kinds, the object has the structures that are never absent (`spec: {}`), with their contents.
    """

    def manager_key(self, operation: Operation) -> ManagerKey:
        version = self.version if operation == "Update" else ""
        return ManagerKey(self.manager or _UNKNOWN_MANAGER, operation, version, self.subresource)

    @property
    def types_by_version(self) -> Mapping[str, MergeType]:
        """Return the types of the kind in all served versions, by API version."""
        return {**(self.other_types or {}), self.version: self.type}
