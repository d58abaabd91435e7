"""Turns passes into a timeline: what changed since the pass before, for each instance and for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import takewhile

from applier.causes import Cause, Reason
from applier.execute.results import Result
from gitops.clock import Clock
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.notable_changes import InstancesHeld, News, RolloutHalted, WaveSettled, WindowOverridden, news
from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.rollouts.items import name_of
from gitops.simulate.timeline import (
    CommitArrival,
    Opening,
    SimulatedWindow,
    Stage,
    Timeline,
    TimelineEvent,
    Track,
    TrackSpan,
    TrackState,
    stage_of,
)
from gitops.windows.window import Window
from renderer.frozen import dataclass
from renderer.identity import SOURCE_PREFIX, GroupKind, ObjectKey
from renderer.kinds import CRD

_CONTENT = frozenset({"created", "updated", "healed", "replaced", "adopted", "deleted", "released"})


@dataclass
class Recorder:
    """Hears of every commit, write and pass, in the order of time."""

    source: str
    clock: Clock
    begins: datetime
    arrivals: list[CommitArrival] = field(default_factory=list)
    events: list[TimelineEvent] = field(default_factory=list)
    _last: ReconcileResult | None = None
    _tracks: dict[ObjectKey, Track] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def arrived(self, commit: str, subject: str) -> None:
        if self.arrivals and self.arrivals[-1].settled is None:
            self.arrivals[-1] = replace(self.arrivals[-1], overtaken=True)
        self.arrivals.append(CommitArrival(self.now, commit, subject))
        self._tell("commit", self.source, f"{commit[:7]}  {subject}", commit=commit)

    def wrote(self, result: Result) -> None:
        """One action of a pass, done or failed."""
        words = result.action.split()[0]
        if result.error is None and words not in _CONTENT:
            return
        if self.arrivals and self.arrivals[-1].started is None:
            self.arrivals[-1] = replace(self.arrivals[-1], started=self.now)
        name = result.node if result.node and "/" not in result.node else f"{result.key.kind}/{result.key.name}"
        what = f"{name} {result.action}" if result.error is None else f"{name} NOT {result.action}: {result.error}"
        level = "" if result.level is None else f"level {result.level}  "
        fields = {"object": str(result.key), "action": result.action, "node": result.node, "level": result.level}
        self._tell("failure" if result.error else "write", called(result.set), f"{level}{what}", **fields)
        if (track := self._tracks.get(result.set)) and not track.written:
            self._tracks[result.set] = replace(track, written=True)

    def passed(self, found: ReconcileResult) -> None:
        """How everything is after the passes of a moment."""
        found = replace(found, ledger=SetSummaries.of(found.plan, self._last.ledger if self._last else None))
        for happened in news(self._last, found):
            self._news(happened)
        self._last = found
        owners, accounts = _wanted(found.ledger), found.ledger.accounts
        instances = {key: one for key, one in accounts.items() if not one.plan.rendered.is_source}
        for key, account in instances.items():
            self._stands(key, standing(account, owners.get(key)), found)
        for key in [key for key in self._tracks if key not in instances]:
            self._stands(key, TrackState(Stage.GONE, Reason.SETTLED), found)
        is_over = all(track.spans[-1].standing.stage in (Stage.SETTLED, Stage.GONE) for track in self._tracks.values())
        rest = any(one.rows or one.is_waiting for key, one in accounts.items() if key not in instances)
        if is_over and not rest and self.arrivals and self.arrivals[-1].settled is None:
            self.arrivals[-1] = replace(self.arrivals[-1], settled=self.now)
            self._tell("settled", self.source, f"{self.arrivals[-1].commit[:7]} settled, all is as Git says")

    def is_settled(self) -> bool:
        """Is all as the last commit wants it?"""
        return bool(self.arrivals) and self.arrivals[-1].settled is not None

    def standings(self) -> Hashable:
        """How everything stands, in a form that is equal where nothing but the time and words differ."""
        last = {key: track.spans[-1].standing for key, track in self._tracks.items()}
        return tuple((key, one.stage, one.reason, one.node) for key, one in last.items())

    def timeline(self, windows: Iterable[Window], ended: str, warnings: Iterable[str] = ()) -> Timeline:
        """Everything that happened until now."""
        calendars = tuple(_calendar(window, self.begins, self.now) for window in windows)
        edges = [event for one in calendars for event in _edges(one, self.begins, self.now)]
        tracks = (self._closed(track) for _, track in sorted(self._tracks.items()))
        return Timeline(
            source=self.source,
            begins=self.begins,
            ends=self.now,
            ended=ended,
            arrivals=tuple(self.arrivals),
            tracks=tuple(sorted(tracks, key=self._place)),
            events=tuple(sorted((*edges, *self.events), key=lambda event: event.at)),
            windows=calendars,
            warnings=tuple(warnings),
        )

    def _place(self, track: Track) -> tuple[str, int, str]:
        states = self._last.propagation.states if self._last else {}
        waves = [wave.name for wave in states[track.rollout].waves] if track.rollout in states else []
        return track.rollout, waves.index(track.wave) if track.wave in waves else len(waves), called(track.instance)

    def _closed(self, track: Track) -> Track:
        *earlier, last = track.spans
        return replace(track, spans=(*earlier, replace(last, ends=self.now)))

    def _stands(self, key: ObjectKey, here: TrackState, found: ReconcileResult) -> None:
        track = self._tracks.get(key)
        rollout: Mapping[str, str] = found.propagation.remembered.get(key, {}).get("rollout") or {}
        name, wave = rollout.get("name", ""), rollout.get("wave", "")
        if track is None:
            self._tracks[key] = Track(key, name, wave, (TrackSpan(self.now, self.now, here),))
            return
        *earlier, last = track.spans
        name, wave = (name, wave) if rollout else (track.rollout, track.wave)
        if here.continues(last.standing):
            spans = (*earlier, replace(last, standing=here))
        else:
            self._told(key, last, here)
            ended = [*earlier, replace(last, ends=self.now)] if last.begins < self.now else earlier
            spans = (*ended, TrackSpan(self.now, self.now, here))
        self._tracks[key] = replace(track, rollout=name, wave=wave, spans=spans)

    def _told(self, key: ObjectKey, last: TrackSpan, here: TrackState) -> None:
        """Readiness and settling, which no write tells."""
        took = (
            f" after {length((self.now - last.begins).total_seconds())}" if last.standing.stage is Stage.MOVING else ""
        )
        match here.stage:
            case Stage.BAKING:
                self._tell("healthy", called(key), f"healthy{took}, bakes until {{until}}", until=here.until)
            case Stage.SETTLED:
                self._tell("ready", called(key), f"settled{took}")
            case Stage.FAILED:
                self._tell("failed", called(key), f"{here.node or ''} FAILED: {here.message}".strip())
            case Stage.GONE:
                self._tell("gone", called(key), "instance gone")

    def _news(self, one: News) -> None:
        match one:
            case WaveSettled(rollout=rollout, wave=wave, following=following):
                then = f"; wave {following} starts" if following else ""
                text = f"wave {wave.name} settled, {wave.settled} of {wave.total}{then}"
                self._tell("wave", rollout, text, wave=wave.name)
            case RolloutHalted(rollout=rollout, target=target, why=why):
                self._tell("halted", rollout, f"{target} HALTED: {why}", target=target)
            case WindowOverridden(rollout=rollout, decision=made):
                self._tell("overridden", rollout, f"{made.subject}: {made.why}", by=made.by)
            case InstancesHeld(instances=keys, node=node, cause=cause):
                who = called(keys[0]) if len(keys) == 1 else f"{len(keys)} {keys[0].kind}"
                fields = {"instances": [str(key) for key in keys], "node": node, "reason": str(cause.reason)}
                text = f"{node} HELD: {cause.message}".strip()
                self._tell("held", who, text, **fields, until=cause.until)

    def _tell(self, kind: str, who: str, text: str, **fields: object) -> None:
        self.events.append(
            TimelineEvent(self.now, kind, who, text, {name: value for name, value in fields.items() if value})
        )


def called(key: ObjectKey) -> str:
    """An instance as `WebApp prod/cart`; a source by its name."""
    if key.group_kind == GroupKind("", "ConfigMap"):
        return key.name.removeprefix(SOURCE_PREFIX)
    return f"{key.kind} {name_of(key)}"


def length(seconds: float) -> str:
    """`52s`, `2m`, `1h30m`, `2d4h`; `-2m` where it is sooner."""
    if seconds < 0:
        return f"-{length(-seconds)}"
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def standing(account: SetSummary, owner: Cause | None) -> TrackState:
    """Where one instance stands after a pass; `owner`: why it may not be made yet."""
    parent = account.plan.parent
    if parent is None and owner:
        return _because("", owner)
    if account.rows:
        node, cause, _ = account.rows[0]
        return _because(node, cause)
    if account.is_waiting or parent is None:
        return TrackState(Stage.MOVING, Reason.PROGRESSING)
    return TrackState(Stage.SETTLED, Reason.SETTLED)


def _because(node: str, cause: Cause) -> TrackState:
    by = tuple(dict.fromkeys(one.name for one in cause.because))
    return TrackState(stage_of(cause.reason), cause.reason, cause.message, node, by, cause.until)


def _wanted(ledger: SetSummaries) -> dict[ObjectKey, Cause]:
    """Why an object that a set wants may not be written, by its key."""
    nodes = (node for account in ledger.restless() for node in account.restless)
    return {
        node.node.key: node.blocked
        for node in nodes
        if node.node.key and node.blocked and node.node.key.group_kind != CRD
    }


def _calendar(window: Window, begins: datetime, ends: datetime) -> SimulatedWindow:
    spans = takewhile(lambda span: span[0] is None or span[0] < ends, window.timeline.intervals(begins))
    openings = tuple(Opening(*span) for span in spans)
    return SimulatedWindow(window.name, str(window.kind), str(window.zone), window.description, openings)


def _edges(one: SimulatedWindow, begins: datetime, ends: datetime) -> Iterator[TimelineEvent]:
    for opening in one.openings:
        for moment, word in ((opening.begins, "begins"), (opening.ends, "ends")):
            if moment and begins <= moment <= ends:
                yield TimelineEvent(moment, "window", one.name, f"window {word} ({one.kind})", {"edge": word})
