"""Masks for values of Secrets. A number replaces each value, so that equal values have equal numbers.

A plan with masks shows that a value changes, but does not show the value. The masks cover the encoded and the decoded
form of a value. Masks apply to the Secret itself, other objects, errors of the server and last-applied annotations. A
keyed hash finds equal values. The key of the hash is random for each plan and never stored.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from renderer.identity import ObjectKey, group_kind
from renderer.kinds import SECRET
from renderer.secret_redaction import MIN_EMBEDDED_CHARACTERS, secret_entries, text_forms, without_secret_data

SNAPSHOT_LABEL = "secret of the cluster"
"""Words in the masks of a snapshot. The numbers of masks in a snapshot are unrelated to the numbers in a plan."""

_MASK_PATTERN = re.compile(rf"\((?:{SNAPSHOT_LABEL}|secret) #\d+\)")


def may_be_equal(old: object, new: object) -> bool:
    """Return whether two masked texts could be equal: `old` has masks of a snapshot, and only masked values differ."""
    if not isinstance(old, str) or not isinstance(new, str) or not has_snapshot_masks(old):
        return False
    return _MASK_PATTERN.sub("", old) == _MASK_PATTERN.sub("", new)


def has_snapshot_masks(obj: object) -> bool:
    """Return whether a JSON value contains values that a snapshot has masked."""
    match obj:
        case str():
            return f"({SNAPSHOT_LABEL} #" in obj
        case dict():
            return any(map(has_snapshot_masks, obj.values()))
        case list():
            return any(map(has_snapshot_masks, obj))
    return False


class SecretMasks:
    """Masks of one plan or snapshot, numbered in the order in which values occur."""

    def __init__(self, label: str = "secret") -> None:
        self._label = label
        self._key = secrets.token_bytes(32)
        self._numbers: dict[bytes, int] = {}
        self._secret_values: dict[str, bytes] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Mask the values of all Secrets in `objects` from now on, wherever the values occur."""
        for obj in objects:
            if group_kind(obj) == SECRET:
                for _, plain in secret_entries(obj):
                    if not has_snapshot_masks(plain.decode(errors="replace")):
                        self._secret_values |= dict.fromkeys(text_forms(plain), plain)
                        self._pattern = None

    def _mask(self, plain: bytes) -> str:
        value_hash = hashlib.blake2b(plain, key=self._key, digest_size=16).digest()
        return f"({self._label} #{self._numbers.setdefault(value_hash, len(self._numbers) + 1)})"

    def mask_text(self, text: str) -> str:
        """Return `text` with known values masked.

        If a value is short, mask it only if the whole `text` is equal to the value.
        """
        if text in self._secret_values:
            return self._mask(self._secret_values[text])
        if self._pattern is None:
            long_forms = sorted(
                (form for form in self._secret_values if len(form) >= MIN_EMBEDDED_CHARACTERS), key=len, reverse=True
            )
            self._pattern = re.compile("|".join(map(re.escape, long_forms)) or r"(?!)")
        return self._pattern.sub(lambda match: self._mask(self._secret_values[match[0]]), text)

    def mask_key(self, key: ObjectKey) -> ObjectKey:
        return ObjectKey(*map(self.mask_text, key))

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value with known values of Secrets masked, in field names too."""
        if not self._secret_values:
            return value
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, dict):
            return {self.mask_text(name): self.mask_value(item) for name, item in value.items()}
        return [self.mask_value(item) for item in value] if isinstance(value, list) else value

    def mask_object(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object with known values of Secrets masked.

        For a Secret, put the entries of `data` and `stringData` into `data`, with every value masked.
        """
        if group_kind(obj) != SECRET:
            return {name: self.mask_value(item) for name, item in obj.items()}
        masked_data = {name: self._mask(plain) for name, plain in secret_entries(obj)}
        masked_fields: dict[str, Any] = self.mask_value(without_secret_data(obj))
        return {**masked_fields, "data": masked_data} if masked_data else masked_fields
