"""A timeline as SVG: a row for each instance, grouped by wave, with a bar for each state, below the windows.

States differ in pattern and height as well as in color. Every bar has a title, and the picture has a description. The
picture contains neither a script nor an external resource, so a review may contain the picture. The time axis shortens
stretches without events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from html import escape
from itertools import accumulate, chain, pairwise
from typing import Final

from gitops.durations import format_duration
from gitops.simulate.timeline import SimulatedWindow, Timeline, Track, TrackSpan
from gitops.text import parent_title, truncate
from gitops.windows import zones
from renderer.frozen import dataclass
from renderer.phrasing import format_count

MAX_GAP_RATIO: Final = 8
"""Maximum drawn length of a stretch without events, as a multiple of the first quartile of all stretches."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Time axis of the picture."""

    moments: tuple[datetime, ...]
    """Times of events, in order."""
    positions: tuple[float, ...]
    """Position of each moment, in pixels from the left end of the axis."""
    breaks: tuple[float, ...]
    """Positions of the shortened stretches, in pixels from the left end of the axis."""

    @classmethod
    def from_events(cls, events: Iterable[datetime], width: float) -> Axis:
        """Return an axis of `width` pixels, from the first moment to the last."""
        moments = tuple(sorted(set(events)))
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
        max_gap = MAX_GAP_RATIO * sorted(gaps)[len(gaps) // 4] if gaps else 0.0
        drawn_gaps = [min(gap, max_gap) for gap in gaps]
        scale = width / sum(drawn_gaps) if drawn_gaps else 0.0
        positions = tuple(accumulate((length * scale for length in drawn_gaps), initial=0.0))
        middles = ((left + right) / 2 for left, right in pairwise(positions))
        breaks = tuple(middle for middle, gap in zip(middles, gaps, strict=True) if gap > max_gap)
        return cls(moments, positions, breaks)

    def position_of(self, moment: datetime) -> float:
        """Return the position of `moment` in pixels. If `moment` is outside of the axis, return the nearer end."""
        if moment <= self.moments[0]:
            return 0.0
        if moment >= self.moments[-1]:
            return self.positions[-1]
        index = bisect_right(self.moments, moment) - 1
        earlier, later = self.moments[index], self.moments[index + 1]
        return self.positions[index] + (self.positions[index + 1] - self.positions[index]) * (
            (moment - earlier) / (later - earlier)
        )


WIDTH: Final = 1200
_LEFT, _RIGHT, _ROW, _STRIP, _TOP = 210, 24, 22, 18, 92
_LETTER_WIDTH: Final = 6.6
"""Estimated width of a letter in pixels."""

_STYLE: Final = """
svg { font: 12px ui-sans-serif, system-ui, sans-serif; }
svg { --ink: #1c2733; --dim: #66727f; --line: #d7dde3; --paper: #ffffff; }
text { fill: var(--ink); } .dim { fill: var(--dim); }
.head { font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
.title { font-size: 16px; font-weight: 600; }
.paper { fill: var(--paper); } .grid { stroke: var(--line); } .edge { stroke: var(--dim); stroke-dasharray: 2 3; }
.inner { font-size: 10.5px; }
.settled { fill: #2f9e6e; } .progressing { fill: url(#progressing); }
.baking { fill: url(#baking); } .waiting { fill: #b6c0ca; }
.held { fill: url(#held); stroke: #b7791f; }
.failed { fill: url(#failed); stroke: #9b1c1c; } .deleted { fill: none; stroke: var(--dim); }
.allow { fill: #2f9e6e; fill-opacity: .75; } .deny { fill: url(#deny); stroke: #9b1c1c; }
.open { fill: #2f9e6e; fill-opacity: .07; } .shut { fill: #9b1c1c; fill-opacity: .07; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6ebf0; --dim: #98a4b0; --line: #36414c; --paper: #161b21; } }
"""

_PATTERN: Final = (
    '<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate({turned})">'
    '<rect width="{size}" height="{size}" fill="{ground}"/>{figure}</pattern>'
)
_PATTERNS: Final = "".join(
    _PATTERN.format(name=name, size=size, turned=turned, ground=ground, figure=figure)
    for name, size, turned, ground, figure in (
        ("progressing", 8, 45, "#3b82c4", '<rect width="3" height="8" fill="#6ea8db"/>'),
        ("baking", 6, 0, "#a7dcc3", '<circle cx="3" cy="3" r="1.3" fill="#2f9e6e"/>'),
        ("held", 7, -45, "#fbe7bf", '<rect width="2" height="7" fill="#d99a2b"/>'),
        ("failed", 8, 0, "#e05252", '<path d="M0 0L8 8M8 0L0 8" stroke="#7d1414" stroke-width="1.4"/>'),
        ("deny", 7, 45, "#f3c4c4", '<rect width="2.5" height="7" fill="#c23a3a"/>'),
    )
)

_LEGEND: Final = {
    "settled": "settled",
    "progressing": "progressing",
    "baking": "healthy, baking",
    "waiting": "waiting for others",
    "held": "held",
    "failed": "failed",
}


def render_svg(timeline: Timeline) -> str:
    """Return the SVG document that shows `timeline`."""
    return "\n".join(_TimelinePicture(timeline).lines())


@dataclass
class _TimelinePicture:
    """Layout and elements of the picture of one timeline."""

    timeline: Timeline

    @cached_property
    def tracks(self) -> list[Track]:
        """Return the tracks of the instances that the simulation changes, or that are not settled throughout."""
        return [
            track
            for track in self.timeline.tracks
            if track.written or any(span.state.word != "settled" for span in track.spans)
        ]

    @cached_property
    def zone(self) -> tzinfo:
        """Return the time zone of the first window, or UTC if the timeline has no window."""
        return zones.load_zone(self.timeline.windows[0].zone) if self.timeline.windows else UTC

    @cached_property
    def axis(self) -> Axis:
        timeline = self.timeline
        moments = {timeline.begins, timeline.ends, *(arrival.at for arrival in timeline.arrivals)}
        moments |= {span.begins for track in self.tracks for span in track.spans}
        moments |= {
            edge
            for window in timeline.windows
            for opening in window.openings
            for edge in (opening.begins, opening.ends)
            if edge and timeline.begins < edge < timeline.ends
        }
        return Axis.from_events(moments, WIDTH - _LEFT - _RIGHT)

    @property
    def rows(self) -> int:
        """Return the distance of the first track from the top in pixels."""
        return _TOP + _STRIP * len(self.timeline.windows) + 30

    @property
    def bottom(self) -> int:
        """Return the distance of the end of the tracks from the top in pixels."""
        headings = {(track.rollout, track.wave) for track in self.tracks}
        return self.rows + _ROW * len(self.tracks) + 20 * len(headings)

    @property
    def height(self) -> int:
        return self.bottom + 74

    def lines(self) -> Iterator[str]:
        timeline = self.timeline
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">'
        yield f'<title id="title">{_escape_text(f"Simulation of {timeline.source}")}</title>'
        yield f'<desc id="description">{_escape_text(self._description())}</desc>'
        yield f"<style>{_STYLE}</style><defs>{_PATTERNS}</defs>"
        yield f'<rect class="paper" width="{WIDTH}" height="{self.height}"/>'
        yield _text_element(20, 30, f"Simulation of {timeline.source}", "title")
        yield _text_element(20, 50, self._description(), "dim")
        yield from chain(
            self._bands(), self._scale(), self._windows(), self._arrivals(), self._tracks(), self._legend()
        )
        yield "</svg>"

    def _description(self) -> str:
        timeline = self.timeline
        counts = ", ".join(f"{number} {state}" for state, number in timeline.counts.items() if number) or "none"
        duration_text = format_duration(timeline.ends - timeline.begins)
        period = f"{self._format_time(timeline.begins)} to {self._format_time(timeline.ends)} ({duration_text})"
        return f"{period}: {timeline.end_reason}. Instances: {counts}."

    def _format_time(self, moment: datetime) -> str:
        return f"{moment.astimezone(self.zone):%a %Y-%m-%d %H:%M %Z}"

    def _x(self, moment: datetime) -> float:
        return round(_LEFT + self.axis.position_of(moment), 1)

    def _scale(self) -> Iterator[str]:
        """Yield ticks where a label has room, each date above its first tick, and marks of shortened stretches."""
        last, day, base = -1e9, "", _TOP - 8
        for moment in self.axis.moments:
            x, local = self._x(moment), moment.astimezone(self.zone)
            if x - last < 46 or x > WIDTH - _RIGHT - 24:
                continue
            last = x
            yield f'<line class="grid" x1="{x}" x2="{x}" y1="{base + 4}" y2="{self.bottom}"/>'
            yield _text_element(x, base, f"{local:%H:%M}", "dim inner")
            if (today := f"{local:%a %m-%d}") != day:
                day = today
                yield _text_element(x, base - 13, today, "head inner")
        for position in self.axis.breaks:
            x = round(_LEFT + position, 1)
            zigzag = f"M{x - 3} {self.bottom + 6}l3 -5l0 8l3 -5"
            yield f'<path class="edge" fill="none" d="{zigzag}"><title>omitted time</title></path>'

    def _bands(self) -> Iterator[str]:
        """Yield the background of the tracks for the periods in which a window is active."""
        for window in self.timeline.windows:
            for x, width in self._openings(window):
                kind = "open" if window.kind == "Allow" else "shut"
                height = self.bottom - self.rows
                yield f'<rect class="{kind}" x="{x}" y="{self.rows}" width="{width}" height="{height}"/>'

    def _windows(self) -> Iterator[str]:
        for number, window in enumerate(self.timeline.windows):
            y = _TOP + 6 + number * _STRIP
            yield _text_element(20, y + 11, truncate(f"{window.name} ({window.kind})", 28), "dim")
            title = f"{window.name}, {window.kind}, {window.zone}. {window.description}"
            for x, width in self._openings(window):
                kind = window.kind.lower()
                box = f'x="{x}" y="{y + 2}" width="{width}" height="{_STRIP - 7}"'
                yield f'<rect class="{kind}" rx="3" {box}><title>{_escape_text(title)}</title></rect>'

    def _openings(self, window: SimulatedWindow) -> Iterator[tuple[float, float]]:
        """Yield the left end and the width of each opening, in pixels."""
        for opening in window.openings:
            left = self._x(opening.begins or self.timeline.begins)
            right = self._x(opening.ends or self.timeline.ends)
            if right > left:
                yield left, round(right - left, 1)

    def _tracks(self) -> Iterator[str]:
        y, group = self.rows, ("", "")
        for track in self.tracks:
            if (track.rollout, track.wave) != group:
                group = track.rollout, track.wave
                y += 20
                name = f"{track.rollout}: wave {track.wave}" if track.wave else track.rollout or "others"
                yield _text_element(20, y - 5, truncate(name, 60), "head")
            yield _text_element(32, y + 15, truncate(track.instance.qualified_name, 26), "")
            for span in track.spans:
                yield from self._bar(track, span, y)
            y += _ROW

    def _bar(self, track: Track, span: TrackSpan, y: int) -> Iterator[str]:
        state, left = span.state.word, self._x(span.begins)
        width = max(2.0, round(self._x(span.ends) - left, 1))
        inset = {"waiting": 8, "settled": 4, "deleted": 9}.get(state, 3)
        period = f"{self._format_time(span.begins)} to {self._format_time(span.ends)}"
        title = f"{parent_title(track.instance)}: {span.state.reason}, {period}"
        title += f"; {span.state.message}" if span.state.message else ""
        geometry = f'x="{left}" y="{y + inset}" width="{width}" height="{_ROW - 2 * inset}"'
        yield f'<rect class="{state}" rx="3" {geometry}><title>{_escape_text(title)}</title></rect>'
        inner = ", ".join(span.state.blockers) if state == "held" else str(span.state.reason)
        if state in ("held", "failed") and inner and width > len(inner) * _LETTER_WIDTH + 8:
            box = round(len(inner) * _LETTER_WIDTH + 4, 1)
            yield f'<rect class="paper" rx="2" x="{left + 4}" y="{y + 5}" width="{box}" height="12"/>'
            yield _text_element(left + 6, y + 15, inner, "inner")

    def _arrivals(self) -> Iterator[str]:
        for arrival in self.timeline.arrivals:
            x, title = self._x(arrival.at), _escape_text(f"{arrival.commit[:7]} {arrival.subject}")
            yield f'<line class="edge" x1="{x}" x2="{x}" y1="{_TOP}" y2="{self.bottom}"><title>{title}</title></line>'
            yield f'<path class="settled" d="M{x} {_TOP + 2}l-5 -6l10 0z"><title>{title}</title></path>'

    def _legend(self) -> Iterator[str]:
        x, y = 20.0, self.bottom + 30
        for state, description in _LEGEND.items():
            yield f'<rect class="{state}" rx="3" x="{x}" y="{y}" width="26" height="14"/>'
            yield _text_element(x + 32, y + 11, description, "dim")
            x += 50 + len(description) * _LETTER_WIDTH
        unchanged_count = len(self.timeline.tracks) - len(self.tracks)
        note = f"Times in {self.zone}. The time axis shortens quiet stretches."
        if unchanged_count:
            note += f" Not shown: {format_count(unchanged_count, 'unchanged instance')}."
        yield _text_element(20, y + 34, note, "dim")


def _text_element(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{_escape_text(text)}</text>'


def _escape_text(text: str) -> str:
    """Escape `text` for XML, and replace control characters, which XML forbids."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))
