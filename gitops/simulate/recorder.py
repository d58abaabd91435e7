"""Recorder that turns the reconciliations, writes and commits of a simulation into tracks and events of a timeline."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import takewhile

from applier.causes import Cause, Reason
from applier.execute.results import Result
from gitops.clock import Clock
from gitops.durations import format_duration
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.notable_changes import InstancesHeld, News, RolloutHalted, WaveSettled, WindowOverridden, news
from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.simulate.timeline import (
    CommitArrival,
    Opening,
    SimulatedWindow,
    Timeline,
    TimelineEvent,
    Track,
    TrackSpan,
    TrackState,
)
from gitops.text import parent_title
from gitops.windows.window import Window
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD

_CONTENT_ACTIONS = frozenset({"created", "updated", "healed", "replaced", "adopted", "deleted", "released"})


@dataclass
class Recorder:
    """Builder of a timeline from each commit, write and reconciliation, in the order of time."""

    source: str
    clock: Clock
    begins: datetime
    arrivals: list[CommitArrival] = field(default_factory=list)
    events: list[TimelineEvent] = field(default_factory=list)
    _last_result: ReconcileResult | None = None
    _tracks: dict[ObjectKey, Track] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def record_commit(self, commit: str, subject: str) -> None:
        """Record the arrival of a commit. If the previous commit has not settled, the new commit supersedes it."""
        if self.arrivals and self.arrivals[-1].settled is None:
            self.arrivals[-1] = replace(self.arrivals[-1], is_superseded=True)
        self.arrivals.append(CommitArrival(self.now, commit, subject))
        self._add_event("commit", self.source, f"{commit[:7]}  {subject}", commit=commit)

    def record_write(self, result: Result) -> None:
        """Record a write of content, or a failure. Ignore other successful actions."""
        action_word = result.action.split()[0]
        if result.error is None and action_word not in _CONTENT_ACTIONS:
            return
        if self.arrivals and self.arrivals[-1].started is None:
            self.arrivals[-1] = replace(self.arrivals[-1], started=self.now)
        name = result.node if result.node and "/" not in result.node else f"{result.key.kind}/{result.key.name}"
        outcome = f"{name} {result.action}" if result.error is None else f"{name} NOT {result.action}: {result.error}"
        level = "" if result.level is None else f"level {result.level}  "
        fields = {"object": str(result.key), "action": result.action, "node": result.node, "level": result.level}
        self._add_event("failure" if result.error else "write", parent_title(result.set), f"{level}{outcome}", **fields)
        if (track := self._tracks.get(result.set)) and not track.written:
            self._tracks[result.set] = replace(track, written=True)

    def record_pass(self, result: ReconcileResult) -> None:
        """Record the states after all reconciliations of one moment. When the commit settles, record this time too."""
        result = replace(
            result, ledger=SetSummaries.of(result.plan, self._last_result.ledger if self._last_result else None)
        )
        for change in news(self._last_result, result):
            self._record_change(change)
        self._last_result = result
        owners, accounts = _blocked_objects(result.ledger), result.ledger.accounts
        instances = {key: summary for key, summary in accounts.items() if not summary.plan.rendered.is_source}
        for key, account in instances.items():
            self._update_track(key, instance_state(account, owners.get(key)), result)
        for key in [key for key in self._tracks if key not in instances]:
            self._update_track(key, TrackState(Reason.SETTLED, is_deleted=True), result)
        is_over = all(track.spans[-1].state.is_over for track in self._tracks.values())
        has_pending = any(
            summary.rows or summary.is_waiting for key, summary in accounts.items() if key not in instances
        )
        if is_over and not has_pending and self.arrivals and self.arrivals[-1].settled is None:
            self.arrivals[-1] = replace(self.arrivals[-1], settled=self.now)
            self._add_event("settled", self.source, f"{self.arrivals[-1].commit[:7]} settled, all matches Git")

    def is_settled(self) -> bool:
        """Return whether the last commit has settled."""
        return bool(self.arrivals) and self.arrivals[-1].settled is not None

    def states(self) -> Hashable:
        """Return the states of all instances as a comparable value, without times and messages."""
        states = {key: track.spans[-1].state for key, track in self._tracks.items()}
        return tuple((key, state.word, state.reason, state.node) for key, state in states.items())

    def build_timeline(self, windows: Iterable[Window], end_reason: str, warnings: Iterable[str]) -> Timeline:
        """Return the timeline up to now.

        Args:
            end_reason: reason for the end of the simulation, as text for people.
        """
        simulated_windows = tuple(_simulated_window(window, self.begins, self.now) for window in windows)
        edges = [
            event
            for simulated_window in simulated_windows
            for event in _edge_events(simulated_window, self.begins, self.now)
        ]
        tracks = (self._close_track(track) for _, track in sorted(self._tracks.items()))
        return Timeline(
            source=self.source,
            begins=self.begins,
            ends=self.now,
            end_reason=end_reason,
            arrivals=tuple(self.arrivals),
            tracks=tuple(sorted(tracks, key=self._sort_key)),
            events=tuple(sorted((*edges, *self.events), key=lambda event: event.at)),
            windows=simulated_windows,
            warnings=tuple(warnings),
        )

    def _sort_key(self, track: Track) -> tuple[str, int, str]:
        """Return the key that orders tracks by rollout, wave and name."""
        states = self._last_result.propagation.states if self._last_result else {}
        waves = [wave.name for wave in states[track.rollout].waves] if track.rollout in states else []
        return (
            track.rollout,
            waves.index(track.wave) if track.wave in waves else len(waves),
            parent_title(track.instance),
        )

    def _close_track(self, track: Track) -> Track:
        *earlier, last = track.spans
        return replace(track, spans=(*earlier, replace(last, ends=self.now)))

    def _update_track(self, key: ObjectKey, state: TrackState, result: ReconcileResult) -> None:
        track = self._tracks.get(key)
        rollout: Mapping[str, str] = result.propagation.remembered.get(key, {}).get("rollout") or {}
        name, wave = rollout.get("name", ""), rollout.get("wave", "")
        if track is None:
            self._tracks[key] = Track(key, name, wave, (TrackSpan(self.now, self.now, state),))
            return
        *earlier, last = track.spans
        name, wave = (name, wave) if rollout else (track.rollout, track.wave)
        if state.continues(last.state):
            spans = (*earlier, replace(last, state=state))
        else:
            self._record_transition(key, last, state)
            closed = [*earlier, replace(last, ends=self.now)] if last.begins < self.now else earlier
            spans = (*closed, TrackSpan(self.now, self.now, state))
        self._tracks[key] = replace(track, rollout=name, wave=wave, spans=spans)

    def _record_transition(self, key: ObjectKey, last: TrackSpan, state: TrackState) -> None:
        """Add an event for a change of state without a write, such as readiness."""
        duration_text = f" after {format_duration(self.now - last.begins)}" if last.state.word == "progressing" else ""
        match state.word:
            case "baking":
                self._add_event(
                    "healthy", parent_title(key), f"healthy{duration_text}, bakes until {{until}}", until=state.until
                )
            case "settled":
                self._add_event("ready", parent_title(key), f"settled{duration_text}")
            case "failed":
                self._add_event("failed", parent_title(key), f"{state.node or ''} FAILED: {state.message}".strip())
            case "deleted":
                self._add_event("deleted", parent_title(key), "instance deleted")

    def _record_change(self, change: News) -> None:
        match change:
            case WaveSettled(rollout=rollout, wave=wave, following=following):
                suffix = f"; wave {following} starts" if following else ""
                text = f"wave {wave.name} settled, {wave.settled} of {wave.total}{suffix}"
                self._add_event("wave", rollout, text, wave=wave.name)
            case RolloutHalted(rollout=rollout, target=target, why=message):
                self._add_event("halted", rollout, f"{target} HALTED: {message}", target=target)
            case WindowOverridden(rollout=rollout, decision=override):
                self._add_event("overridden", rollout, f"{override.subject}: {override.why}", by=override.by)
            case InstancesHeld(instances=keys, node=node, cause=cause):
                subject = parent_title(keys[0]) if len(keys) == 1 else f"{len(keys)} {keys[0].kind}"
                fields = {"instances": [str(key) for key in keys], "node": node, "reason": str(cause.reason)}
                text = f"{node} HELD: {cause.message}".strip()
                self._add_event("held", subject, text, **fields, until=cause.until)

    def _add_event(self, kind: str, subject: str, text: str, **fields: object) -> None:
        self.events.append(
            TimelineEvent(self.now, kind, subject, text, {name: value for name, value in fields.items() if value})
        )


def instance_state(account: SetSummary, owner: Cause | None) -> TrackState:
    """Return the state of an instance.

    Args:
        owner: cause that blocks the write of the instance's object, or None.
    """
    parent = account.plan.parent
    if parent is None and owner:
        return _state_of_cause(owner)
    if account.rows:
        return _state_of_cause(account.rows[0])
    if account.is_waiting or parent is None:
        return TrackState(Reason.PROGRESSING)
    return TrackState(Reason.SETTLED)


def _state_of_cause(cause: Cause) -> TrackState:
    blockers = tuple(dict.fromkeys(blocker.name for blocker in cause.references))
    return TrackState(cause.reason, cause.message, cause.node, blockers, cause.until)


def _blocked_objects(ledger: SetSummaries) -> dict[ObjectKey, Cause]:
    """Return the causes that block writes of desired objects other than CRDs, by object."""
    nodes = (node for account in ledger.restless() for node in account.restless)
    return {
        node.node.key: node.blocked
        for node in nodes
        if node.node.key and node.blocked and node.node.key.group_kind != CRD
    }


def _simulated_window(window: Window, begins: datetime, ends: datetime) -> SimulatedWindow:
    """Return a window with its openings during the simulation."""
    spans = takewhile(lambda span: span[0] is None or span[0] < ends, window.timeline.intervals(begins))
    openings = tuple(Opening(*span) for span in spans)
    return SimulatedWindow(window.name, str(window.kind), str(window.zone), window.description, openings)


def _edge_events(window: SimulatedWindow, begins: datetime, ends: datetime) -> Iterator[TimelineEvent]:
    for opening in window.openings:
        for moment, edge in ((opening.begins, "begins"), (opening.ends, "ends")):
            if moment and begins <= moment <= ends:
                yield TimelineEvent(moment, "window", window.name, f"window {edge} ({window.kind})", {"edge": edge})
