"""Report of `bench.beside_kro` as Markdown. Pure, except for the name of the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from bench.kro.bare import BareFigures
from bench.kro.binary import VERSION
from bench.kro.rows import ROWS, Figures, Taken
from bench.kro.systems import Kro, LiftedKro

COLUMNS: Final = {
    "levelgate": "Levelgate",
    "kro-lifted": "kro, limits lifted",
    "kro": "kro, as shipped",
    "bare": "bare client",
}
NONE: Final = "–"

_MEASURES: Final[Mapping[str, Callable[[Figures], float | int | None]]] = {
    "seconds": lambda figures: figures.seconds,
    "seconds to the last object": lambda figures: figures.object_seconds,
    "seconds to the last write of any kind": lambda figures: figures.all_seconds,
    "CPU seconds": lambda figures: figures.cpu,
    "peak MiB": lambda figures: figures.peak,
    "requests": lambda figures: figures.requests,
    "of them writes": lambda figures: figures.writes,
}
_WHOLE: Final = {"peak MiB", "requests", "of them writes"}


@dataclass
class Report:
    """All figures so far, by the names of COLUMNS."""

    instances: int
    resources: int
    systems: dict[str, Taken] = field(default_factory=dict)
    bare: dict[str, BareFigures] = field(default_factory=dict)
    kubernetes: str = "?"

    def lines(self) -> Iterator[str]:
        """Yield the machine, the table, the notes and the ratios."""
        yield f"{self.instances:,} instances with {self.resources:,} ConfigMaps each. {machine(self.kubernetes)}."
        yield ""
        yield from self._table()
        yield ""
        for kind in (LiftedKro, Kro):
            if kind.name in self.systems:
                told = " ".join(word for flag in kind.limits.items() for word in flag)
                yield f"- {COLUMNS[kind.name]}: " + (f"`{told}`" if told else "the values of its Helm chart")
        for name, taken in self.systems.items():
            yield from (f"- {COLUMNS[name]}: {note}" for note in taken.notes)
        yield ""
        yield from self.ratios()

    def ratios(self) -> Iterator[str]:
        """Yield ratios of Levelgate to other systems. Below 1, Levelgate takes less.

        Omit a ratio if a figure is missing.
        """
        pairs = (
            ("first", "seconds", "kro-lifted"),
            ("first", "seconds to the last object", "kro-lifted"),
            ("at-once", "seconds", "kro-lifted"),
            ("at-once", "seconds to the last object", "kro-lifted"),
            ("first", "requests", "kro-lifted"),
            ("first", "seconds", "bare"),
        )
        found = [(pair, self.value("levelgate", *pair[:2]), self.value(pair[2], *pair[:2])) for pair in pairs]
        rows = [(pair, ours / theirs) for pair, ours, theirs in found if ours and theirs]
        if rows:
            yield "| Levelgate, x another | | |"
            yield "|---|---|---:|"
            for (row, measure, other), ratio in rows:
                yield f"| {ROWS[row]}, {measure} | {COLUMNS[other]} | {ratio:.2f} |"

    def value(self, name: str, row: str, measure: str) -> float | None:
        """Return the median of one measure."""
        values = self._values(name, row, measure)
        return median(values) if values else None

    def _table(self) -> Iterator[str]:
        names = [name for name in COLUMNS if name in self.systems or (name == "bare" and self.bare)]
        yield "| | | " + " | ".join(COLUMNS[name] for name in names) + " |"
        yield "|---|---|" + "---:|" * len(names)
        for row, label in ROWS.items():
            measured = [(measure, [self._cell(name, row, measure) for name in names]) for measure in _MEASURES]
            told = [(measure, cells) for measure, cells in measured if any(cell != NONE for cell in cells)]
            for number, (measure, cells) in enumerate(told):
                yield f"| {'' if number else label} | {measure} | " + " | ".join(cells) + " |"

    def _cell(self, name: str, row: str, measure: str) -> str:
        values = self._values(name, row, measure)
        if not values:
            return NONE
        text = [_number(value, measure) for value in values]
        middle = _number(median(values), measure)
        return middle if len(set(text)) == 1 else f"{middle} ({', '.join(text)})"

    def _values(self, name: str, row: str, measure: str) -> list[float | int]:
        if name == "bare":
            figures = self.bare.get(row)
            of = (
                {"seconds": figures.seconds, "CPU seconds": figures.cpu, "requests": figures.requests}
                if figures
                else {}
            )
            return [of[measure]] if measure in of else []
        taken = self.systems.get(name)
        each: Iterable[Figures] = taken.figures.get(row, ()) if taken else ()
        return [value for value in map(_MEASURES[measure], each) if value is not None]


def machine(kubernetes: str) -> str:
    """Return a line with the machine and the time of the measurement."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}; {found[1] if found else platform.machine()}, {cores} cores; "
        f"Python {platform.python_version()}; kube-apiserver {kubernetes}; kro {VERSION}; Levelgate {_commit()}"
    )


def _commit() -> str:
    said = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False, timeout=30
    )
    return said.stdout.strip() or "of no commit"


def _number(value: float, measure: str) -> str:
    return f"{value:,.0f}" if measure in _WHOLE else f"{value:.2f}"
