"""Ranges of semantic versions for the tags of a repository.

Versions obey Semantic Versioning 2.0.0. Ranges obey the grammar of Masterminds/semver and npm.

    >=1.0.0 <2.0.0      both                    ~1.4    >=1.4.0 <1.5.0          1.4.x   equal to ~1.4
    ^1.2 || ^2          one of them             ^0.3.1  >=0.3.1 <0.4.0          *       every release

A range admits a pre-release such as 1.5.0-rc.1 only if an alternative contains a pre-release itself. A pre-release of
2.0.0 does not satisfy `<2.0.0`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.semver import Semver, is_semver, semver
from renderer.frozen import dataclass

_PART: Final = re.compile(r"\s*(?P<sign>>=|<=|!=|[=<>~^]?)\s*v?(?P<version>[0-9xX*][0-9A-Za-z.*+-]*)\s*,?")
_VERSION_PATTERN: Final = re.compile(
    r"(?P<numbers>[0-9]+(?:\.[0-9]+){0,2}|)(?P<wild>(?:(?:^|\.)[xX*]){0,3})"
    r"(?P<pre>-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)
_LOWEST_PRERELEASE: Final = "-0"
"""The pre-release that sorts before all other pre-releases of the same version."""

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    "!=": operator.ne,
    "": operator.eq,
}


class _Bound(NamedTuple):
    """A comparison with one version, such as `>=1.0.0`."""

    sign: str
    version: Semver

    def admits(self, version: Semver) -> bool:
        """Return whether the version satisfies the comparison."""
        return _COMPARISONS[self.sign](version.sort_key, self.version.sort_key)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A set of versions. A version belongs to the set if all bounds of at least one alternative admit it."""

    text: str
    alternatives: tuple[tuple[tuple[_Bound, ...], bool], ...]
    """Bounds of each alternative, each with True if the alternative contains a pre-release."""

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse a range. Raises: ValueError for an invalid range. The text of the error gives the valid forms."""
        try:
            return cls(text, tuple(_parse_alternative(text, part) for part in text.split("||")))
        except EvaluationError:
            raise _invalid_range(text) from None

    def admits(self, version: Semver) -> bool:
        """Return whether the version is in the range."""
        return any(
            (not version.prerelease or takes_pre) and all(bound.admits(version) for bound in bounds)
            for bounds, takes_pre in self.alternatives
        )

    def highest_tag(self, tags: Iterable[str]) -> str:
        """Return the tag with the highest admitted version, or an empty string if no tag has an admitted version.

        If several tags have the highest version, return the last tag by name.
        """
        versions = {tag: semver(tag, True) for tag in tags if is_semver(tag, True)}
        admitted = [tag for tag, version in versions.items() if self.admits(version)]
        return max(admitted, key=lambda tag: (versions[tag].sort_key, tag), default="")

    def __str__(self) -> str:
        return self.text


def _parse_alternative(text: str, part: str) -> tuple[tuple[_Bound, ...], bool]:
    """Return the bounds of the alternative `part`, and whether `part` contains a pre-release. Raises: ValueError.

    Args:
        text: whole range, for the error.
    """
    bounds: list[_Bound] = []
    takes_pre, position = False, 0
    while position < len(part.rstrip()):
        part_match = _PART.match(part, position)
        version_match = _VERSION_PATTERN.fullmatch(part_match["version"]) if part_match else None
        if (
            not part_match
            or not version_match
            or (version_match["pre"] and (version_match["wild"] or version_match["numbers"].count(".") < 2))
        ):
            raise _invalid_range(text)
        if part_match["sign"] == "!=" and version_match["numbers"].count(".") < 2:
            raise ValueError(f"{text!r}: an excluded version needs all three numbers, such as !=1.4.2")
        bounds += _bounds(
            part_match["sign"],
            [int(number) for number in version_match["numbers"].split(".") if number],
            version_match["pre"] or "",
        )
        takes_pre = takes_pre or bool(version_match["pre"])
        position = part_match.end()
    if not position:
        raise _invalid_range(text)
    return tuple(bounds), takes_pre


def _bounds(sign: str, numbers: list[int], pre: str) -> Iterator[_Bound]:
    """Yield the bounds of one part of an alternative.

    A part with fewer than three numbers stands for all versions that begin with these numbers.
    """
    low = _make_version(numbers, pre)
    if sign in {"~", "^"} or (len(numbers) < 3 and sign in {"", "="}):
        yield _Bound(">=", low)
        if fixed_count := _fixed_number_count(sign, numbers):
            yield _Bound(
                "<", _make_version([*numbers[: fixed_count - 1], numbers[fixed_count - 1] + 1], _LOWEST_PRERELEASE)
            )
    elif len(numbers) < 3 and sign in {">", "<="} and numbers:
        yield _Bound(
            ">=" if sign == ">" else "<",
            _make_version([*numbers[:-1], numbers[-1] + 1], "" if sign == ">" else _LOWEST_PRERELEASE),
        )
    elif sign == "<":
        yield _Bound(sign, _make_version(numbers, pre or _LOWEST_PRERELEASE))
    else:
        yield _Bound(sign if sign != "=" else "", low)


def _fixed_number_count(sign: str, numbers: list[int]) -> int:
    """Return the number of fixed leading numbers. The upper bound is one higher in the last fixed number.

    `~` fixes the major and the minor number. `^` fixes all numbers up to the first number that is not 0.
    """
    if sign == "^":
        return next((position for position, number in enumerate(numbers, start=1) if number), len(numbers))
    return min(len(numbers), 2) if sign == "~" else len(numbers)


def _make_version(numbers: list[int], pre: str) -> Semver:
    return semver(".".join(map(str, [*numbers, 0, 0, 0][:3])) + pre)


def _invalid_range(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a range of versions; write for example '>=1.0.0 <2.0.0', '~1.4' or '1.x'")
