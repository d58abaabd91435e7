"""Semantic versions (Kubernetes' `semver` library; semver.org 2.0.0). Build data counts for nothing."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.values import INT_MAX, register_type
from renderer.frozen import dataclass

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,19})"
_IDENTIFIER: Final = r"(?:0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Semver:
    numbers: tuple[int, int, int]
    pre: tuple[tuple[bool, int, str], ...]
    """Identifiers before the release in their order: numbers before words."""
    build: str = field(compare=False)

    @property
    def order(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        """Without identifiers it is the release, which comes last."""
        return self.numbers, not self.pre, self.pre


register_type(Semver, "kubernetes.Semver", "semver")


def _parse(text: str, normalize: bool) -> Semver | None:
    text = _normalized(text) if normalize else text
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    major, minor, patch = (int(found[group]) for group in (1, 2, 3))
    if max(major, minor, patch) > INT_MAX:
        return None
    words = found[4].split(".") if found[4] else []
    pre = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return Semver((major, minor, patch), pre, found[5] or "")


def _normalized(text: str) -> str:
    """Without `v` and leading zeros, and with zeros for missing numbers."""
    parts = [re.sub(r"\A0+(?=[0-9])", "", part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and not re.search(r"[+-]", parts[-1]):
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@overload("semver(string): semver", "semver(string, bool): semver")
def semver(text: str, normalize: bool = False) -> Semver:
    found = _parse(text, normalize)
    if found is None:
        hint = "" if normalize else "; semver(text, true) also reads v1.2"
        raise EvaluationError(f"{text[:50]!r} is not a semantic version such as 1.2.3{hint}")
    return found


@overload("isSemver(string): bool", "isSemver(string, bool): bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    return _parse(text, normalize) is not None


@overload("semver.major(): int")
def major(value: Semver) -> int:
    return value.numbers[0]


@overload("semver.minor(): int")
def minor(value: Semver) -> int:
    return value.numbers[1]


@overload("semver.patch(): int")
def patch(value: Semver) -> int:
    return value.numbers[2]


@overload("semver.compareTo(semver): int")
def compare_to(value: Semver, other: Semver) -> int:
    return (value.order > other.order) - (value.order < other.order)


@overload("semver.isLessThan(semver): bool")
def is_less_than(value: Semver, other: Semver) -> bool:
    return value.order < other.order


@overload("semver.isGreaterThan(semver): bool")
def is_greater_than(value: Semver, other: Semver) -> bool:
    return value.order > other.order
