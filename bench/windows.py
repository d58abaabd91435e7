"""Cost of a window check, as a ratio to a search through all minutes: `python -m bench.windows`.

Times are the least of several runs. The search reads every minute of the day before, which suffices for windows of at
most a day.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from applier.plan.model import Operation
from gitops.windows.verdict import TrustedTime, WindowSet, judge
from gitops.windows.window import LOCAL, WindowTarget
from gitops.windows.window_reader import read_windows
from renderer.catalog.catalog import load
from renderer.identity import GroupKind
from tests.support.windows.naive import NaiveWindows, Walk

REPOSITORY = b"""
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: business-hours}
spec:
  kind: Allow
  timeZone: Europe/Berlin
  schedule: {cron: "0 9 * * 1-5"}
  duration: 8h
  cutoff: 30m
---
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: freeze}
spec:
  kind: Deny
  timeZone: Europe/Berlin
  schedule: {once: [{start: "2026-12-18T12:00", end: "2027-01-04T06:00"}]}
"""
NOW = datetime(2026, 11, 20, 14, 20, tzinfo=UTC)
DAY = timedelta(days=1)


def main() -> None:
    windows = tuple(read_windows(load({"windows.yaml": REPOSITORY})).rules.values())
    target = WindowTarget(GroupKind("apps", "Deployment"), "prod", LOCAL)
    rules, reading = [WindowSet(windows)], TrustedTime(NOW)
    weekdays = NaiveWindows(
        windows[0].zone, False, lambda day: day.weekday() < 5, lambda at: (at.hour, at.minute) == (9, 0), duration=480
    )
    naive = least(lambda: Walk(NOW - DAY, 1441, windows[0].zone).active(weekdays)[-1], 1)
    print(f"{'allow and freeze, one target':<44} {'us':>10} {'x naive':>12}")
    for label, taken in (
        ("verdict from scratch", least(lambda: judge(rules, target, Operation.UPDATE, reading), 20)),
        ("one window, minute by minute over a day", naive),
    ):
        print(f"{label:<44} {taken * 1e6:>10.2f} {taken / naive:>12.5f}")


def least(work: Callable[[], object], times: int) -> float:
    """Return the seconds of one call, the least of seven rounds."""
    return min(_round(work, times) for _ in range(7))


def _round(work: Callable[[], object], times: int) -> float:
    before = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - before) / times


if __name__ == "__main__":
    main()
