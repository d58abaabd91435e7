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

from applier.applyset.adoption import LAST_APPLIED
from renderer.identity import ObjectKey, group_kind
from renderer.kinds import SECRET
from renderer.secret_redaction import SHORTEST, entries, forms

OF_CLUSTER = "secret of the cluster"
"""What values are called in a snapshot. Their numbers say nothing of those in a plan."""

_ANY = re.compile(rf"\((?:{OF_CLUSTER}|secret) #\d+\)")


def may_be_equal(old: object, new: object) -> bool:
    """Do two masked texts differ in nothing but values of which one is known to a snapshot alone?"""
    if not isinstance(old, str) or not isinstance(new, str) or not is_of_snapshot(old):
        return False
    return _ANY.sub("", old) == _ANY.sub("", new)


def is_of_snapshot(obj: object) -> bool:
    """Does it hold values that a snapshot has masked?"""
    match obj:
        case str():
            return f"({OF_CLUSTER} #" in obj
        case dict():
            return any(map(is_of_snapshot, obj.values()))
        case list():
            return any(map(is_of_snapshot, obj))
    return False


class SecretMasks:
    """The numbers of one plan, in the order in which values are met."""

    def __init__(self, key: bytes = b"", *, word: str = "secret") -> None:
        self._word = word
        self._key = key or secrets.token_bytes(32)
        self._numbers: dict[bytes, int] = {}
        self._known: dict[str, bytes] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """What the Secrets among these hold is masked from now on, wherever it turns up. What a snapshot has masked holds no value."""
        for obj in objects:
            if group_kind(obj) == SECRET:
                for _, plain in entries(obj):
                    if not is_of_snapshot(plain.decode(errors="replace")):
                        self._known |= dict.fromkeys(forms(plain), plain)
                        self._pattern = None

    def _mask(self, plain: bytes) -> str:
        found = hashlib.blake2b(plain, key=self._key, digest_size=16).digest()
        return f"({self._word} #{self._numbers.setdefault(found, len(self._numbers) + 1)})"

    def text(self, text: str) -> str:
        """The text without values that are known."""
        if text in self._known:
            return self._mask(self._known[text])
        if self._pattern is None:
            long = sorted((form for form in self._known if len(form) >= SHORTEST), key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, long)) or r"(?!)")
        return self._pattern.sub(lambda found: self._mask(self._known[found[0]]), text)

    def key(self, key: ObjectKey) -> ObjectKey:
        return ObjectKey(*map(self.text, key))

    def value(self, value: Any) -> Any:
        """A JSON value without values that are known; names of fields may tell as much as their values."""
        if not self._known:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def object(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """An object as it may be shown. Of a Secret no value is, however short, and its `stringData` stands as `data`."""
        rest = {name: item for name, item in obj.items() if name not in {"data", "stringData"}}
        if group_kind(obj) != SECRET:
            return {name: self.value(item) for name, item in obj.items()}
        annotations = (rest.get("metadata") or {}).get("annotations") or {}
        if LAST_APPLIED in annotations:
            kept = {name: item for name, item in annotations.items() if name != LAST_APPLIED}
            rest["metadata"] = {**rest["metadata"], "annotations": kept}
        masked = {name: self._mask(plain) for name, plain in entries(obj)}
        shown: dict[str, Any] = self.value(rest)
        return {**shown, "data": masked} if masked else shown
