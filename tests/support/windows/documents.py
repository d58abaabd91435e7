"""Windows written as people write them, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from applier.plan.model import Operation
from gitops.windows.rule_reader import ParsedRules
from gitops.windows.verdict import TrustedTime, WindowSet, WindowVerdict, judge
from gitops.windows.window import LOCAL, Window, WindowTarget
from gitops.windows.window_reader import read_windows
from renderer.catalog.catalog import load
from renderer.identity import GroupKind

DEPLOYMENT = GroupKind("apps", "Deployment")
PROD = WindowTarget(DEPLOYMENT, "prod", LOCAL)


def manifest(name: str = "w", **spec: Any) -> bytes:
    return orjson.dumps(
        {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindow", "metadata": {"name": name}, "spec": spec}
    )


def read(files: Mapping[str, bytes]) -> ParsedRules[Window]:
    return read_windows(load(files))


def window(name: str = "w", *, kind: str = "Allow", zone: str = "Europe/Berlin", cron: str = "", **spec: Any) -> Window:
    schedule = {"cron": cron} if cron else spec.pop("schedule")
    found = read({f"{name}.json": manifest(name, kind=kind, timeZone=zone, schedule=schedule, **spec)})
    assert not found.problems, found.problems
    return found.rules[name]


def utc(text: str) -> datetime:
    """`2026-03-16 08:00`, seconds if needed, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def verdict(
    *windows: Window, at: str, target: WindowTarget = PROD, verb: Operation = Operation.UPDATE
) -> WindowVerdict:
    return judge([WindowSet(windows)], target, verb, TrustedTime(utc(at)))


def active(found: Window, at: str) -> tuple[datetime | None, datetime | None]:
    """The occurrence that is active at an instant, as opening and closing."""
    span = found.timeline.span(utc(at))
    assert span.active, f"{found.name} is not active at {at}"
    return span.since, span.until


def following(found: Window, at: str) -> tuple[datetime | None, datetime | None]:
    """The first occurrence that opens after an instant at which none is active."""
    span = found.timeline.span(utc(at))
    assert not span.active, f"{found.name} is active at {at}"
    assert span.until is not None, f"{found.name} does not open again"
    opened = found.timeline.span(span.until)
    return opened.since, opened.until


def between(opens: str, closes: str) -> tuple[datetime, datetime]:
    return utc(opens), utc(closes)
