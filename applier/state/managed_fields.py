"""Whether a live object still holds what we applied, read from its managed fields alone.

When somebody changes or removes the value of a field, the API server takes that field away from every other manager
(KEP-555, "managed fields"). So as long as our Apply entry owns every leaf of the intent, nobody has changed what we
applied, in whatever form the server writes it (`1000m` as `1`); fields that others add are theirs. No values are
compared. Pure.

Two things it cannot see: nulls of the intent (the server drops some and keeps others; send none), and the `stringData`
of a Secret (recorded as ours for ever, and not what is stored; send `data`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import orjson

from applier.cluster import CONTENT_MANAGER, Object
from applier.state.field_conflicts import ConflictPolicy, FieldOwner
from renderer.frozen import dataclass

Fields = Mapping[str, Any]
"""FieldsV1: `f:` members of a map, `k:` items by key, `v:` items by value, `i:` items by index, `.` the thing itself.
"""

_NOTHING: Fields = {".": {}}
"""An entry that owns no part of an object; an empty one would own all of it."""

_ABSENT: Any = object()
"""Stands for a part that the intent does not have; None would be a null in a list."""

_Part = tuple[str, Any, Fields | None]
"""A part of a value: its key in an entry, its value in the intent (or `_ABSENT`), what is owned of it (None:
nothing).
"""

_Owned = tuple[FieldOwner, Fields]
"""A manager, and what it owns."""

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
"""What the server never records as owned: it says which object is meant, or is the server's own."""


@dataclass(frozen=True, slots=True)
class LostField:
    """A field of the intent, in the server's notation (`.spec.replicas`), and who has it now; "" if nobody has, or it
    is gone.

    `keys` lead to it in an entry of `managedFields`. `managers` are those who have it.
    """

    path: str
    owner: str = ""
    keys: tuple[str, ...] = field(default=(), compare=False)
    managers: tuple[FieldOwner, ...] = field(default=(), compare=False)

    def is_healed_under(self, policy: ConflictPolicy) -> bool:
        """Return whether the policy takes the field back from all who have it."""
        return all(map(policy.takes_from, self.managers))

    def __str__(self) -> str:
        return f"{self.path} is changed by {self.owner}" if self.owner else f"{self.path} is removed"


@dataclass(frozen=True, slots=True)
class Ownership:
    """What became of an intent: `lost` fields were changed or removed by others; `surplus` ones are ours, but not of
    this intent.
    """

    lost: tuple[LostField, ...] = ()
    surplus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _FieldDifference:
    """A part that only the intent has (`lost`, with its value), that only our entry has (`surplus`), or a map or list
    of the intent that we own without parts: `whole`, or all of its parts are lost.
    """

    kind: Literal["lost", "surplus", "whole"]
    keys: tuple[str, ...]
    value: Any = None

    @property
    def path(self) -> str:
        return "".join(map(_format_element, self.keys))


def metadata_without_status_writes(obj: Object) -> Object:
    """The metadata without what a write of the status alone changes."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    entries = [entry for entry in manager_entries(obj) if entry.get("subresource") != "status"]
    return {**metadata, "managedFields": entries}


def manager_entries(obj: Object) -> list[Object]:
    """Return the entries of `managedFields`; empty where the server shows none."""
    return obj["metadata"].get("managedFields") or []


def apply_entry(live: Object, manager: str) -> Mapping[str, Any] | None:
    """What `manager` owns by applying the object itself (not a subresource), as `managedFields` says; None if it never did, or lost it all."""
    return next((entry for entry in manager_entries(live) if _is_apply_of(entry, manager)), None)


def owned_metadata(entry: Mapping[str, Any] | None, section: str) -> tuple[str, ...]:
    """Return the names that an entry owns one by one in a *section* of the metadata: labels, annotations, finalizers.

    A section that is owned whole, without names, yields none.
    """
    fields = entry.get("fieldsV1") if entry else None
    elements = _owned_at(fields or _NOTHING, ("f:metadata", f"f:{section}")) or ()
    return tuple(
        _parse_key(element[2:]) if element.startswith("v:") else element[2:] for element in elements if element != "."
    )


def applied_at(live: Object, manager: str) -> datetime | None:
    """Return when `manager` applied the object last, as the server says."""
    time = (apply_entry(live, manager) or {}).get("time")
    return datetime.fromisoformat(time) if time else None


def compare_ownership(live: Object, intent: Object, manager: str) -> Ownership | None:
    """How `manager`'s Apply entry on `live` compares with `intent`; None if there is no such entry, which is also so
    when others took its last field.

    `intent` is the manifest that was applied, whole or without its identity (apiVersion, kind, name, namespace).
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
    """Return a copy of an intent without these fields, and without the maps and lists that are empty then."""
    for lost_field in fields:
        intent = _without(intent, lost_field.keys)
    return intent


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """Return a value without the part that the keys of an entry lead to; as it is where it has no such part."""
    element, *rest = keys
    place: Any = element[2:] if isinstance(value, dict) else None
    if isinstance(value, list):
        place = next((index for index, item in enumerate(value) if _matches(item, element, index)), None)
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
    """A quick yes, to what is the rule: every field of `intent` is `manager`'s, down through maps to scalars. To a no `ownership` says more, perhaps
    that nothing is lost.
    """
    our_entry = apply_entry(live, manager)
    return our_entry is not None and _owns_all(our_entry.get("fieldsV1") or _NOTHING, _intent_content(intent))


def annotation_managers(live: Object, name: str) -> tuple[str, ...]:
    """The field managers that have this annotation, who wrote last at the end; empty where the server does not say."""
    entries = sorted(manager_entries(live), key=lambda entry: entry.get("time") or "")
    path = ("f:metadata", "f:annotations", f"f:{name}")
    return tuple(
        entry.get("manager", "") for entry in entries if _owned_at(entry.get("fieldsV1") or {}, path) is not None
    )


def is_annotated_by_others(live: Object, name: str) -> bool:
    """Return whether an annotation that an object has is more than what Git said once: not only Levelgate wrote it.

    Where the server does not say who did, it counts as written by others.
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
    """Adds the differences below one value to `found`; a leaf owns all that is below it, be it a scalar or an atomic
    map or list.
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
            return iter(())  # a scalar where the schema once had a map: it is ours


def _members(value: Mapping[str, Any], owned: Fields) -> Iterator[_Part]:
    for name, part in value.items():
        if part is not None:
            key = f"f:{name}"
            yield key, part, owned.get(key)
    yield from ((key, _ABSENT, child) for key, child in owned.items() if key != "." and key[2:] not in value)


def _items(value: Sequence[Any], owned: Fields) -> Iterator[_Part]:
    """Pairs items with entries, each entry once. Items that give more keys choose first: one that leaves a key to its
    default fits several.
    """
    unmatched = {key: child for key, child in owned.items() if key != "."}
    names = _key_names(unmatched)
    for index, item in sorted(enumerate(value), key=lambda pair: -_count_key_fields(pair[1], names)):
        key = next((key for key in unmatched if _matches(item, key, index)), None)
        if key is None:
            yield _expected_key(item, index, owned), item, None
        else:
            yield key, item, unmatched.pop(key)
    yield from ((key, _ABSENT, child) for key, child in unmatched.items())


def _count_key_fields(item: Any, names: tuple[str, ...]) -> int:
    """How many of the list's key fields an item gives."""
    return sum(name in item for name in names) if isinstance(item, Mapping) else 0


def _key_names(entries: Fields) -> tuple[str, ...]:
    first = next((key for key in entries if key.startswith("k:")), None)
    return tuple(_parse_key(first[2:])) if first else ()


def _matches(item: Any, key: str, index: int) -> bool:
    kind, text = key[:1], key[2:]
    match kind:
        case "k":
            names = _parse_key(text)
            return isinstance(item, Mapping) and all(
                name not in item or _is_json_equal(item[name], expected) for name, expected in names.items()
            )
        case "v":
            return _is_json_equal(item, _parse_key(text))
        case "i":
            return text == str(index)
        case _:
            return False


@lru_cache(maxsize=4096)
def _parse_key(text: str) -> Any:
    """The JSON in an entry's key. The same few come up again and again: names of containers, ports, variables."""
    return orjson.loads(text)


def _is_json_equal(left: Any, right: Any) -> bool:
    """JSON equality: 80 is 80.0, but true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _expected_key(item: Any, index: int, entries: Fields) -> str:
    """The entry that an item would have, to look for it at other managers."""
    names = _key_names(entries)
    if names and isinstance(item, Mapping):
        return f"k:{orjson.dumps({name: item[name] for name in names if name in item}).decode()}"
    return f"i:{index}" if any(key.startswith("i:") for key in entries) else f"v:{orjson.dumps(item).decode()}"


def _format_element(key: str) -> str:
    """An element as the server writes it in conflict messages: `[name="app"]`, `[="x"]`, `[0]`, `.field`."""
    kind, text = key[:1], key[2:]
    match kind:
        case "k":
            return "[" + ",".join(f"{name}={_to_json(value)}" for name, value in _parse_key(text).items()) + "]"
        case "v":
            return f"[={text}]"
        case "i":
            return f"[{text}]"
        case _:
            return f".{text}"


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _is_substantial(value: Any) -> bool:
    """Whether the server surely stores something of it: more than nulls, zeros and empty things, which it may leave
    out.
    """
    match value:
        case dict():
            return any(map(_is_substantial, value.values()))
        case list():
            return any(map(_is_substantial, value))
        case _:
            return bool(value)


def _is_lost(difference: _FieldDifference, live: Object | None, others: Sequence[_Owned]) -> bool:
    """Tells an atomic map from one that only its bare self is left of: where there is no schema, both are a leaf.

    The atomic one is ours as it is, so nobody can own a part of it, and it cannot be empty. Of an empty list whose items have keys the server records
    nothing, and often stores none; what others put into it is theirs. It is lost only to somebody who has the whole list.

    `live` is None where it is shown in another version than the one in which it was applied: then only what others own tells.
    """
    if difference.kind == "lost" and difference.value == []:
        return any(_owned_at(fields, difference.keys) == {} for _, fields in others)
    if difference.kind != "whole":
        return difference.kind == "lost"
    is_left = live is None or _value_at(live, difference.keys)
    return not is_left or any(_owned_at(fields, difference.keys) for _, fields in others)


def _value_at(value: Any, keys: tuple[str, ...]) -> Any:
    """The part of a live object that an entry's keys lead to; None if there is none."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key[2:])
        elif isinstance(value, list):
            value = next((item for index, item in enumerate(value) if _matches(item, key, index)), None)
        else:
            return None
    return value


def _lost_fields(difference: _FieldDifference, others: Sequence[_Owned]) -> Iterator[LostField]:
    """What to report of a part that we lost whole: its members one by one if others have some of them, else itself."""
    owned_parts = [(manager, _owned_at(fields, difference.keys)) for manager, fields in others]
    if isinstance(difference.value, dict) and any(fields for _, fields in owned_parts):
        for name, value in difference.value.items():
            key = f"f:{name}"
            yield from _lost_fields(_FieldDifference("lost", (*difference.keys, key), value), others)
    else:
        managers = tuple(manager for manager, fields in owned_parts if fields is not None)
        yield LostField(difference.path, ", ".join(dict.fromkeys(map(str, managers))), difference.keys, managers)


def _owned_at(fields: Fields | None, keys: tuple[str, ...]) -> Fields | None:
    """What an entry owns at `keys`: nothing (None), all of it (empty), or parts."""
    for key in keys:
        if not fields:
            break
        fields = fields.get(key)
    return fields
