"""Field diffs of objects, and the formatting of field values as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from applier.cluster import Object
from applier.state.structural_diff import FieldDiff, ItemPairs, diff_values, pair_by_position
from gitops.plan.masking import SecretMasks, may_be_equal
from renderer import well_known
from renderer.identity import Manifest, is_same

_SERVER_METADATA = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink", "deletionTimestamp"}
)
"""Metadata fields that the server writes."""

_IDENTITY_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})
_RECORD_KEYS = frozenset(
    {well_known.PART_OF, well_known.NODE, well_known.INSTANCE, well_known.COMMIT, well_known.FILE, well_known.REVISION}
)
_RECORD_KEY_PREFIXES = ("internal.levelgate.dev/", "applyset.kubernetes.io/")
"""Prefixes of the keys of Levelgate's records on members. Every commit changes the records, even with equal content."""

_ITEM_NAME_FIELDS = ("name", "containerPort", "mountPath", "port", "key", "type", "ip")
"""Fields that may name the items of a list, in order of preference. A path contains the name instead of an index."""

MAX_SHOWN_CHARACTERS = 300
"""Largest number of characters of a value or message in output for people. JSON output has no such limit."""


def diff_objects(old: Any, new: Any) -> tuple[FieldDiff, ...]:
    """Return the differing fields of two objects by path, without status, server fields and Levelgate's records."""
    return tuple(
        diff_values(strip_recorded_fields(old), strip_recorded_fields(new), is_equal=_is_equal, pair_items=_pair_items)
    )


def intended_diff(live: Object, manifest: Manifest, masks: SecretMasks) -> tuple[FieldDiff, ...]:
    """Return the fields of a manifest that the live object lacks, or that have another value in the live object.

    A report uses these fields when no dry run is possible. The result lacks removed fields, because only the server
    knows which fields its own defaults filled.
    """
    return tuple(
        field_diff
        for field_diff in diff_objects(masks.mask_object(live), masks.mask_object(manifest))
        if field_diff.new is not None
    )


def creation_diff(obj: Mapping[str, Any]) -> tuple[FieldDiff, ...]:
    """Return the top-level fields of a new object, without the fields that identify it."""
    return tuple(FieldDiff(name, None, item) for name, item in sorted(obj.items()) if name not in _IDENTITY_FIELDS)


def removal_diff(masked_live: Any, paths: Iterable[str]) -> Iterator[FieldDiff]:
    """Yield a removal for each field that the previous owner set and that adopting the object removes."""
    for path in sorted(paths):
        old = field_value(masked_live, path)
        yield FieldDiff(path, "(set by its previous owner)" if old is None else old)


def field_value(obj: Any, path: str) -> Any:
    """Return the value in `obj` at `path`, or None if the path is absent. All steps of the path are fields of maps.

    An example of a path is `metadata.labels.app.kubernetes.io/name`. Because field names may contain dots, the function
    tries every prefix of the path as a name.
    """
    if not path or not isinstance(obj, dict):
        return None if path else obj
    matching_names = (name for name in obj if path == name or path.startswith(f"{name}."))
    return next(
        (value for name in matching_names if (value := field_value(obj[name], path[len(name) + 1 :])) is not None), None
    )


def strip_recorded_fields(obj: Any) -> Any:
    """Return an object without status, server fields and Levelgate's records."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SERVER_METADATA}
    for name in ("labels", "annotations"):
        entries = {key: value for key, value in (metadata.pop(name, None) or {}).items() if not _is_record(key)}
        metadata |= {name: entries} if entries else {}
    finalizers = [name for name in metadata.pop("finalizers", None) or () if name != well_known.FINALIZER]
    metadata |= {"finalizers": finalizers} if finalizers else {}
    fields = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**fields, "metadata": metadata}


def diff_lines(difference: FieldDiff) -> Iterator[str]:
    """Yield the lines `- old` and `+ new`. If a side has no value, leave out the line of that side."""
    for mark, value in (("-", difference.old), ("+", difference.new)):
        if value is not None:
            yield f"{mark} {format_value(value)}"


def format_value(value: Any) -> str:
    """Return `value` on one line: printable text unchanged, any other value as JSON. Long text is shortened."""
    is_printable = isinstance(value, str) and value.isprintable()
    text = value if is_printable else orjson.dumps(value).decode()
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def shorten(text: str) -> str:
    """Return `text`. If the text is long, leave out the middle, because the fault comes first and the advice last."""
    half = MAX_SHOWN_CHARACTERS // 2
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def _is_record(key: str) -> bool:
    return key in _RECORD_KEYS or key.startswith(_RECORD_KEY_PREFIXES)


def _is_equal(old: Any, new: Any) -> bool:
    return is_same(old, new) or may_be_equal(old, new)


def _pair_items(old: Sequence[Any], new: Sequence[Any]) -> ItemPairs:
    """Pair the items of two lists by name, or by index if no field names the items.

    For lists of plain values, and for lists that cannot be paired, return None. The diff then shows both lists whole.
    """
    for field in _ITEM_NAME_FIELDS:
        old_by_name, new_by_name = _items_by_field(field, old), _items_by_field(field, new)
        if old_by_name is not None and new_by_name is not None:
            return [
                (name, old_by_name.get(name), new_by_name.get(name))
                for name in dict.fromkeys((*old_by_name, *new_by_name))
            ]
    return pair_by_position(old, new) if any(isinstance(item, dict | list) for item in old) else None


def _items_by_field(field: str, items: Sequence[Any]) -> dict[str, Any] | None:
    """Return the items by their values of `field`, or None if a value is missing or occurs twice."""
    by_name = {str(item[field]): item for item in items if isinstance(item, dict) and field in item}
    return by_name if len(by_name) == len(items) else None
