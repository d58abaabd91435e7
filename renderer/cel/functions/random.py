"""kro's `random`: values computed from a seed. As in kro, the same seed always yields the same value."""

from __future__ import annotations

import hashlib
from typing import Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@overload("random.seededString(int, string): string")
def seeded_string(meter: Meter, length: int, seed: str) -> str:
    """Return `length` characters, one for each 4 bytes of SHA-256(`seed`).

    As in kro, the ninth and later characters repeat the first 8. Raises: EvaluationError if `length` is not positive.
    """
    if length <= 0:
        raise EvaluationError("random.seededString: the length must be positive")
    meter.produce(length)
    digest = hashlib.sha256(seed.encode()).digest()
    period = "".join(_ALPHABET[int.from_bytes(digest[start : start + 4], "big") % 36] for start in range(0, 32, 4))
    return (period * (length // 8 + 1))[:length]


@overload("random.seededInt(int, int, string): int")
def seeded_int(low: int, high: int, seed: str) -> int:
    """Return an integer from `low` to `high` - 1. Raises: EvaluationError if `low` is not less than `high`."""
    if low >= high:
        raise EvaluationError("random.seededInt: the minimum must be less than the maximum")
    return low + int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % (high - low)
