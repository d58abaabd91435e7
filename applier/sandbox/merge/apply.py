"""Server-side apply, and the ownership that all other writes leave behind. Pure: nothing is read, nothing changed.

Rules: KEP-555; structured-merge-diff `merge.Updater`; apimachinery `managedfields`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from applier.cluster import Object
from applier.sandbox.merge.combine import merged, without
from applier.sandbox.merge.compare import Comparison, compare, fields_of
from applier.sandbox.merge.conflicts import ApplyConflicts
from applier.sandbox.merge.field_set import (
    NOTHING,
    Fields,
    difference,
    has,
    intersection,
    named_fields_too,
    of_paths,
    outside,
    paths,
    union,
)
from applier.sandbox.merge.last_applied import KUBECTL, unchanged_since, with_last_applied
from applier.sandbox.merge.managed_fields import (
    Entries,
    ManagedFieldsEntry,
    ManagerKey,
    capped,
    same_but_times,
    sent,
    stored,
    write,
)
from applier.sandbox.merge.schema_change import evolved
from applier.sandbox.merge.type_check import NotTyped, check
from applier.sandbox.merge.types import MergeType
from applier.sandbox.merge.values import NoKey, equal
from applier.sandbox.merge.writer import FieldManager

_SERVERS: Final = (
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
_IDENTITY: Final = of_paths(
    frozenset({("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in _SERVERS)})
)
"""What nobody owns: it says which object is meant, or is the server's own."""

_BEFORE_FIRST_APPLY: Final = "before-first-apply"


def apply(live: Object | None, intent: Object, writer: FieldManager, *, force: bool = False) -> Object:
    """The object after `intent` was applied to it, with `managedFields`; `live` None creates.

    Fields that this manager applied before, leaves out now and nobody else owns are removed. The result equals `live`
    if neither content nor ownership change. Defaulting, pruning and validation are the caller's, before it stores; a
    null may be left where a map or list lost its last part.

    Raises `ApplyConflicts`, unless `force` takes the fields; `NotTyped` with the server's words for an intent that does
    not fit the type.
    """
    try:
        check(writer.type, intent)
    except NotTyped as error:
        raise NotTyped(f"failed to create typed patch object ({_named(intent)}): {error}") from None
    try:
        if live is not None and not writer.type.solid:  # Its schema may have changed since.
            check(writer.type, live, duplicates=True)
        if live is not None and not force and writer.manager == KUBECTL:
            after = _applied_by_kubectl(live, intent, writer)
        else:
            after = _applied(live, intent, writer, force=force)
    except (NotTyped, NoKey) as error:
        raise NotTyped(f"failed to create typed live object ({_named(intent)}): {error}") from None
    return with_last_applied(after, intent) if writer.manager == KUBECTL else after


def _applied_by_kubectl(live: Object, intent: Object, writer: FieldManager) -> Object:
    try:
        return _applied(live, intent, writer, force=False)
    except ApplyConflicts as error:
        mine = unchanged_since(live, writer.type, writer.version)
        if foreign := [(owner, path) for owner, path in error.owned if not has(mine, path)]:
            raise ApplyConflicts(foreign) from None
        return _applied(live, intent, writer, force=True)


def _applied(live: Object | None, intent: Object, writer: FieldManager, *, force: bool) -> Object:
    before = live if live is not None else _empty(intent, writer)
    entries = stored(live)
    if live is not None and not entries:
        entries = _updated({}, _empty(live, writer), live, replace(writer, manager=_BEFORE_FIRST_APPLY))
    entries = _evolved(entries, writer)
    content = _without_entries(before)
    owner = writer.owner("Apply")
    last = entries.get(owner)
    wanted = outside(fields_of(writer.type, intent), of_paths(writer.reset))
    entries[owner] = ManagedFieldsEntry(wanted, writer.version, last.time if last else "")
    after = merged(writer.type, content, intent)
    if last:
        after = _pruned(after, entries, owner, last, writer)
    _take(content, after, entries, owner, writer, force=force)
    _strip(entries, owner)
    if owner in entries and not equal(content, after):
        entries[owner] = ManagedFieldsEntry(entries[owner].fields, writer.version, writer.time)
    elif last and entries.get(owner) == last:
        entries[owner] = last
    return _with_entries(after, entries)


def track_update(live: Object | None, new: Object, writer: FieldManager) -> Object:
    """`new` with the `managedFields` that follow from what it changes in `live`; None: it is created.

    `new` is what a create, update or patch would store: defaulted and pruned, but before the server's own changes
    (status dropped, generation, addresses allocated). It may carry managedFields that replace those of `live`; an empty
    list, or one empty entry, stops the tracking until the next apply; invalid ones are ignored.
    """
    entries = _sent_entries(live, new, writer)
    before = live if live is not None else _empty(new, writer)
    if entries or live is None:
        entries = _updated(entries, before, new, writer)
    return _with_entries(_without_entries(new), entries)


def keep_times(live: Object, final: Object) -> Object:
    """`final`, or `live` if the two differ in nothing but the times of managedFields, so that nothing needs a write."""
    before, after = live["metadata"].get("managedFields") or [], final["metadata"].get("managedFields") or []
    if same_but_times(before, after) and equal(_without_entries(live), _without_entries(final)):
        return live
    return final


def _sent_entries(live: Object | None, new: Object, writer: FieldManager) -> Entries:
    managed = (new.get("metadata") or {}).get("managedFields")
    if writer.subresource or managed is None:
        return stored(live)
    if managed in ([], [{}]):
        return {}
    return sent(managed) or stored(live)


def _updated(entries: Entries, before: Object, after: Object, writer: FieldManager) -> Entries:
    """Ownership after an update; that of a value which does not fit its type is not tracked at all."""
    entries = _evolved(entries, writer)
    old, new = _without_entries(before), _without_entries(after)
    try:
        check(writer.type, old, duplicates=True)
        check(writer.type, new, duplicates=True)
        changed, _ = _take(old, new, entries, None, writer, force=True)
    except (NotTyped, NoKey):
        return {}
    owned = difference(outside(changed, of_paths(writer.reset)), _IDENTITY)
    if owned:
        owner = writer.owner("Update")
        if previous := entries.get(owner):
            owned = union(owned, previous.fields)
        entries[owner] = ManagedFieldsEntry(owned, writer.version, writer.time)
    return capped(entries)


def _evolved(entries: Entries, writer: FieldManager) -> Entries:
    """As today's schemas record ownership; that in a version without a schema is dropped. A new dict."""
    types = writer.types
    out: Entries = {}
    for owner, entry in entries.items():
        if type_ := types.get(entry.version):
            fields = entry.fields if type_.solid else evolved(type_, entry.fields)
            out[owner] = entry if fields is entry.fields else ManagedFieldsEntry(fields, entry.version, entry.time)
    return out


def _take(
    before: Object, after: Object, entries: Entries, owner: ManagerKey | None, writer: FieldManager, *, force: bool
) -> Comparison:
    """Takes what changes between two objects, and what is gone, from all but `owner`. Raises `ApplyConflicts`."""
    versions: dict[str, Comparison] = {writer.version: _compared(writer.type, before, after, of_paths(writer.reset))}
    contested: dict[ManagerKey, Fields] = {}
    for other, entry in entries.items():
        if other == owner:
            continue
        if entry.version not in versions:
            versions[entry.version] = _compared(writer.types[entry.version], before, after, NOTHING)
        if found := intersection(entry.fields, versions[entry.version][0]):
            contested[other] = found
    if contested and not force:
        ranked = sorted(contested.items(), key=lambda item: item[0].rank)
        raise ApplyConflicts([(other, path) for other, fields in ranked for path in paths(fields)])
    for other, entry in list(entries.items()):
        _, removed = versions.get(entry.version, (NOTHING, NOTHING)) if other != owner else (NOTHING, NOTHING)
        left = difference(difference(entry.fields, contested.get(other, NOTHING)), removed)
        if not left:
            del entries[other]
        elif left is not entry.fields:
            entries[other] = ManagedFieldsEntry(left, entry.version, entry.time)
    return versions[writer.version]


def _compared(type_: MergeType, before: Object, after: Object, reset: Fields) -> Comparison:
    changed, removed = compare(type_, before, after)
    return outside(changed, reset), outside(removed, reset)


def _pruned(
    after: Object, entries: Entries, owner: ManagerKey, last: ManagedFieldsEntry, writer: FieldManager
) -> Object:
    """Without what `owner` applied the last time, not this time, and nobody else owns.

    What an owner adds below an item or member of ours keeps that; what nobody owns goes with it. An empty list that is
    told apart by items is no field; so a map that is applied as empty goes when only such lists and what nobody owns
    are in it, even if it is applied again.
    """
    if not difference(last.fields, entries[owner].fields) and not _has_empty_list(after):
        return after
    types = writer.types
    mine = named_fields_too(last.fields, types[last.version])
    owned: dict[str, Fields] = {last.version: NOTHING}
    for entry in entries.values():
        owned[entry.version] = union(owned.get(entry.version, NOTHING), entry.fields)
    whole = {version: _all_named(types[version], after) for version in owned}
    smaller = without(types[last.version], after, mine)
    for version, fields in owned.items():
        type_ = types[version]
        kept = union(_all_named(type_, smaller), named_fields_too(fields, type_))
        smaller = without(type_, after, difference(whole[version], kept))
    type_ = types[last.version]
    gone = difference(whole[last.version], _all_named(type_, smaller))
    pruned: Object = without(type_, after, intersection(gone, mine))
    return pruned


def _has_empty_list(value: Any) -> bool:
    if value.__class__ is dict:
        return any(map(_has_empty_list, value.values()))
    return value.__class__ is list and (not value or any(map(_has_empty_list, value)))


def _all_named(type_: MergeType, value: Object) -> Fields:
    return named_fields_too(fields_of(type_, value), type_)


def _strip(entries: Entries, owner: ManagerKey) -> None:
    entry = entries.get(owner)
    if entry is None:
        return
    if left := difference(entry.fields, _IDENTITY):
        entries[owner] = ManagedFieldsEntry(left, entry.version, entry.time)
    else:
        del entries[owner]


def _empty(like: Object, writer: FieldManager) -> Object:
    return {**writer.blank, "apiVersion": like["apiVersion"], "kind": like["kind"]}


def _without_entries(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _with_entries(content: Object, entries: Entries) -> Object:
    written = write(entries)
    if not written:
        return content
    return {**content, "metadata": {**content["metadata"], "managedFields": written}}


def _named(obj: Object) -> str:
    """An object as the server names it in messages: `namespace/name; /v1, Kind=ConfigMap`."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    group, _, version = obj["apiVersion"].rpartition("/")
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={obj['kind']}"
