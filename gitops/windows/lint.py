"""Lint of windows: content that is valid but probably not intended.

A warning does not reject a window. Warnings depend on the current time, because a window that ends soon gets a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final

from gitops.windows import zones
from gitops.windows.change_search import OpenState, find_next_change
from gitops.windows.occurrences import Repeating, WallClock
from gitops.windows.selectable import (
    SelectableObjects,
    UnmatchedSelector,
    describe_missing_labels,
    find_missing_names,
    required_labels,
)
from gitops.windows.verdict import start_state
from gitops.windows.window import Window, WindowKind, WindowSelector
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.kinds import WINDOW

LOOKAHEAD: Final = timedelta(days=30)
"""Length of a period from now on. An Allow that does not open after this period gets a warning."""
_YEAR: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True, order=True)
class WindowWarning:
    """Message for the author of a window, with the window's name and location."""

    window: str
    message: str
    origin: SourceLocation

    def __str__(self) -> str:
        return f"{self.origin}: window {self.window} {self.message}"


def find_warnings(windows: Sequence[Window], now: datetime) -> tuple[WindowWarning, ...]:
    """Return a warning for each Allow in `windows` that ends soon, has ended, or is always denied.

    Args:
        windows: all windows of one source.
    """
    return tuple(
        WindowWarning(window.name, message, window.origin)
        for window in windows
        if window.kind is WindowKind.ALLOW
        and (message := _describe_end(window, now) or _describe_denial(window, windows, now))
    )


def find_unmatched_windows(
    windows: Iterable[Window], declared_rules: Iterable[DeclaredObject], objects: SelectableObjects
) -> Iterator[UnmatchedSelector]:
    """Yield the selectors in `windows`, and the entries of selectors, that match nothing in their source.

    Skip windows with `byName`, because their selectors have no effect. Do not check names of clusters, because a
    repository may serve several clusters.

    Args:
        declared_rules: rules of the commit, for the line of each selector and entry.
    """
    declared_by_name = {
        rule.manifest["metadata"]["name"]: rule for rule in declared_rules if rule.group_kind.kind == WINDOW
    }
    for window in windows:
        if window.by_name:
            continue
        misses = list(_missing_entries(window.selector, objects))
        governs_nothing = not any(_without_exclusions(window.selector).matches(target) for target in objects.targets)
        if governs_nothing and not misses and objects.is_whole and _count_fields(window.selector) > 1:
            misses = [("", "no object of the source matches all fields of the selector together")]
        for path, message in misses:
            place = f"spec.selector{path}"
            consequence = "; the window governs nothing" if governs_nothing else ""
            declared = declared_by_name.get(window.name)
            line = declared.line_of(place) if declared else window.origin.line
            problem = Problem(window.origin.file, line, place, f"window {window.name}: {message}{consequence}")
            yield UnmatchedSelector((WINDOW, window.name), problem)


def _missing_entries(selector: WindowSelector, objects: SelectableObjects) -> Iterator[tuple[str, str]]:
    """Yield the path below `spec.selector`, and the message, of each entry of `selector` without a match."""
    for field, entries, known, sentence, is_certain in (
        (
            "namespaces",
            selector.namespaces,
            objects.namespaces,
            "no object of the source is in namespace",
            objects.knows_namespaces,
        ),
        ("rgds", selector.rgds, objects.definitions, "no definition of the source is called", objects.knows_objects),
        (
            "nodes",
            selector.nodes,
            objects.node_ids,
            "no resource of a definition in the source is called",
            objects.knows_objects,
        ),
        ("kinds", selector.kinds, objects.kind_names, "no object of the source is of kind", objects.knows_objects),
    ):
        for index, message in find_missing_names(entries, tuple(known), sentence, is_certain=is_certain):
            yield f".{field}[{index}]", message
    if selector.instances and (
        message := describe_missing_labels(selector.instances, objects.all_labels, is_certain=objects.knows_objects)
    ):
        yield ".instances", message


def _without_exclusions(selector: WindowSelector) -> WindowSelector:
    """Return `selector` without its clusters and without its excluded labels."""
    return replace(selector, clusters=None, instances=selector.instances and required_labels(selector.instances))


def _count_fields(selector: WindowSelector) -> int:
    """Return the number of fields of `selector` that are set, without `clusters`."""
    fields = (selector.namespaces, selector.rgds, selector.nodes, selector.kinds, selector.instances)
    return sum(value is not None for value in fields)


def find_common_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return the first time in UTC, from `now` on, at which a change may start in all of `windows` at once.

    If no such time is within ten years, return None.
    """
    return _first_common_opening([partial(start_state, window) for window in windows], now)


def find_clock_changes(window: Window, now: datetime) -> Iterator[tuple[date, str]]:
    """Yield each day of the coming year on which a clock change moves an opening or closing of `window`.

    Each day comes with a description of the effect.
    """
    occurrences = window.timeline.occurrences
    if not isinstance(occurrences, Repeating):
        return
    today = zones.to_local(now, window.zone).date()
    for day in occurrences.days.iter_from(today - timedelta(days=7)):
        if day > today + _YEAR:
            return
        edges = [(opening, "opens", False) for opening in occurrences.openings(day)]
        if isinstance(occurrences.end, WallClock):
            edges += [
                (occurrences.end.closing_of(opening_time), "closes", occurrences.end.last)
                for opening_time, _, _ in edges
            ]
        for wall, verb, last in dict.fromkeys(edges):
            if wall.date() >= today and (message := _describe_shift(window, wall, verb, last=last)):
                yield wall.date(), message


def _describe_shift(window: Window, wall: datetime, verb: str, *, last: bool) -> str:
    """Return the effect of a clock change on an opening or closing at the local time `wall`.

    If the clock does not change on that day, or the change has no effect, return an empty string.

    Args:
        verb: `opens` or `closes`.
        last: whether the later instant counts if `wall` occurs twice.
    """
    if zones.offset_on(wall.date(), window.zone) is not None:
        return ""
    first, second = (zones.closing_instant(wall, window.zone, last=takes_last) for takes_last in (False, True))
    if first != second:
        return f"{verb} once, at the {'second' if last else 'first'} {wall:%H:%M} of that day"
    displayed = zones.to_local(first, window.zone)
    return f"{verb} at {displayed:%H:%M}, as {wall:%H:%M} is skipped" if displayed != wall else ""


def _describe_end(window: Window, now: datetime) -> str:
    """Return a message about a `window` that has ended or does not open after `LOOKAHEAD`, or an empty string."""
    if window.timeline.has_ended(now):
        return (
            "has ended; it still governs, so no change that it governs ever starts; remove it, or prolong effective.to"
        )
    if not (state := start_state(window, now)).is_open and state.until is None:
        return "never opens again; it still governs, so no change that it governs ever starts; remove it, or prolong it"
    later = start_state(window, now + LOOKAHEAD)
    if later.is_open or later.until:
        return ""
    last = window.timeline.span(now + LOOKAHEAD).since
    when = f"after {zones.to_local(last, window.zone):%Y-%m-%d %H:%M}" if last else "soon"
    return f"does not open again {when}; then no change that it governs starts; remove it, or prolong it"


def _describe_denial(window: Window, windows: Sequence[Window], now: datetime) -> str:
    """Return a message if Denies cover every opening of the Allow `window`, or an empty string.

    Consider only Denies with the same selector as `window`, or with an empty selector.
    """
    denies = [
        other
        for other in windows
        if other.kind is WindowKind.DENY
        and not other.by_name
        and other.selector in (WindowSelector(), window.selector)
        and other.operations >= window.operations
    ]
    if not denies or _first_common_opening(
        [partial(start_state, window), *(partial(_state_without_deny, deny) for deny in denies)], now
    ):
        return ""
    return f"is wholly denied by {', '.join(deny.name for deny in denies)}, so it never opens; correct one of them"


def _state_without_deny(deny: Window, now: datetime) -> OpenState:
    """Return the open state at `now` of a target that only `deny` governs."""
    span = deny.timeline.span(now)
    return OpenState(not span.active, span.until)


def _first_common_opening(state_functions: Sequence[partial[OpenState]], now: datetime) -> datetime | None:
    """Return the first time from `now` on at which all states are open, or None if no such time is within ten years."""
    return now if all(state_at(now).is_open for state_at in state_functions) else find_next_change(state_functions, now)
