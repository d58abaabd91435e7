"""A timeline as a picture: one row for each instance that takes part, by wave; bars by stage, above them the windows.

Stages differ in pattern and height as well as in colour, every bar has its words as a title, and the whole has a description. Nothing in it is
run or fetched, so it can stand in a review.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from html import escape
from typing import Final

from gitops.rollouts.items import name_of
from gitops.simulate.axis import Axis
from gitops.simulate.recorder import called, length
from gitops.simulate.timeline import SimulatedWindow, Stage, Timeline, Track, TrackSpan
from gitops.windows import zones
from renderer.frozen import dataclass

WIDTH: Final = 1200
_LEFT, _RIGHT, _ROW, _STRIP, _TOP = 210, 24, 22, 18, 92
_LETTER: Final = 6.6
"""Width of a letter, as far as it is known before it is drawn."""

_STYLE: Final = """
svg { font: 12px ui-sans-serif, system-ui, sans-serif; }
svg { --ink: #1c2733; --dim: #66727f; --line: #d7dde3; --paper: #ffffff; }
text { fill: var(--ink); } .dim { fill: var(--dim); } .head { font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
.title { font-size: 16px; font-weight: 600; }
.paper { fill: var(--paper); } .grid { stroke: var(--line); } .edge { stroke: var(--dim); stroke-dasharray: 2 3; } .inner { font-size: 10.5px; }
.settled { fill: #2f9e6e; } .moving { fill: url(#moving); } .baking { fill: url(#baking); } .waiting { fill: #b6c0ca; }
.held { fill: url(#held); stroke: #b7791f; } .failed { fill: url(#failed); stroke: #9b1c1c; } .gone { fill: none; stroke: var(--dim); }
.allow { fill: #2f9e6e; fill-opacity: .75; } .deny { fill: url(#deny); stroke: #9b1c1c; } .open { fill: #2f9e6e; fill-opacity: .07; }
.shut { fill: #9b1c1c; fill-opacity: .07; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6ebf0; --dim: #98a4b0; --line: #36414c; --paper: #161b21; } }
"""

_PATTERN: Final = (
    '<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" patternTransform="rotate({turned})">'
    '<rect width="{size}" height="{size}" fill="{ground}"/>{figure}</pattern>'
)
_PATTERNS: Final = "".join(
    _PATTERN.format(name=name, size=size, turned=turned, ground=ground, figure=figure)
    for name, size, turned, ground, figure in (
        ("moving", 8, 45, "#3b82c4", '<rect width="3" height="8" fill="#6ea8db"/>'),
        ("baking", 6, 0, "#a7dcc3", '<circle cx="3" cy="3" r="1.3" fill="#2f9e6e"/>'),
        ("held", 7, -45, "#fbe7bf", '<rect width="2" height="7" fill="#d99a2b"/>'),
        ("failed", 8, 0, "#e05252", '<path d="M0 0L8 8M8 0L0 8" stroke="#7d1414" stroke-width="1.4"/>'),
        ("deny", 7, 45, "#f3c4c4", '<rect width="2.5" height="7" fill="#c23a3a"/>'),
    )
)

_LEGEND: Final = {
    Stage.SETTLED: "settled",
    Stage.MOVING: "moving, not ready yet",
    Stage.BAKING: "healthy, bakes",
    Stage.WAITING: "waits its turn",
    Stage.HELD: "held",
    Stage.FAILED: "failed",
}


def picture(timeline: Timeline) -> str:
    """The SVG document."""
    return "\n".join(_Picture(timeline).lines())


@dataclass
class _Picture:
    timeline: Timeline

    def __post_init__(self) -> None:
        found = self.timeline
        self.tracks = [track for track in found.tracks if _takes_part(track)]
        self.zone: tzinfo = zones.zone(found.windows[0].zone) if found.windows else UTC
        moments = {found.begins, found.ends, *(one.at for one in found.arrivals)}
        moments |= {span.begins for track in self.tracks for span in track.spans}
        openings = [opening for one in found.windows for opening in one.openings]
        edges = {edge for opening in openings for edge in (opening.begins, opening.ends) if edge}
        self.axis = Axis.over(
            moments | {edge for edge in edges if found.begins < edge < found.ends}, WIDTH - _LEFT - _RIGHT
        )
        self.rows = _TOP + _STRIP * len(found.windows) + 30
        waves = len({(track.rollout, track.wave) for track in self.tracks})
        self.bottom = self.rows + _ROW * len(self.tracks) + 20 * waves
        self.height = self.bottom + 74

    def lines(self) -> Iterator[str]:
        found = self.timeline
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" role="img" '
            'aria-labelledby="title description">'
        )
        yield f'<title id="title">{_text(f"Simulation of {found.source}")}</title>'
        yield f'<desc id="description">{_text(self._description())}</desc>'
        yield f"<style>{_STYLE}</style><defs>{_PATTERNS}</defs>"
        yield f'<rect class="paper" width="{WIDTH}" height="{self.height}"/>'
        yield _label(20, 30, f"Simulation of {found.source}", "title")
        yield _label(20, 50, self._description(), "dim")
        yield from self._bands()
        yield from self._scale()
        yield from self._windows()
        yield from self._arrivals()
        yield from self._tracks()
        yield from self._legend()
        yield "</svg>"

    def _description(self) -> str:
        found = self.timeline
        counts = ", ".join(f"{number} {stage}" for stage, number in found.counts.items() if number) or "none"
        lasts = length((found.ends - found.begins).total_seconds())
        return f"{self._at(found.begins)} to {self._at(found.ends)} ({lasts}): {found.ended}. Instances: {counts}."

    def _at(self, moment: datetime) -> str:
        return f"{moment.astimezone(self.zone):%a %Y-%m-%d %H:%M %Z}"

    def _x(self, moment: datetime) -> float:
        return round(_LEFT + self.axis.of(moment), 1)

    def _scale(self) -> Iterator[str]:
        """Ticks where there is room for their words; a day is named where it begins."""
        last, day, base = -1e9, "", _TOP - 8
        for moment in self.axis.moments:
            x, local = self._x(moment), moment.astimezone(self.zone)
            if x - last < 46 or x > WIDTH - _RIGHT - 24:
                continue
            last = x
            yield f'<line class="grid" x1="{x}" x2="{x}" y1="{base + 4}" y2="{self.bottom}"/>'
            yield _label(x, base, f"{local:%H:%M}", "dim inner")
            if (today := f"{local:%a %m-%d}") != day:
                day = today
                yield _label(x, base - 13, today, "head inner")
        for at in self.axis.breaks:
            x = round(_LEFT + at, 1)
            yield f'<path class="edge" fill="none" d="M{x - 3} {self.bottom + 6}l3 -5l0 8l3 -5"><title>time left out</title></path>'

    def _bands(self) -> Iterator[str]:
        for window in self.timeline.windows:
            for x, width in self._openings(window):
                kind = "open" if window.kind == "Allow" else "shut"
                height = self.bottom - self.rows
                yield f'<rect class="{kind}" x="{x}" y="{self.rows}" width="{width}" height="{height}"/>'

    def _windows(self) -> Iterator[str]:
        for number, window in enumerate(self.timeline.windows):
            y = _TOP + 6 + number * _STRIP
            yield _label(20, y + 11, _short(f"{window.name} ({window.kind})", 28), "dim")
            words = f"{window.name}, {window.kind}, {window.zone}. {window.description}"
            for x, width in self._openings(window):
                kind = window.kind.lower()
                yield f'<rect class="{kind}" rx="3" x="{x}" y="{y + 2}" width="{width}" height="{_STRIP - 7}"><title>{_text(words)}</title></rect>'

    def _openings(self, window: SimulatedWindow) -> Iterator[tuple[float, float]]:
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
                yield _label(20, y - 5, _short(name, 60), "head")
            yield _label(32, y + 15, _short(name_of(track.instance), 26), "")
            for span in track.spans:
                yield from self._bar(track, span, y)
            y += _ROW

    def _bar(self, track: Track, span: TrackSpan, y: int) -> Iterator[str]:
        stage, left = span.standing.stage, self._x(span.begins)
        width = max(2.0, round(self._x(span.ends) - left, 1))
        inset = {Stage.WAITING: 8, Stage.SETTLED: 4, Stage.GONE: 9}.get(stage, 3)
        words = f"{called(track.instance)}: {span.standing.reason}, {self._at(span.begins)} to {self._at(span.ends)}"
        words += f"; {span.standing.message}" if span.standing.message else ""
        place = f'x="{left}" y="{y + inset}" width="{width}" height="{_ROW - 2 * inset}"'
        yield f'<rect class="{stage}" rx="3" {place}><title>{_text(words)}</title></rect>'
        inner = ", ".join(span.standing.by) if stage is Stage.HELD else str(span.standing.reason)
        if stage in (Stage.HELD, Stage.FAILED) and inner and width > len(inner) * _LETTER + 8:
            box = round(len(inner) * _LETTER + 4, 1)
            yield f'<rect class="paper" rx="2" x="{left + 4}" y="{y + 5}" width="{box}" height="12"/>'
            yield _label(left + 6, y + 15, inner, "inner")

    def _arrivals(self) -> Iterator[str]:
        for one in self.timeline.arrivals:
            x, words = self._x(one.at), _text(f"{one.commit[:7]} {one.subject}")
            yield f'<line class="edge" x1="{x}" x2="{x}" y1="{_TOP}" y2="{self.bottom}"><title>{words}</title></line>'
            yield f'<path class="settled" d="M{x} {_TOP + 2}l-5 -6l10 0z"><title>{words}</title></path>'

    def _legend(self) -> Iterator[str]:
        x, y = 20.0, self.bottom + 30
        for stage, words in _LEGEND.items():
            yield f'<rect class="{stage}" rx="3" x="{x}" y="{y}" width="26" height="14"/>'
            yield _label(x + 32, y + 11, words, "dim")
            x += 50 + len(words) * _LETTER
        still = len(self.timeline.tracks) - len(self.tracks)
        zone = f"Times in {self.zone}. Quiet stretches are shortened."
        yield _label(20, y + 34, f"{zone} {still} instances are not changed." if still else zone, "dim")


def _takes_part(track: Track) -> bool:
    return track.written or any(span.standing.stage is not Stage.SETTLED for span in track.spans)


def _label(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{_text(text)}</text>'


def _text(text: str) -> str:
    """As XML takes it: control characters are none of it."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
