"""JSON patch (RFC 6902) of plain JSON values.

No function changes the document that its caller passes.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from applier.sandbox.merge.values import is_equal

MAX_OPERATIONS = 10_000
"""Maximum number of operations in a JSON patch. The API server has the same limit."""
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Maximum number of bytes that all `copy` operations of a JSON patch copy.

Without this limit, each operation could double the document.
"""


class PatchError(ValueError):
    """Failure to apply a patch to its target, with the reason."""


def apply_json_patch(target: Any, operations: list[Any]) -> Any:
    """Return the result of applying `operations` (RFC 6902) to `target`.

    If a member is absent, `replace` adds the member, because the API server's library does so.

    Raises: PatchError if an operation is malformed, or does not fit the document.
    """
    document, copied_bytes = _copy(target), 0
    for operation in operations:
        if isinstance(operation, dict) and operation.get("op") == "copy":
            copied_bytes += len(orjson.dumps(_find(document, _parse_pointer(str(operation.get("from"))))))
            if copied_bytes > MAX_COPIED_BYTES:
                raise PatchError(f"the operations copy more than {MAX_COPIED_BYTES} bytes")
        document = _apply_operation(document, operation)
    return document


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _apply_operation(document: Any, operation: Any) -> Any:
    match operation:
        case {"op": "add", "path": str(path), "value": value}:
            return _add(document, _parse_pointer(path), _copy(value))
        case {"op": "replace", "path": str(path), "value": value}:
            return _replace(document, _parse_pointer(path), _copy(value))
        case {"op": "remove", "path": str(path)}:
            return _remove(document, _parse_pointer(path))
        case {"op": "test", "path": str(path)}:
            if not is_equal(_find(document, _parse_pointer(path), absent=None), operation.get("value")):
                raise PatchError(f"the value at {path} fails the test")
            return document
        case {"op": "copy", "path": str(path), "from": str(source)}:
            return _add(document, _parse_pointer(path), _copy(_find(document, _parse_pointer(source))))
        case {"op": "move", "path": str(path), "from": str(source)}:
            value = _find(document, _parse_pointer(source))
            return _add(_remove(document, _parse_pointer(source)), _parse_pointer(path), value)
        case _:
            raise PatchError("an operation of the patch is not an operation of RFC 6902")


def _parse_pointer(text: str) -> list[str]:
    """Return the tokens of the JSON pointer `text` (RFC 6901).

    Raises: PatchError if `text` is not a JSON pointer.
    """
    if text and not text.startswith("/"):
        raise PatchError(f"{text!r} is not a JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


_RAISE: Any = object()


def _find(document: Any, tokens: list[str], *, absent: Any = _RAISE) -> Any:
    for token in tokens:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and _parse_index(token, len(document) - 1) is not None:
            document = document[int(token)]
        elif absent is _RAISE:
            raise PatchError(f"the document has no value at {'/'.join(tokens)}")
        else:
            return absent
    return document


def _parse_index(token: str, last: int) -> int | None:
    return int(token) if re.fullmatch(r"0|[1-9][0-9]{0,8}", token) and int(token) <= last else None


def _add(document: Any, tokens: list[str], value: Any) -> Any:
    if not tokens:
        return value
    parent = _find(document, tokens[:-1])
    match parent:
        case dict():
            parent[tokens[-1]] = value
        case list():
            index = len(parent) if tokens[-1] == "-" else _parse_index(tokens[-1], len(parent))
            if index is None:
                raise PatchError(f"the list at {'/'.join(tokens[:-1])} does not have index {tokens[-1]!r}")
            parent.insert(index, value)
        case _:
            raise PatchError(f"the value at {'/'.join(tokens[:-1])} is neither an object nor a list")
    return document


def _replace(document: Any, tokens: list[str], value: Any) -> Any:
    if tokens and isinstance(_find(document, tokens[:-1]), list):
        document = _remove(document, tokens)
    return _add(document, tokens, value)


def _remove(document: Any, tokens: list[str]) -> Any:
    parent = _find(document, tokens[:-1]) if tokens else None
    match parent:
        case dict() if tokens[-1] in parent:
            del parent[tokens[-1]]
        case list() if (index := _parse_index(tokens[-1], len(parent) - 1)) is not None:
            del parent[index]
        case _:
            raise PatchError(f"the document has no value to remove at {'/'.join(tokens)}")
    return document
