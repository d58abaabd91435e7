"""Texts without values of Secrets. A refusal or a failing expression quotes what it was given, and what was given may have been copied from a Secret.

A value is recognised as it stands, in base64, escaped as in JSON or a URL, and cut off as long quotations are. What a template has made of it (a
part, a hash) is not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from renderer.identity import group_kind
from renderer.kinds import SECRET

SHORTEST: Final = 8
"""Values of so many characters are recognised within other texts. A shorter one is only where it is the whole text: `prod` is part of too much."""

SHORTEST_WHOLE: Final = 4
_LONG: Final = 24
"""Of a value that is longer the beginning is enough: whoever quotes it cuts it off somewhere."""


def entries(secret: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Keys of a Secret and what they hold, decoded; what is no base64 is taken as it stands."""
    for name, item in (secret.get("data") or {}).items():
        yield name, _decoded(str(item))
    for name, item in (secret.get("stringData") or {}).items():
        yield name, str(item).encode()


def forms(plain: bytes) -> frozenset[str]:
    """The texts in which a value may turn up; none for one that is too short to be a secret."""
    text = plain.decode(errors="replace")
    if len(text) < SHORTEST_WHOLE:
        return frozenset()
    encoded = base64.b64encode(plain).decode()
    return frozenset({text, encoded, quote(text, safe=""), text.strip()}) - {""}


class SecretRedactor:
    """What these objects hold, as far as they are Secrets, is not to be told."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._objects = objects

    @cached_property
    def _told(self) -> dict[str, str]:
        """What to say instead, by the beginning of each form."""
        found: dict[str, str] = {}
        for obj in self._objects:
            if group_kind(obj) == SECRET:
                metadata = obj.get("metadata") or {}
                told = f"(value of Secret {metadata.get('namespace') or ''}/{metadata.get('name')})"
                for _, plain in entries(obj):
                    quoted = (one for text in forms(plain) for one in (text, json.dumps(text)[1:-1], repr(text)[1:-1]))
                    found |= dict.fromkeys((one[:_LONG] for one in quoted), told)
        return found

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Of a long one to the end of the quotation; short ones only between quotes."""
        return re.compile("|".join(map(_found, sorted(self._told, key=len, reverse=True))) or r"(?!)")

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._told[found[0][:_LONG]], text)


def _found(form: str) -> str:
    if len(form) == _LONG:
        return rf"{re.escape(form)}[^\"'`]*"
    return re.escape(form) if len(form) >= SHORTEST else rf"(?<=[\"'`]){re.escape(form)}(?=[\"'`])"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
