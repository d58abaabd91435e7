"""Comparison of an applied intent with the managed fields of the live object. Pure.

If another client changes or removes the value of a field, the API server removes the field from all other entries
(KEP-555, "managed fields"). So while Levelgate's Apply entry owns every leaf of the intent, all applied values are
intact. The module compares no values, because the server may write a value in another form (`1000m` as `1`). Fields
that other managers add belong to those managers. `fields_v1` describes the keys of entries.

Two parts of an intent are not comparable. The server drops some nulls and keeps other nulls, so an intent must have no
nulls. The server records Levelgate as the owner of `stringData` of a Secret, and does not store `stringData`, so an
intent must use `data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from applier.cluster import CONTENT_MANAGER, Object
from applier.state.field_conflicts import ConflictPolicy, FieldOwner
from applier.state.fields_v1 import (
    Fields,
    count_key_fields,
    expected_key,
    format_element,
    key_names,
    matches,
    owned_at,
    parse_key,
)
from renderer.frozen import dataclass

_NOTHING: Fields = {".": {}}
"""Entry that owns no part of an object. An empty mapping would own the whole object."""

_ABSENT: Any = object()
"""Marker of a part that the intent does not have. None cannot be the marker, because None is a null in a list."""

_Part = tuple[str, Any, Fields | None]
"""Part of a value: the key in an entry, the value in the intent (or `_ABSENT`), and the owned fields.

If the entry owns no field of the part, the owned fields are None.
"""

_Owned = tuple[FieldOwner, Fields]
"""Manager, with the fields that the manager owns."""

_IDENTITY_FIELDS = frozenset({"apiVersion", "kind"})
_SERVER_METADATA_FIELDS = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
    }
)
"""Metadata that the server never records as owned, because the metadata identifies the object or belongs to the server.
"""


@dataclass(frozen=True, slots=True)
class LostField:
    """Field of the intent that another manager changed or removed."""

    path: str
    """Path in the notation of the server, such as `.spec.replicas`."""
    owner: str = ""
    """Names of the managers that own the field now. If the field is absent, the string is empty."""
    keys: tuple[str, ...] = field(default=(), compare=False)
    """Path to the field in an entry of `managedFields`."""
    managers: tuple[FieldOwner, ...] = field(default=(), compare=False)
    """Managers that own the field now."""

    def is_healed_under(self, policy: ConflictPolicy) -> bool:
        """Return whether `policy` takes back the field from all its managers."""
        return all(map(policy.takes_from, self.managers))

    def __str__(self) -> str:
        return f"{self.path} is changed by {self.owner}" if self.owner else f"{self.path} is removed"


@dataclass(frozen=True, slots=True)
class Ownership:
    """Result of comparing an intent with its Apply entry."""

    lost: tuple[LostField, ...] = ()
    """Fields that other managers changed or removed."""
    surplus: tuple[str, ...] = ()
    """Paths of fields that the entry owns and the intent does not have."""


@dataclass(frozen=True, slots=True)
class _FieldDifference:
    """Difference between an intent and an entry.

    A `lost` part is only in the intent, and a `surplus` part only in the entry. A `whole` part is a map or list of the
    intent that the entry owns without parts. The map or list is either atomic, or has lost all its parts.
    """

    kind: Literal["lost", "surplus", "whole"]
    keys: tuple[str, ...]
    value: Any = None

    @property
    def path(self) -> str:
        return "".join(map(format_element, self.keys))


def metadata_without_status_writes(obj: Object) -> Object:
    """Return the metadata of `obj` without the parts that a write of its status changes."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    entries = [entry for entry in manager_entries(obj) if entry.get("subresource") != "status"]
    return {**metadata, "managedFields": entries}


def manager_entries(obj: Object) -> list[Object]:
    """Return the entries of `managedFields`, or no entries if the server returns none."""
    return obj["metadata"].get("managedFields") or []


def apply_entry(live: Object, manager: str) -> Mapping[str, Any] | None:
    """Return the entry of `managedFields` by which `manager` applied the object itself, not a subresource.

    If `manager` never applied the object, or has lost all fields, return None.
    """
    return next((entry for entry in manager_entries(live) if _is_apply_of(entry, manager)), None)


def owned_metadata(entry: Mapping[str, Any] | None, section: str) -> tuple[str, ...]:
    """Return the names that `entry` owns separately in `section` of the metadata: labels, annotations or finalizers.

    If the entry owns the section as a whole, without names, return no names.
    """
    fields = entry.get("fieldsV1") if entry else None
    elements = owned_at(fields or _NOTHING, ("f:metadata", f"f:{section}")) or ()
    return tuple(
        parse_key(element[2:]) if element.startswith("v:") else element[2:] for element in elements if element != "."
    )


def applied_at(live: Object, manager: str) -> datetime | None:
    """Return the time at which `manager` last applied the object, or None if no entry records such an apply.

    The time is from the server's clock.
    """
    time = (apply_entry(live, manager) or {}).get("time")
    return datetime.fromisoformat(time) if time else None


def compare_ownership(live: Object, intent: Object, manager: str) -> Ownership | None:
    """Return the comparison of `intent` with the Apply entry of `manager`, or None if `live` has no such entry.

    If other clients have become owners of all fields in the entry, `live` has no such entry.

    Args:
        intent: manifest that `manager` applied. The identity (apiVersion, kind, name, namespace) may be absent.
    """
    our_entry = apply_entry(live, manager)
    if our_entry is None:
        return None
    others = [
        (FieldOwner.from_entry(entry), entry.get("fieldsV1") or _NOTHING)
        for entry in manager_entries(live)
        if entry is not our_entry
    ]
    comparable_live = live if live.get("apiVersion") == our_entry.get("apiVersion") else None
    differences: list[_FieldDifference] = []
    _compare(_intent_content(intent), our_entry.get("fieldsV1") or _NOTHING, keys=(), differences=differences)
    return Ownership(
        lost=tuple(
            lost_field
            for difference in differences
            if _is_lost(difference, comparable_live, others)
            for lost_field in _lost_fields(difference, others)
        ),
        surplus=tuple(difference.path for difference in differences if difference.kind == "surplus"),
    )


def without_fields(intent: Object, fields: Iterable[LostField]) -> Object:
    """Return a copy of `intent` without `fields`, and without the maps and lists that the removal empties."""
    for lost_field in fields:
        intent = _without(intent, lost_field.keys)
    return intent


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """Return `value` without the part at `keys`, or `value` itself if the part is absent."""
    element, *rest = keys
    place: Any = element[2:] if isinstance(value, dict) else None
    if isinstance(value, list):
        place = next((index for index, item in enumerate(value) if matches(item, element, index)), None)
    part = _at_place(value, place)
    if part is None:
        return value
    remaining = _without(part, tuple(rest)) if rest else None
    if isinstance(value, dict):
        return {
            name: remaining if name == place else item for name, item in value.items() if name != place or remaining
        }
    return [remaining if index == place else item for index, item in enumerate(value) if index != place or remaining]


def _at_place(value: Any, place: Any) -> Any:
    if isinstance(value, dict):
        return value.get(place)
    return value[place] if isinstance(value, list) and place is not None else None


def is_fully_owned(live: Object, intent: Object, manager: str) -> bool:
    """Return whether `manager` visibly owns every field of `intent`, down through maps to scalars.

    The function is a fast test for the common case. If the function returns False, `compare_ownership` may still find
    that no field is lost.
    """
    our_entry = apply_entry(live, manager)
    return our_entry is not None and _owns_all(our_entry.get("fieldsV1") or _NOTHING, _intent_content(intent))


def annotation_managers(live: Object, name: str) -> tuple[str, ...]:
    """Return the field managers of the annotation `name`, with the last writer at the end.

    If the server returns no `managedFields`, return no managers.
    """
    entries = sorted(manager_entries(live), key=lambda entry: entry.get("time") or "")
    path = ("f:metadata", "f:annotations", f"f:{name}")
    return tuple(
        entry.get("manager", "") for entry in entries if owned_at(entry.get("fieldsV1") or {}, path) is not None
    )


def is_annotated_by_others(live: Object, name: str) -> bool:
    """Return whether a manager other than Levelgate owns the annotation `name` of `live`.

    Another owner proves that the annotation is not only a copy of Git. If the server returns no `managedFields`, return
    True.
    """
    return set(annotation_managers(live, name)) != {CONTENT_MANAGER}


def _is_apply_of(entry: Mapping[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _intent_content(intent: Object) -> Object:
    metadata = {
        name: value for name, value in (intent.get("metadata") or {}).items() if name not in _SERVER_METADATA_FIELDS
    }
    content = {name: value for name, value in intent.items() if name not in _IDENTITY_FIELDS and name != "metadata"}
    return content | ({"metadata": metadata} if metadata else {})


def _owns_all(owned: Fields, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    for name, part in value.items():
        child = owned.get(f"f:{name}")
        if child:
            if not _owns_all(child, part):
                return False
        elif child is None or part is None or isinstance(part, dict | list):
            return False
    return True


def _compare(value: Any, owned: Fields, *, keys: tuple[str, ...], differences: list[_FieldDifference]) -> None:
    """Append to `differences` the differences between `value` and `owned`.

    A leaf is a scalar, or an atomic map or list. An owner of a leaf owns all values below the leaf.
    """
    if not owned:
        if isinstance(value, dict | list) and _is_substantial(value):
            differences.append(_FieldDifference("whole", keys, value))
        return
    for key, part, child in _parts(value, owned):
        if child is None:
            differences.append(_FieldDifference("lost", (*keys, key), part))
        elif part is _ABSENT:
            differences.append(_FieldDifference("surplus", (*keys, key)))
        elif child or isinstance(part, dict | list):
            _compare(part, child, keys=(*keys, key), differences=differences)


def _parts(value: Any, owned: Fields) -> Iterator[_Part]:
    match value:
        case dict():
            return _members(value, owned)
        case list():
            return _items(value, owned)
        case _:
            return iter(())  # a scalar of Levelgate that an older schema had as a map


def _members(value: Mapping[str, Any], owned: Fields) -> Iterator[_Part]:
    for name, part in value.items():
        if part is not None:
            key = f"f:{name}"
            yield key, part, owned.get(key)
    yield from ((key, _ABSENT, child) for key, child in owned.items() if key != "." and key[2:] not in value)


def _items(value: Sequence[Any], owned: Fields) -> Iterator[_Part]:
    """Yield the items of a list with their entries, each entry once.

    Items with more key fields choose their entry first, because an item that omits a key field matches several entries.
    """
    unmatched = {key: child for key, child in owned.items() if key != "."}
    names = key_names(unmatched)
    for index, item in sorted(enumerate(value), key=lambda pair: -count_key_fields(pair[1], names)):
        key = next((key for key in unmatched if matches(item, key, index)), None)
        if key is None:
            yield expected_key(item, index, owned), item, None
        else:
            yield key, item, unmatched.pop(key)
    yield from ((key, _ABSENT, child) for key, child in unmatched.items())


def _is_substantial(value: Any) -> bool:
    """Return whether the server certainly stores a part of `value`.

    The server may drop nulls, zeros and empty values.
    """
    match value:
        case dict():
            return any(map(_is_substantial, value.values()))
        case list():
            return any(map(_is_substantial, value))
        case _:
            return bool(value)


def _is_lost(difference: _FieldDifference, live: Object | None, others: Sequence[_Owned]) -> bool:
    """Return whether the part of `difference` is lost.

    If Levelgate owns an atomic map or list, all parts seem to be lost. If the value exists and no other manager owns a
    part of the value, the value is not lost. For an empty list of keyed items the server records no owner, and often
    stores no list. Items that other managers add to this list belong to those managers. So the list is lost only to a
    manager that owns the whole list.

    Args:
        live: live object, or None if the live object has another version than the entry. If None, only the entries of
            other managers decide.
    """
    if difference.kind == "lost" and difference.value == []:
        return any(owned_at(fields, difference.keys) == {} for _, fields in others)
    if difference.kind != "whole":
        return difference.kind == "lost"
    is_left = live is None or _value_at(live, difference.keys)
    return not is_left or any(owned_at(fields, difference.keys) for _, fields in others)


def _value_at(value: Any, keys: tuple[str, ...]) -> Any:
    """Return the part of `value` at `keys` of an entry, or None if the part is absent."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key[2:])
        elif isinstance(value, list):
            value = next((item for index, item in enumerate(value) if matches(item, key, index)), None)
        else:
            return None
    return value


def _lost_fields(difference: _FieldDifference, others: Sequence[_Owned]) -> Iterator[LostField]:
    """Yield the fields to report for a lost part.

    If other managers own some members of the part, yield these members separately. Otherwise yield the part itself.
    """
    owned_parts = [(manager, owned_at(fields, difference.keys)) for manager, fields in others]
    if isinstance(difference.value, dict) and any(fields for _, fields in owned_parts):
        for name, value in difference.value.items():
            key = f"f:{name}"
            yield from _lost_fields(_FieldDifference("lost", (*difference.keys, key), value), others)
    else:
        managers = tuple(manager for manager, fields in owned_parts if fields is not None)
        yield LostField(difference.path, ", ".join(dict.fromkeys(map(str, managers))), difference.keys, managers)
