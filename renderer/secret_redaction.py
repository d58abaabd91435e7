"""Removal of Secret values from texts.

A refusal or a failed expression quotes its input, which may contain a Secret value. The redactor recognises a value as
plain text, in base64, escaped for JSON or a URL, and with its end cut off. The redactor does not recognise a text that
a template derives from the value, such as a part or a hash.

The modules that use credentials outside of objects also redact the credentials. `Credentials.redact` redacts the token
of a source. `redact` of `gitops.source.target` redacts user information in URLs. The module that loads a kubeconfig
redacts the entries of the kubeconfig.
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
from renderer.well_known import LAST_APPLIED

MIN_EMBEDDED_CHARACTERS: Final = 8
"""Minimum length of values that the redactor recognises inside other texts.

A shorter value, such as `prod`, is part of too many texts. Therefore the redactor recognises a shorter value only
between quotes.
"""

MIN_WHOLE_CHARACTERS: Final = 4
"""Minimum length of values that the redactor replaces."""
_PREFIX_CHARACTERS: Final = 24
"""Number of leading characters by which the redactor recognises a longer value, because quotations cut off the end."""


SECRET_FIELDS: Final = frozenset({"data", "stringData"})


def without_secret_data(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a Secret without its data and without kubectl's copy of the data. Return any other object unchanged."""
    if not obj or group_kind(obj) != SECRET:
        return obj
    visible_fields = {name: value for name, value in obj.items() if name not in SECRET_FIELDS}
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if LAST_APPLIED in annotations:
        other_annotations = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
        visible_fields["metadata"] = {**metadata, "annotations": other_annotations}
    return visible_fields


def secret_entries(secret: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield each key of a Secret with its decoded value. Yield a value that is not base64 as UTF-8."""
    for name, item in (secret.get("data") or {}).items():
        yield name, _decode(str(item))
    for name, item in (secret.get("stringData") or {}).items():
        yield name, str(item).encode()


def text_forms(plain: bytes) -> frozenset[str]:
    """Return the forms in which a text may contain the value `plain`, or nothing if the value is too short."""
    text = plain.decode(errors="replace")
    if len(text) < MIN_WHOLE_CHARACTERS:
        return frozenset()
    encoded = base64.b64encode(plain).decode()
    return frozenset({text, encoded, quote(text, safe=""), text.strip()}) - {""}


class SecretRedactor:
    """Callable that replaces the values of all Secrets among the given objects in a text."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._objects = objects

    @cached_property
    def _replacements(self) -> dict[str, str]:
        """Return the replacement for each form of a value, by the first _PREFIX_CHARACTERS characters of the form."""
        replacements: dict[str, str] = {}
        for obj in self._objects:
            if group_kind(obj) == SECRET:
                metadata = obj.get("metadata") or {}
                replacement = f"(value of Secret {metadata.get('namespace') or ''}/{metadata.get('name')})"
                for _, plain in secret_entries(obj):
                    quoted = (
                        form for text in text_forms(plain) for form in (text, json.dumps(text)[1:-1], repr(text)[1:-1])
                    )
                    replacements |= dict.fromkeys((form[:_PREFIX_CHARACTERS] for form in quoted), replacement)
        return replacements

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Return the pattern that matches all forms of all values.

        A match of a long form extends to the end of the quotation. A short form matches only between quotes.
        """
        return re.compile("|".join(map(_form_pattern, sorted(self._replacements, key=len, reverse=True))) or r"(?!)")

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._replacements[found[0][:_PREFIX_CHARACTERS]], text)


def _form_pattern(form: str) -> str:
    if len(form) == _PREFIX_CHARACTERS:
        return rf"{re.escape(form)}[^\"'`]*"
    return re.escape(form) if len(form) >= MIN_EMBEDDED_CHARACTERS else rf"(?<=[\"'`]){re.escape(form)}(?=[\"'`])"


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
