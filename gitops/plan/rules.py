"""Windows and policies that a commit changes: nothing in the cluster is another by that, but when and how everything may become so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.plan.field_diff import differences, written
from gitops.plan.report import FieldDiff, PlanWarning, WarningKind
from gitops.rollouts.source_rules import Stored
from renderer.phrasing import listed

_FEW = 5


def changed(before: Stored, after: Stored) -> Iterator[PlanWarning]:
    """One for each rule in force that was another before; both are accepted rules as they are stored."""
    old, new = _named(before), _named(after)
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        at = now or was or {}
        if why := _what(was, now):
            yield PlanWarning(WarningKind.RULES, f"{' '.join(name)} {why}", name[1], at["file"], at["line"])
    was, now = (one.get("calendars") or {} for one in (before, after))
    for file in sorted(was.keys() | now.keys()):
        if was.get(file) != now.get(file):
            yield PlanWarning(WarningKind.RULES, f"calendar {file} changes", file, file, 1)


def _named(stored: Stored) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(one["manifest"]["kind"], one["manifest"]["metadata"]["name"]): one for one in stored.get("rules") or ()}


def _what(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    if was is None or now is None:
        return "is new" if was is None else "goes"
    found = differences(was["manifest"], now["manifest"])
    return f"changes: {listed(map(_told, found), most=_FEW, separator='; ')}" if found else ""


def _told(one: FieldDiff) -> str:
    """YAML 1.1 reads the name `n` as false."""
    old, new = ("none" if value is None else written(value) for value in (one.old, one.new))
    return f"{one.path} {old} -> {new}".replace("linear.false", "linear.n").replace(
        '"linear":{"false"', '"linear":{"n"'
    )
