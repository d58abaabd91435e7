"""What differs between an object as it is and as it would be, field by field, and how a field is written for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gitops.plan.masking import may_be_equal
from gitops.plan.report import FieldDiff
from renderer import well_known
from renderer.identity import is_same

_SERVER = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink", "deletionTimestamp"}
)
"""What the server writes into metadata."""

_IDENTITY = frozenset({"apiVersion", "kind", "metadata", "status"})
_RECORDS = frozenset(
    {well_known.PART_OF, well_known.NODE, well_known.INSTANCE, well_known.COMMIT, well_known.FILE, well_known.REVISION}
)
_OWN = ("internal.levelgate.dev/", "applyset.kubernetes.io/")
"""Records of the program on what it writes: they change with every commit, and tell nothing of what is deployed."""

_NAMES = ("name", "containerPort", "mountPath", "port", "key", "type", "ip")
"""Fields by which the items of a list are told apart, if they do; a path then names the item instead of its place."""

LONGEST = 300
"""So many characters of a value or a message are shown to people; JSON gives all of it."""


def differences(old: Any, new: Any) -> tuple[FieldDiff, ...]:
    """Of two objects, without status and without what the server and the program write for themselves; in the order of paths."""
    return tuple(_compare(content(old), content(new), ""))


def made(obj: Mapping[str, Any]) -> tuple[FieldDiff, ...]:
    """What a new object is made of, beside what it is called."""
    return tuple(FieldDiff(name, None, item) for name, item in sorted(obj.items()) if name not in _IDENTITY)


def at(obj: Any, path: str) -> Any:
    """The value of a field whose path goes through maps alone (`metadata.labels.app.kubernetes.io/name`), and through no list; None where there is
    none.
    """
    if not path or not isinstance(obj, dict):
        return None if path else obj
    steps = (name for name in obj if path == name or path.startswith(f"{name}."))
    return next((found for name in steps if (found := at(obj[name], path[len(name) + 1 :])) is not None), None)


def content(obj: Any) -> Any:
    """An object without what is not content."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SERVER}
    for name in ("labels", "annotations"):
        kept = {key: value for key, value in (metadata.pop(name, None) or {}).items() if not _is_record(key)}
        metadata |= {name: kept} if kept else {}
    others = [name for name in metadata.pop("finalizers", None) or () if name != well_known.FINALIZER]
    metadata |= {"finalizers": others} if others else {}
    rest = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**rest, "metadata": metadata}


def lines(difference: FieldDiff) -> Iterator[str]:
    """`- old` and `+ new`, as far as they are there."""
    for mark, value in (("-", difference.old), ("+", difference.new)):
        if value is not None:
            yield f"{mark} {written(value)}"


def written(value: Any) -> str:
    """A value on one line: text as it is, if it has one line, all else as JSON; cut where it is long."""
    plain = isinstance(value, str) and value.isprintable()
    text = value if plain else orjson.dumps(value).decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def shortened(text: str) -> str:
    """A message cut in its middle: what is wrong stands at the beginning, what to do at the end."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"


def _is_record(key: str) -> bool:
    return key in _RECORDS or key.startswith(_OWN)


def _compare(old: Any, new: Any, path: str) -> Iterator[FieldDiff]:
    if is_same(old, new) or may_be_equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _compare(old.get(name), new.get(name), _joined(path, name))
    elif isinstance(old, list) and isinstance(new, list) and (pairs := _paired(old, new)) is not None:
        for name, before, after in pairs:
            yield from _compare(before, after, f"{path}[{name}]")
    else:
        yield FieldDiff(path, old, new)


def _joined(path: str, name: str) -> str:
    if not all(letter.isalnum() or letter in "_-" for letter in name):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _paired(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[str, Any, Any]] | None:
    """Items by what names them, else by their places if there are as many; None where the lists can only be shown whole."""
    for field in _NAMES:
        before, after = _by(field, old), _by(field, new)
        if before is not None and after is not None:
            return [(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after))]
    if len(old) == len(new) and any(isinstance(item, dict | list) for item in old):
        return [(str(place), *pair) for place, pair in enumerate(zip(old, new, strict=True))]
    return None


def _by(field: str, items: Sequence[Any]) -> dict[str, Any] | None:
    found = {str(item[field]): item for item in items if isinstance(item, dict) and field in item}
    return found if len(found) == len(items) else None
