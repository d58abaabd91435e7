"""What differs between an object as it is and as it would be, field by field, and how a field is written for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
"""What the server writes into metadata."""

_IDENTITY_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})
_RECORD_KEYS = frozenset(
    {well_known.PART_OF, well_known.NODE, well_known.INSTANCE, well_known.COMMIT, well_known.FILE, well_known.REVISION}
)
_RECORD_KEY_PREFIXES = ("internal.levelgate.dev/", "applyset.kubernetes.io/")
"""Records of the program on what it writes: they change with every commit, and tell nothing of what is deployed."""

_ITEM_NAME_FIELDS = ("name", "containerPort", "mountPath", "port", "key", "type", "ip")
"""Fields by which the items of a list are told apart, if they do; a path then names the item instead of its place."""

MAX_SHOWN_CHARACTERS = 300
"""So many characters of a value or a message are shown to people; JSON gives all of it."""


def diff_objects(old: Any, new: Any) -> tuple[FieldDiff, ...]:
    """Of two objects, without status and without what the server and the program write for themselves; in the order of paths."""
    return tuple(
        diff_values(strip_recorded_fields(old), strip_recorded_fields(new), is_equal=_is_equal, pair_items=_pair_items)
    )


def intended_diff(live: Object, manifest: Manifest, masks: SecretMasks) -> tuple[FieldDiff, ...]:
    """Return the fields of a manifest that are not so, for a change that no server could be asked about.

    Which fields go is not known then.
    """
    return tuple(
        field_diff
        for field_diff in diff_objects(masks.mask_object(live), masks.mask_object(manifest))
        if field_diff.new is not None
    )


def creation_diff(obj: Mapping[str, Any]) -> tuple[FieldDiff, ...]:
    """What a new object is made of, beside what it is called."""
    return tuple(FieldDiff(name, None, item) for name, item in sorted(obj.items()) if name not in _IDENTITY_FIELDS)


def field_value(obj: Any, path: str) -> Any:
    """The value of a field whose path goes through maps alone (`metadata.labels.app.kubernetes.io/name`), and through no list; None where there is
    none.
    """
    if not path or not isinstance(obj, dict):
        return None if path else obj
    matching_names = (name for name in obj if path == name or path.startswith(f"{name}."))
    return next(
        (value for name in matching_names if (value := field_value(obj[name], path[len(name) + 1 :])) is not None), None
    )


def strip_recorded_fields(obj: Any) -> Any:
    """An object without what is not content."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SERVER_METADATA}
    for name in ("labels", "annotations"):
        entries = {key: value for key, value in (metadata.pop(name, None) or {}).items() if not _is_record(key)}
        metadata |= {name: entries} if entries else {}
    finalizers = [name for name in metadata.pop("finalizers", None) or () if name != well_known.FINALIZER]
    metadata |= {"finalizers": finalizers} if finalizers else {}
    fields = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**fields, "metadata": metadata}


def diff_lines(difference: FieldDiff) -> Iterator[str]:
    """`- old` and `+ new`, as far as they exist."""
    for mark, value in (("-", difference.old), ("+", difference.new)):
        if value is not None:
            yield f"{mark} {format_value(value)}"


def format_value(value: Any) -> str:
    """A value on one line: text as it is, if it has one line, all else as JSON; cut where it is long."""
    is_printable = isinstance(value, str) and value.isprintable()
    text = value if is_printable else orjson.dumps(value).decode()
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def shorten(text: str) -> str:
    """A message cut in its middle: what is wrong stands at the beginning, what to do at the end."""
    half = MAX_SHOWN_CHARACTERS // 2
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def _is_record(key: str) -> bool:
    return key in _RECORD_KEYS or key.startswith(_RECORD_KEY_PREFIXES)


def _is_equal(old: Any, new: Any) -> bool:
    return is_same(old, new) or may_be_equal(old, new)


def _pair_items(old: Sequence[Any], new: Sequence[Any]) -> ItemPairs:
    """Items by what names them, else by their places if there are as many; None where the lists can only be shown whole."""
    for field in _ITEM_NAME_FIELDS:
        old_by_name, new_by_name = _items_by_field(field, old), _items_by_field(field, new)
        if old_by_name is not None and new_by_name is not None:
            return [
                (name, old_by_name.get(name), new_by_name.get(name))
                for name in dict.fromkeys((*old_by_name, *new_by_name))
            ]
    return pair_by_position(old, new) if any(isinstance(item, dict | list) for item in old) else None


def _items_by_field(field: str, items: Sequence[Any]) -> dict[str, Any] | None:
    by_name = {str(item[field]): item for item in items if isinstance(item, dict) and field in item}
    return by_name if len(by_name) == len(items) else None
