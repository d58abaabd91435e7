"""Semantic versions (Kubernetes' `semver` library; semver.org 2.0.0). Comparisons ignore build metadata."""

from __future__ import annotations

import re
from typing import Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.values import INT_MAX, register_type
from renderer.frozen import dataclass

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,19})"
_IDENTIFIER: Final = r"(?:0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_MAX_TEXT_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Semver:
    """The three numbers and the pre-release of a version. Comparisons ignore build metadata."""

    numbers: tuple[int, int, int]
    prerelease: tuple[tuple[bool, int, str], ...]
    """Identifiers of the pre-release in a sortable form: numbers before words."""

    @property
    def sort_key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        """Return the key that sorts versions. A release follows its pre-releases."""
        return self.numbers, not self.prerelease, self.prerelease


register_type(Semver, "kubernetes.Semver", "semver")


def _parse(text: str, normalize: bool) -> Semver | None:
    text = _normalize(text) if normalize else text
    parsed = _VERSION.fullmatch(text) if len(text) <= _MAX_TEXT_CHARACTERS else None
    if parsed is None:
        return None
    major, minor, patch = (int(parsed[group]) for group in (1, 2, 3))
    if max(major, minor, patch) > INT_MAX:
        return None
    identifiers = parsed[4].split(".") if parsed[4] else []
    prerelease = tuple(
        (not identifier.isdigit(), int(identifier) if identifier.isdigit() else 0, identifier)
        for identifier in identifiers
    )
    return Semver((major, minor, patch), prerelease)


def _normalize(text: str) -> str:
    """Return `text` without `v` and leading zeros, and with zeros for missing numbers."""
    parts = [re.sub(r"\A0+(?=[0-9])", "", part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and not re.search(r"[+-]", parts[-1]):
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@overload("semver(string): semver", "semver(string, bool): semver")
def semver(text: str, normalize: bool = False) -> Semver:
    """Return the semantic version that `text` names. Raises: EvaluationError for any other text.

    Args:
        normalize: True to accept texts such as `v1.2`.
    """
    version = _parse(text, normalize)
    if version is None:
        hint = "" if normalize else "; semver(text, true) also reads v1.2"
        raise EvaluationError(f"{text[:50]!r} is not a semantic version such as 1.2.3{hint}")
    return version


@overload("isSemver(string): bool", "isSemver(string, bool): bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    """Return whether `semver` accepts `text`."""
    return _parse(text, normalize) is not None


overload_each(
    {
        "semver.major(): int": lambda value: value.numbers[0],
        "semver.minor(): int": lambda value: value.numbers[1],
        "semver.patch(): int": lambda value: value.numbers[2],
        "semver.compareTo(semver): int": lambda value, other: (
            (value.sort_key > other.sort_key) - (value.sort_key < other.sort_key)
        ),
        "semver.isLessThan(semver): bool": lambda value, other: value.sort_key < other.sort_key,
        "semver.isGreaterThan(semver): bool": lambda value, other: value.sort_key > other.sort_key,
    }
)
