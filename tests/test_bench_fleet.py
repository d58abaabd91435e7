"""The bench of many clusters, with few: it comes to its end with all of its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.fleet import WANTED, Options, Report, percentile

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 300.0
FEW = ("--clusters", "2", "--instances", "2", "--idle", "1", "--events", "2", "--still", "1")


def test_a_small_fleet_is_measured_to_the_end() -> None:
    """Whether its figures are as wanted depends on the machine: who takes longer renews more Leases meanwhile."""
    command = (sys.executable, "-m", "bench.fleet", *FEW)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST)
    assert "a wait" not in done.stderr, done.stdout + done.stderr
    assert [label for label in WANTED if label not in done.stdout] == [], done.stdout + done.stderr


def test_a_figure_that_is_missed_is_told() -> None:
    report = Report()
    report.row("seconds until all are engaged", 60.0)
    report.row("CPU seconds until then", 1_000.0)
    assert report.found == []
    report.row("seconds until all are engaged", 61.0)
    assert report.found == ["seconds until all are engaged: 61, wanted 60 at most"]


@pytest.mark.parametrize(("percent", "expected"), [(50, 2.0), (99, 4.0), (25, 1.0)])
def test_a_percentile_is_one_of_the_values(percent: int, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == expected


@pytest.mark.parametrize("flag", ["--clusters", "--instances", "--events", "--idle", "--still"])
def test_nothing_can_be_measured_of_none(flag: str) -> None:
    with pytest.raises(SystemExit):
        Options.parse([flag, "0"])
