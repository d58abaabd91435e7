"""Server-side apply, its conflicts, and the field ownership after every other write. Pure.

Source: KEP-555; structured-merge-diff `merge.Updater`; apimachinery `managedfields`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from applier.cluster import Object
from applier.sandbox.merge.combine import merge_values, remove_fields
from applier.sandbox.merge.compare import Comparison, compare, fields_of
from applier.sandbox.merge.field_set import (
    EMPTY_SET,
    Fields,
    Path,
    difference,
    format_path,
    from_paths,
    has_path,
    intersection,
    iterate_paths,
    union,
    with_declared_fields,
)
from applier.sandbox.merge.last_applied import KUBECTL_MANAGER, find_unchanged_fields, with_last_applied
from applier.sandbox.merge.managed_fields import (
    Entries,
    FieldManager,
    ManagedFieldsEntry,
    ManagerKey,
    encode_entries,
    is_equal_except_times,
    merge_oldest_updates,
    parse_entries,
    read_entries,
)
from applier.sandbox.merge.schema_change import reconcile_fields
from applier.sandbox.merge.type_check import TypeMismatchError, check_type
from applier.sandbox.merge.types import MergeType
from applier.sandbox.merge.values import MissingListKeyError, is_equal
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflict with another manager over a field, as a status cause of a 409."""

    manager: str
    field: str
    """Path of the field, such as `.data.a`."""
    message: str
    """Message of the server, such as `conflict with "m1" using v1`."""


class ApplyConflicts(Exception):
    """Conflicts of an intent with fields of other owners (409), with the message of the server's Status object."""

    def __init__(self, owned_paths: list[tuple[ManagerKey, Path]]) -> None:
        self.owned_paths = owned_paths
        texts = [(owner, format_path(path)) for owner, path in owned_paths]
        self.conflicts = tuple(Conflict(owner.manager, field, f"conflict with {owner}") for owner, field in texts)
        super().__init__(_format_summary(texts))


def _format_summary(owned_fields: list[tuple[ManagerKey, str]]) -> str:
    if len(owned_fields) == 1:
        owner, field = owned_fields[0]
        return f"Apply failed with 1 conflict: conflict with {owner}: {field}"
    lines: list[str] = []
    for owner in dict.fromkeys(owner for owner, _ in owned_fields):
        lines += [
            f"conflicts with {owner}:",
            *(f"- {field}" for other_owner, field in owned_fields if other_owner == owner),
        ]
    return f"Apply failed with {len(owned_fields)} conflicts: " + "\n".join(lines)


_SERVER_METADATA: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_UNOWNED_FIELDS: Final = from_paths(
    frozenset({("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in _SERVER_METADATA)})
)
"""Fields that never have owners, because the fields identify the object or because the server writes the fields."""

_BEFORE_FIRST_APPLY: Final = "before-first-apply"


def apply(live: Object | None, intent: Object, field_manager: FieldManager, *, force: bool = False) -> Object:
    """Return `live` after an apply of `intent`, with `managedFields`.

    If this manager applied a field before and omits it now, and no other manager owns the field, the apply removes the
    field. If neither content nor ownership changes, the result equals `live`. A map or list that loses its last part
    may become null. The caller sets defaults, prunes and validates the result before storing the result.

    Args:
        live: stored object, or None if the apply creates the object.

    Raises: ApplyConflicts if `force` is not set and other managers own changed fields. TypeMismatchError with the
    server's message if `intent` or `live` does not fit the type.
    """
    try:
        check_type(field_manager.type, intent)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"failed to create typed patch object ({_describe_object(intent)}): {error}") from None
    try:
        if live is not None and not field_manager.type.is_built_in:  # the schema may have changed since the last write
            check_type(field_manager.type, live, allow_duplicates=True)
        if live is not None and not force and field_manager.manager == KUBECTL_MANAGER:
            after = _apply_as_kubectl(live, intent, field_manager)
        else:
            after = _apply_intent(live, intent, field_manager, force=force)
    except (TypeMismatchError, MissingListKeyError) as error:
        raise TypeMismatchError(f"failed to create typed live object ({_describe_object(intent)}): {error}") from None
    return with_last_applied(after, intent) if field_manager.manager == KUBECTL_MANAGER else after


def _apply_as_kubectl(live: Object, intent: Object, field_manager: FieldManager) -> Object:
    try:
        return _apply_intent(live, intent, field_manager, force=False)
    except ApplyConflicts as error:
        unchanged_fields = find_unchanged_fields(live, field_manager.type, field_manager.version)
        if foreign := [(owner, path) for owner, path in error.owned_paths if not has_path(unchanged_fields, path)]:
            raise ApplyConflicts(foreign) from None
        return _apply_intent(live, intent, field_manager, force=True)


def _apply_intent(live: Object | None, intent: Object, field_manager: FieldManager, *, force: bool) -> Object:
    before = live if live is not None else _empty_object(intent, field_manager)
    entries = read_entries(live)
    if live is not None and not entries:
        entries = _track_changes(
            {}, _empty_object(live, field_manager), live, replace(field_manager, manager=_BEFORE_FIRST_APPLY)
        )
    entries = _reconcile_entries(entries, field_manager)
    content = _without_entries(before)
    owner = field_manager.manager_key("Apply")
    last_entry = entries.get(owner)
    intent_fields = difference(
        fields_of(field_manager.type, intent), from_paths(field_manager.reset_fields), subtrees=True
    )
    entries[owner] = ManagedFieldsEntry(intent_fields, field_manager.version, last_entry.time if last_entry else "")
    after = merge_values(field_manager.type, content, intent)
    if last_entry:
        after = _prune_dropped_fields(after, entries, owner, last_entry, field_manager)
    _take_ownership(content, after, entries, owner, field_manager, force=force)
    _strip_unowned_fields(entries, owner)
    if owner in entries and not is_equal(content, after):
        entries[owner] = ManagedFieldsEntry(entries[owner].fields, field_manager.version, field_manager.time)
    elif last_entry and entries.get(owner) == last_entry:
        entries[owner] = last_entry
    return _with_entries(after, entries)


def track_update(live: Object | None, new: Object, field_manager: FieldManager) -> Object:
    """Return `new` with the `managedFields` that result from the changes between `live` and `new`.

    If `new` has managedFields, its managedFields replace the managedFields of `live`. An empty list, or a list with an
    empty entry, ends the tracking until the next apply. The function ignores invalid entries.

    Args:
        live: stored object, or None at creation.
        new: object that a create, update or patch stores, with defaults and without pruned fields. The server makes its
            own changes to the status, the generation and addresses later.
    """
    entries = _select_entries(live, new, field_manager)
    before = live if live is not None else _empty_object(new, field_manager)
    if entries or live is None:
        entries = _track_changes(entries, before, new, field_manager)
    return _with_entries(_without_entries(new), entries)


def keep_times(live: Object, final: Object) -> Object:
    """Return `live` if `final` equals `live` apart from times in managedFields. Otherwise return `final`.

    The caller does not write an object that equals the live object.
    """
    before, after = live["metadata"].get("managedFields") or [], final["metadata"].get("managedFields") or []
    if is_equal_except_times(before, after) and is_equal(_without_entries(live), _without_entries(final)):
        return live
    return final


def _select_entries(live: Object | None, new: Object, field_manager: FieldManager) -> Entries:
    sent_entries = (new.get("metadata") or {}).get("managedFields")
    if field_manager.subresource or sent_entries is None:
        return read_entries(live)
    if sent_entries in ([], [{}]):
        return {}
    return parse_entries(sent_entries) or read_entries(live)


def _track_changes(entries: Entries, before: Object, after: Object, field_manager: FieldManager) -> Entries:
    """Return the entries of `managedFields` after an update from `before` to `after`.

    If a value does not fit its type, return no entries, which ends the tracking of field ownership.
    """
    entries = _reconcile_entries(entries, field_manager)
    old, new = _without_entries(before), _without_entries(after)
    try:
        check_type(field_manager.type, old, allow_duplicates=True)
        check_type(field_manager.type, new, allow_duplicates=True)
        changed, _ = _take_ownership(old, new, entries, None, field_manager, force=True)
    except (TypeMismatchError, MissingListKeyError):
        return {}
    owned = difference(difference(changed, from_paths(field_manager.reset_fields), subtrees=True), _UNOWNED_FIELDS)
    if owned:
        owner = field_manager.manager_key("Update")
        if previous := entries.get(owner):
            owned = union(owned, previous.fields)
        entries[owner] = ManagedFieldsEntry(owned, field_manager.version, field_manager.time)
    return merge_oldest_updates(entries)


def _reconcile_entries(entries: Entries, field_manager: FieldManager) -> Entries:
    """Return `entries`, adapted to the current schemas, without entries of versions that the server does not serve."""
    types = field_manager.types_by_version
    reconciled: Entries = {}
    for owner, entry in entries.items():
        if type_ := types.get(entry.version):
            fields = entry.fields if type_.is_built_in else reconcile_fields(type_, entry.fields)
            reconciled[owner] = (
                entry if fields is entry.fields else ManagedFieldsEntry(fields, entry.version, entry.time)
            )
    return reconciled


def _take_ownership(
    before: Object,
    after: Object,
    entries: Entries,
    owner: ManagerKey | None,
    field_manager: FieldManager,
    *,
    force: bool,
) -> Comparison:
    """Remove the changed and the removed fields from the entries of all owners except `owner`, and return these fields.

    Raises: ApplyConflicts if `force` is not set and another owner has a changed field.
    """
    versions: dict[str, Comparison] = {
        field_manager.version: _compare_objects(
            field_manager.type, before, after, from_paths(field_manager.reset_fields)
        )
    }
    contested: dict[ManagerKey, Fields] = {}
    for other, entry in entries.items():
        if other == owner:
            continue
        if entry.version not in versions:
            versions[entry.version] = _compare_objects(
                field_manager.types_by_version[entry.version], before, after, EMPTY_SET
            )
        if conflicting := intersection(entry.fields, versions[entry.version][0]):
            contested[other] = conflicting
    if contested and not force:
        ranked = sorted(contested.items(), key=lambda item: item[0].sort_key)
        raise ApplyConflicts([(other, path) for other, fields in ranked for path in iterate_paths(fields)])
    for other, entry in list(entries.items()):
        _, removed = versions.get(entry.version, (EMPTY_SET, EMPTY_SET)) if other != owner else (EMPTY_SET, EMPTY_SET)
        remaining = difference(difference(entry.fields, contested.get(other, EMPTY_SET)), removed)
        if not remaining:
            del entries[other]
        elif remaining is not entry.fields:
            entries[other] = ManagedFieldsEntry(remaining, entry.version, entry.time)
    return versions[field_manager.version]


def _compare_objects(type_: MergeType, before: Object, after: Object, reset_fields: Fields) -> Comparison:
    changed, removed = compare(type_, before, after)
    return difference(changed, reset_fields, subtrees=True), difference(removed, reset_fields, subtrees=True)


def _prune_dropped_fields(
    after: Object, entries: Entries, owner: ManagerKey, last_entry: ManagedFieldsEntry, field_manager: FieldManager
) -> Object:
    """Return `after` without fields that `owner` applied last time, left out this time, and shares with no other owner.

    If other owners have parts below an item or member, the item or member stays. The removal of an item or member also
    removes its parts without an owner. An empty list of keyed items counts as no field. So the function removes an
    applied map that contains only empty keyed lists and parts without owners, even if `owner` applies the map again.
    """
    if not difference(last_entry.fields, entries[owner].fields) and not _has_empty_list(after):
        return after
    types = field_manager.types_by_version
    last_fields = with_declared_fields(last_entry.fields, types[last_entry.version])
    owned: dict[str, Fields] = {last_entry.version: EMPTY_SET}
    for entry in entries.values():
        owned[entry.version] = union(owned.get(entry.version, EMPTY_SET), entry.fields)
    all_fields = {version: _all_fields(types[version], after) for version in owned}
    reduced = remove_fields(types[last_entry.version], after, last_fields)
    for version, fields in owned.items():
        type_ = types[version]
        kept_fields = union(_all_fields(type_, reduced), with_declared_fields(fields, type_))
        reduced = remove_fields(type_, after, difference(all_fields[version], kept_fields))
    type_ = types[last_entry.version]
    dropped = difference(all_fields[last_entry.version], _all_fields(type_, reduced))
    pruned: Object = remove_fields(type_, after, intersection(dropped, last_fields))
    return pruned


def _has_empty_list(value: Any) -> bool:
    if value.__class__ is dict:
        return any(map(_has_empty_list, value.values()))
    return value.__class__ is list and (not value or any(map(_has_empty_list, value)))


def _all_fields(type_: MergeType, value: Object) -> Fields:
    return with_declared_fields(fields_of(type_, value), type_)


def _strip_unowned_fields(entries: Entries, owner: ManagerKey) -> None:
    entry = entries.get(owner)
    if entry is None:
        return
    if remaining := difference(entry.fields, _UNOWNED_FIELDS):
        entries[owner] = ManagedFieldsEntry(remaining, entry.version, entry.time)
    else:
        del entries[owner]


def _empty_object(source: Object, field_manager: FieldManager) -> Object:
    return {**field_manager.blank, "apiVersion": source["apiVersion"], "kind": source["kind"]}


def _without_entries(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _with_entries(content: Object, entries: Entries) -> Object:
    encoded = encode_entries(entries)
    if not encoded:
        return content
    return {**content, "metadata": {**content["metadata"], "managedFields": encoded}}


def _describe_object(obj: Object) -> str:
    """Return the name of `obj` in the server's messages: `namespace/name; /v1, Kind=ConfigMap`."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    group, _, version = obj["apiVersion"].rpartition("/")
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={obj['kind']}"
