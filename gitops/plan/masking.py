"""Values of Secrets never leave a plan: they are replaced at the source by numbers, the same number for the same value.

So a change shows and a value does not. What counts as a value is what a Secret holds, in its form or decoded, wherever else it turns up: copied
into another object, an error of the server, an annotation that records what was applied last. The numbers come from a keyed hash; the key is
random for each plan and nobody keeps it.
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
"""What values are called in a snapshot. Their numbers say nothing of those in a plan."""

_MASK_PATTERN = re.compile(rf"\((?:{SNAPSHOT_LABEL}|secret) #\d+\)")


def may_be_equal(old: object, new: object) -> bool:
    """Do two masked texts differ in nothing but values of which one is known to a snapshot alone?"""
    if not isinstance(old, str) or not isinstance(new, str) or not has_snapshot_masks(old):
        return False
    return _MASK_PATTERN.sub("", old) == _MASK_PATTERN.sub("", new)


def has_snapshot_masks(obj: object) -> bool:
    """Does it hold values that a snapshot has masked?"""
    match obj:
        case str():
            return f"({SNAPSHOT_LABEL} #" in obj
        case dict():
            return any(map(has_snapshot_masks, obj.values()))
        case list():
            return any(map(has_snapshot_masks, obj))
    return False


class SecretMasks:
    """The numbers of one plan, in the order in which values are met."""

    def __init__(self, label: str = "secret") -> None:
        self._label = label
        self._key = secrets.token_bytes(32)
        self._numbers: dict[bytes, int] = {}
        self._secret_values: dict[str, bytes] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """What the Secrets among these hold is masked from now on, wherever it turns up. What a snapshot has masked holds no value."""
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
        """The text without values that are known."""
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
        """A JSON value without values that are known; names of fields may tell as much as their values."""
        if not self._secret_values:
            return value
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, dict):
            return {self.mask_text(name): self.mask_value(item) for name, item in value.items()}
        return [self.mask_value(item) for item in value] if isinstance(value, list) else value

    def mask_object(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """An object as it may be shown. Of a Secret no value is, however short, and its `stringData` stands as `data`."""
        if group_kind(obj) != SECRET:
            return {name: self.mask_value(item) for name, item in obj.items()}
        masked_data = {name: self._mask(plain) for name, plain in secret_entries(obj)}
        masked_fields: dict[str, Any] = self.mask_value(without_secret_data(obj))
        return {**masked_fields, "data": masked_data} if masked_data else masked_fields
