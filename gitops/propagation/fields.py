"""`PropagationWindow` objects from Git to windows.

Invariants: a window is read wholly or not at all; all its mistakes are reported together, each with the line it stands on and what would be
valid. Nothing here knows the time: that a window has ended is no mistake, that it can never open is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import islice
from posixpath import dirname, join, normpath
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from gitops.propagation import ical, recurrence, texts, zones
from gitops.propagation.occurrences import Elapsed, Fixed, Interval, Occurrences, Repeating, Timeline, WallClock, merged
from gitops.propagation.recurrence import Refused
from gitops.propagation.window import Drain, Kind, Operator, Requirement, Selector, Verb, Window
from renderer import schema
from renderer.catalog import Catalog
from renderer.content import Declared
from renderer.errors import Problem
from renderer.model import Origin

T = TypeVar("T")

_API_VERSION: Final = "levelgate.dev/v1alpha1"
_SOURCES: Final = ("cron", "rrule", "once", "calendar")
_TRIED: Final = 1000
"""So many occurrences are looked at for one that the cutoff leaves something of."""

_TEXT: Final = {"type": "string"}
_NAMES: Final = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[A-Za-z0-9._:@/*-]+$"}}


def _object(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _one_of(words: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(word) for word in words]}


_REQUIREMENT: Final = _object(
    "key", "operator", key=_TEXT, operator=_one_of(Operator), values={"type": "array", "items": _TEXT}
)
_SELECTOR: Final = _object(
    **dict.fromkeys(("clusters", "namespaces", "rgds", "nodes", "kinds"), _NAMES),
    instances=_object(
        matchLabels={"type": "object", "additionalProperties": _TEXT},
        matchExpressions={"type": "array", "items": _REQUIREMENT},
    ),
)
_SPEC: Final = _object(
    "kind",
    "timeZone",
    "schedule",
    kind=_one_of(Kind),
    timeZone=_TEXT,
    schedule=_object(
        cron=_TEXT,
        rrule=_TEXT,
        dtstart=_TEXT,
        once={"type": "array", "minItems": 1, "items": _object("start", "end", start=_TEXT, end=_TEXT)},
        calendar=_TEXT,
    ),
    duration=_TEXT,
    until=_TEXT,
    exdates={"type": "array", "items": _TEXT},
    effective=_object(**{"from": _TEXT, "to": _TEXT}),
    selector=_SELECTOR,
    verbs={"type": "array", "minItems": 1, "uniqueItems": True, "items": _one_of(Verb)},
    cutoff=_TEXT,
    drain=_one_of(("Unit", "Level", "Rollout", "None")),
    overrunLimit=_TEXT,
    breakGlass=_one_of(("Allowed", "Forbidden")),
    byName={"type": "boolean"},
    description=_TEXT,
    ticket=_TEXT,
)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a commit. `broken` are those that cannot be read, by name: what was accepted of them before stays in force."""

    windows: tuple[Window, ...] = ()
    broken: Mapping[str, Origin] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def windows_of(catalog: Catalog) -> Windows:
    """Read all windows of a catalog; of two with one name the first counts, in the order of files."""
    found: dict[str, Window] = {}
    broken: dict[str, Origin] = {}
    problems: list[Problem] = []
    for rule in catalog.rules:
        if rule.group_kind.kind != "PropagationWindow":
            continue
        reader = _Reader(rule, catalog.calendars)
        window = reader.window()
        if window and (other := found.setdefault(window.name, window)) is not window:
            reader.fail(
                "metadata.name", f"a window {window.name!r} stands at {other.origin} already; rename one of the two"
            )
        elif window is None:
            broken[rule.manifest["metadata"]["name"]] = rule.origin
        problems += reader.problems
    return Windows(tuple(found.values()), broken, tuple(sorted(problems)))


class _Wrong(Exception):
    """A field is not valid; the others are read all the same."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)


class _Reader:
    """Collects the mistakes of one window; the window is only given out when there are none."""

    def __init__(self, declared: Declared, calendars: Mapping[str, bytes]) -> None:
        self.declared = declared
        self.calendars = calendars
        self.problems: list[Problem] = []
        self.spec: dict[str, Any] = {}

    def fail(self, path: str, message: str) -> None:
        origin = self.declared.origin
        self.problems.append(Problem(origin.file, self.declared.line_of(path), path, message))

    def window(self) -> Window | None:
        self._check_form()
        where = self._read("timeZone", texts.zone)
        cutoff = self._read("cutoff", texts.duration) or timedelta()
        overrun = self._read("overrunLimit", texts.duration)
        instances = self._tried(self._instances)
        timeline = self._timeline(where or zones.zone("UTC"), cutoff)
        if self.problems or where is None or timeline is None:
            return None
        spec = self.spec
        selector = {name: tuple(names) for name, names in spec.get("selector", {}).items() if name != "instances"}
        return Window(
            name=self.declared.manifest["metadata"]["name"],
            kind=Kind(spec["kind"]),
            zone=where,
            timeline=timeline,
            selector=Selector(**selector, instances=instances),
            verbs=frozenset(map(Verb, spec.get("verbs", ("create", "update", "prune")))),
            cutoff=cutoff,
            drain=Drain[spec.get("drain", "Unit").upper()],
            overrun_limit=timedelta(hours=1) if overrun is None else overrun,
            final=spec.get("breakGlass") == "Forbidden",
            by_name=spec.get("byName", False),
            description=spec.get("description", ""),
            ticket=spec.get("ticket", ""),
            origin=self.declared.origin,
        )

    def _check_form(self) -> None:
        """Types, words and names of fields. A field that is wrong is left out, so that the others can be looked at."""
        manifest = self.declared.manifest
        if manifest["apiVersion"] != _API_VERSION:
            self.fail("apiVersion", f"{manifest['apiVersion']!r} is not known; write {_API_VERSION}")
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            self.fail(name, "no such field; what a window says stands under spec")
        given = manifest.get("spec")
        self.spec = (
            {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else {}
        )
        for mistake in schema.validate(_SPEC, self.spec):
            self.fail(f"spec.{mistake.path}", mistake.message)
            self.spec.pop(re.split(r"[.\[]", mistake.path)[0], None)

    def _tried(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except _Wrong as wrong:
            self.fail(wrong.path, wrong.message)
            return None

    def _read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """A field of the spec; None where it is absent or wrong."""
        if name not in self.spec:
            return None
        return self._tried(partial(_parsed, f"spec.{name}", parse, self.spec[name]))

    def _instances(self) -> tuple[Requirement, ...] | None:
        selector = self.spec.get("selector", {}).get("instances")
        if selector is None:
            return None
        equal = [
            Requirement(key, Operator.IN, frozenset({value})) for key, value in selector.get("matchLabels", {}).items()
        ]
        return (*equal, *(_requirement(index, term) for index, term in enumerate(selector.get("matchExpressions", []))))

    def _timeline(self, where: ZoneInfo, cutoff: timedelta) -> Timeline | None:
        """When the window is active; None with at least one problem noted, or none of its own to note."""
        deny = self.spec.get("kind") == Kind.DENY
        if deny and cutoff:
            self.fail("spec.cutoff", "only an Allow has a last part in which nothing new is started; remove it")
        exdates = [self._tried(partial(self._exdate, index)) for index in range(len(self.spec.get("exdates", ())))]
        limits = self._effective(where, deny=deny)
        end = self._tried(lambda: self._end(deny=deny))
        occurrences = self._tried(lambda: self._occurrences(where, end, frozenset(filter(None, exdates)), deny=deny))
        if self.problems or occurrences is None:
            return None
        timeline = Timeline(occurrences, *limits)
        self._check_opens(timeline, cutoff)
        return timeline

    def _exdate(self, index: int) -> date:
        text = self.spec["exdates"][index]
        return _parsed(f"spec.exdates[{index}]", texts.wall if len(text) > len("2026-12-24") else texts.day, text)

    def _effective(self, where: ZoneInfo, *, deny: bool) -> tuple[datetime | None, datetime | None]:
        """Both dates are inclusive."""
        given = self.spec.get("effective", {})
        first, last = (
            self._tried(partial(_parsed, f"spec.effective.{name}", texts.day, given[name])) if name in given else None
            for name in ("from", "to")
        )
        if first and last and last < first:
            self.fail("spec.effective.to", f"{last} is before {first}, so the window can never open")
        return (
            zones.closing(datetime.combine(first, time()), where, last=False) if first else None,
            zones.closing(datetime.combine(last + timedelta(days=1), time()), where, last=deny) if last else None,
        )

    def _end(self, *, deny: bool) -> Elapsed | WallClock | None:
        """How a repeating window closes; None for one whose occurrences have an end of their own."""
        given = [name for name in ("duration", "until") if name in self.spec]
        schedule = self.spec.get("schedule", {})
        if "once" in schedule or "calendar" in schedule:
            if given:
                raise _Wrong(f"spec.{given[0]}", "each entry of once or of a calendar has an end already; remove it")
            return None
        if len(given) == 2:
            raise _Wrong(
                "spec.until",
                "duration and until exclude one another; duration is elapsed time, until the clock on the wall",
            )
        if not given:
            raise _Wrong(
                "spec", "neither duration nor until: say when the window closes, such as until: '17:00' or duration: 8h"
            )
        if given == ["until"]:
            weekday, at = _parsed("spec.until", texts.until, self.spec["until"])
            return WallClock(at, weekday, last=deny)
        duration = _parsed("spec.duration", texts.duration, self.spec["duration"])
        if not duration:
            raise _Wrong("spec.duration", "a window that takes no time can never open")
        return Elapsed(duration)

    def _occurrences(
        self, where: ZoneInfo, end: Elapsed | WallClock | None, exdates: frozenset[date], *, deny: bool
    ) -> Occurrences | None:
        schedule = self.spec.get("schedule")
        if schedule is None:
            return None
        given = [name for name in _SOURCES if name in schedule]
        if len(given) != 1:
            raise _Wrong(
                "spec.schedule", f"has {' and '.join(given) or 'nothing'}; give exactly one of {', '.join(_SOURCES)}"
            )
        if "dtstart" in schedule and "rrule" not in schedule:
            raise _Wrong("spec.schedule.dtstart", "belongs to rrule; remove it, or see effective.from")
        match given[0]:
            case "cron":
                days, times = _parsed("spec.schedule.cron", recurrence.cron, schedule["cron"])
                return Repeating(days, times, end, where, exdates) if end else None
            case "rrule":
                start, rule = self._rule(schedule)
                return Repeating(rule, (start.time(),), end, where, exdates) if end else None
            case "once":
                return Fixed(
                    merged(self._entry(index, where, exdates, deny=deny) for index in range(len(schedule["once"])))
                )
        return Fixed(merged(self._events(schedule["calendar"], where, exdates, deny=deny)))

    def _rule(self, schedule: Mapping[str, Any]) -> tuple[datetime, recurrence.RuleDays]:
        if "dtstart" not in schedule:
            raise _Wrong(
                "spec.schedule", "rrule needs dtstart, the first day and the time of day, such as 2026-01-13T20:00"
            )
        start = _parsed("spec.schedule.dtstart", texts.wall, schedule["dtstart"])
        return start, _parsed(
            "spec.schedule.rrule", lambda text: recurrence.rule(text, start.date()), schedule["rrule"]
        )

    def _entry(self, index: int, where: ZoneInfo, exdates: frozenset[date], *, deny: bool) -> Interval | None:
        path = f"spec.schedule.once[{index}]"
        given = self.spec["schedule"]["once"][index]
        start, end = (_parsed(f"{path}.{name}", texts.wall, given[name]) for name in ("start", "end"))
        if end <= start:
            raise _Wrong(f"{path}.end", f"{given['end']} is not after {given['start']}, so the window can never open")
        return _interval(ical.Event(start, None, end, None), where, exdates, deny=deny)

    def _events(self, name: str, where: ZoneInfo, exdates: frozenset[date], *, deny: bool) -> Iterator[Interval | None]:
        path = "spec.schedule.calendar"
        file = normpath(join(dirname(self.declared.origin.file), name))
        if file not in self.calendars:
            known = ", ".join(sorted(self.calendars)) or "none"
            raise _Wrong(
                path,
                f"no calendar {file!r} in this commit; names are relative to the window's file; there are: {known}",
            )
        try:
            found = ical.events(self.calendars[file])
        except ical.CalendarError as error:
            raise _Wrong(path, f"{file}:{error.line}: {error.message}") from None
        for event in found:
            yield _interval(event, where, exdates, deny=deny)

    def _check_opens(self, timeline: Timeline, cutoff: timedelta) -> None:
        """Refuse what can never open, whatever the date."""
        for opens, closes in islice(timeline.intervals(_beginning(timeline.occurrences)), _TRIED):
            if opens is None or closes is None or closes - opens > cutoff:
                return
        if cutoff:
            self.fail(
                "spec.cutoff",
                "the cutoff takes the whole window, so nothing can ever be started in it; make it shorter",
            )
        else:
            self.fail(
                "spec.schedule", "the window can never open: no opening is left by schedule, exdates and effective"
            )


def _parsed(path: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except Refused as refused:
        raise _Wrong(path, str(refused)) from None


def _requirement(index: int, term: Mapping[str, Any]) -> Requirement:
    operator, values = Operator(term["operator"]), term.get("values", [])
    if bool(values) != (operator in {Operator.IN, Operator.NOT_IN}):
        wanted = "takes no values" if values else "needs at least one value"
        raise _Wrong(f"spec.selector.instances.matchExpressions[{index}].values", f"{operator} {wanted}")
    return Requirement(term["key"], operator, frozenset(values))


def _interval(event: ical.Event, where: ZoneInfo, exdates: frozenset[date], *, deny: bool) -> Interval | None:
    """When an event takes place; None where it is left out or takes no time."""
    if event.start in exdates or event.start.date() in exdates:
        return None
    opens = zones.opening(event.start, event.start_zone or where)
    closes = zones.closing(event.end, event.end_zone or where, last=deny) + event.extra
    return Interval(opens, closes) if opens and opens < closes else None


def _beginning(occurrences: Occurrences) -> datetime:
    """An instant before which no occurrence has to be looked for."""
    match occurrences:
        case Repeating(days=recurrence.RuleDays(start=start)):
            return datetime.combine(start, time(), UTC) - timedelta(days=2)
        case Fixed(intervals=(first, *_)):
            return first.opens
    return datetime(1970, 1, 1, tzinfo=UTC)
