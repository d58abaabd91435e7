"""Ranges of semantic versions, as people write them for the tags of a repository (semver.org 2.0.0; the grammar of Masterminds/semver and npm).

    >=1.0.0 <2.0.0      both                    ~1.4    >=1.4.0 <1.5.0          1.4.x   the same as ~1.4
    ^1.2 || ^2          one of them             ^0.3.1  >=0.3.1 <0.4.0          *       every release

A pre-release such as 1.5.0-rc.1 is only taken where a part of the range names a pre-release itself, and one of 2.0.0 is not below 2.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.semver import Semver, is_semver, semver
from renderer.frozen import dataclass

_PART: Final = re.compile(r"\s*(?P<sign>>=|<=|!=|[=<>~^]?)\s*v?(?P<version>[0-9xX*][0-9A-Za-z.*+-]*)\s*,?")
_WRITTEN: Final = re.compile(
    r"(?P<numbers>[0-9]+(?:\.[0-9]+){0,2}|)(?P<wild>(?:(?:^|\.)[xX*]){0,3})(?P<pre>-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)
_FIRST: Final = "-0"
"""The pre-release that comes before all others of its version."""


class _Bound(NamedTuple):
    sign: str
    version: Semver

    def admits(self, found: Semver) -> bool:
        mine, its = self.version.order, found.order
        match self.sign:
            case ">=":
                return its >= mine
            case "<":
                return its < mine
            case ">":
                return its > mine
            case "<=":
                return its <= mine
            case "!=":
                return its != mine
        return its == mine


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions that are wanted: all bounds of at least one of the alternatives."""

    text: str
    alternatives: tuple[tuple[tuple[_Bound, ...], bool], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Raises ValueError that says what to write."""
        try:
            return cls(text, tuple(_alternative(text, one) for one in text.split("||")))
        except EvaluationError:
            raise _refused(text) from None

    def admits(self, version: Semver) -> bool:
        return any(
            (not version.pre or takes_pre) and all(bound.admits(version) for bound in bounds)
            for bounds, takes_pre in self.alternatives
        )

    def highest(self, tags: Iterable[str]) -> str:
        """The tag with the highest version that is wanted; of equal ones the last by name. Empty if there is none."""
        versions = {tag: semver(tag, True) for tag in tags if is_semver(tag, True)}
        wanted = [tag for tag, version in versions.items() if self.admits(version)]
        return max(wanted, key=lambda tag: (versions[tag].order, tag), default="")

    def __str__(self) -> str:
        return self.text


def _alternative(text: str, part: str) -> tuple[tuple[_Bound, ...], bool]:
    bounds: list[_Bound] = []
    takes_pre, at = False, 0
    while at < len(part.rstrip()):
        found = _PART.match(part, at)
        written = _WRITTEN.fullmatch(found["version"]) if found else None
        if not found or not written or (written["pre"] and (written["wild"] or written["numbers"].count(".") < 2)):
            raise _refused(text)
        if found["sign"] == "!=" and written["numbers"].count(".") < 2:
            raise ValueError(f"{text!r}: what is not wanted needs all three numbers, such as !=1.4.2")
        bounds += _bounds(
            found["sign"], [int(number) for number in written["numbers"].split(".") if number], written["pre"] or ""
        )
        takes_pre = takes_pre or bool(written["pre"])
        at = found.end()
    if not at:
        raise _refused(text)
    return tuple(bounds), takes_pre


def _bounds(sign: str, numbers: list[int], pre: str) -> Iterator[_Bound]:
    """What one part comes to. A part that leaves numbers out stands for all versions that begin so."""
    low = _version(numbers, pre)
    if sign in {"~", "^"} or (len(numbers) < 3 and sign in {"", "="}):
        yield _Bound(">=", low)
        if kept := _kept(sign, numbers):
            yield _Bound("<", _version([*numbers[: kept - 1], numbers[kept - 1] + 1], _FIRST))
    elif len(numbers) < 3 and sign in {">", "<="} and numbers:
        yield _Bound(
            ">=" if sign == ">" else "<", _version([*numbers[:-1], numbers[-1] + 1], "" if sign == ">" else _FIRST)
        )
    elif sign == "<":
        yield _Bound(sign, _version(numbers, pre or _FIRST))
    else:
        yield _Bound(sign if sign != "=" else "", low)


def _kept(sign: str, numbers: list[int]) -> int:
    """How many numbers, from the left, may not change but for the last of them: `~` keeps the minor, `^` the first that is not 0."""
    if sign == "^":
        return next((place for place, number in enumerate(numbers, start=1) if number), len(numbers))
    return min(len(numbers), 2) if sign == "~" else len(numbers)


def _version(numbers: list[int], pre: str) -> Semver:
    return semver(".".join(map(str, [*numbers, 0, 0, 0][:3])) + pre)


def _refused(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a range of versions; write for example '>=1.0.0 <2.0.0', '~1.4' or '1.x'")
