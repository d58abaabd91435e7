"""Recent transitions and actions of a cluster, from Kubernetes Events and the records of sources.

The server keeps Events for an hour by default. Records of reconciliations last longer (`gitops.records.pass_history`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime

from applier.causes import EventReason
from applier.cluster import Cluster, Object, WatchTarget
from gitops.reconcile.events import CONTROLLER, EVENT
from gitops.records import pass_history
from gitops.records.pass_history import PassRecord
from gitops.records.source_record import read_records
from gitops.timestamps import parse_timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, source_parent

SELECTOR = f"{well_known.MANAGED_BY}={CONTROLLER}"
"""Label selector of Levelgate's Events."""

WATCH_TARGETS = (WatchTarget(EVENT, selector=SELECTOR), WatchTarget(GroupKind("", "ConfigMap"), OWN_NAMESPACE))
"""Objects to watch, because their changes can add lines to the journal."""

_DONE_REASONS = frozenset({EventReason.UPDATED, EventReason.HEALED, EventReason.PRUNED, EventReason.ADOPTED})
"""Reasons of Events that repeat an action from the record of a reconciliation."""


@dataclass(frozen=True, slots=True, order=True)
class JournalLine:
    """Transition or action of an instance or a source."""

    at: datetime
    subject: ObjectKey
    """Key of the instance, or of the record of the source."""
    reason: str
    """Reason of the Event, or the action."""
    text: str
    level: int | None = None
    """Level of the node, or None for a transition."""
    is_warning: bool = False


async def read_transitions(cluster: Cluster, namespace: str | None) -> list[JournalLine]:
    """Return the transitions from Events, oldest first.

    Args:
        namespace: namespace to read, or None for all namespaces.

    Raises: ClusterError.
    """
    events = await cluster.list(EVENT, namespace, selector=SELECTOR)
    return sorted(line for event in events if (line := _event_line(event)))


async def read_journal(cluster: Cluster, namespace: str | None) -> list[JournalLine]:
    """Return all actions and transitions, oldest first. Omit a transition that only repeats an action.

    Args:
        namespace: namespace to read, or None for all namespaces.

    Raises: ClusterError.
    """
    event_lines, records = await asyncio.gather(read_transitions(cluster, namespace), read_records(cluster))
    pass_lines = [
        line
        for name, record in records
        for pass_record in pass_history.parse_passes(record.passes)
        for line in _pass_lines(name, pass_record)
    ]
    namespace_lines = [line for line in pass_lines if namespace in {None, line.subject.namespace}]
    return sorted(
        [*(line for line in event_lines if line.reason not in _DONE_REASONS), *namespace_lines],
        key=lambda line: line.at,
    )


def lines_about(lines: Iterable[JournalLine], key: ObjectKey) -> list[JournalLine]:
    """Return the lines about the object `key`."""
    return [line for line in lines if line.subject == key]


def _event_line(event: Object) -> JournalLine | None:
    happened_at, regarding = parse_timestamp(event.get("eventTime")), event.get("regarding") or {}
    if happened_at is None:
        return None
    group = regarding.get("apiVersion", "").rpartition("/")[0]
    key = ObjectKey(group, regarding.get("kind", ""), regarding.get("namespace", ""), regarding.get("name", ""))
    return JournalLine(
        happened_at, key, event.get("reason", ""), event.get("note", ""), is_warning=event.get("type") == "Warning"
    )


def _pass_lines(source: str, pass_record: PassRecord) -> Iterator[JournalLine]:
    for recorded_action in pass_record.deeds:
        subject = ObjectKey.parse(recorded_action.set) or source_parent(source)
        text = f"{recorded_action.object} {recorded_action.action}"
        if recorded_action.error:
            text = f"{recorded_action.object} NOT {recorded_action.action}: {recorded_action.error}"
        yield JournalLine(
            pass_record.at, subject, recorded_action.action, text, recorded_action.level, bool(recorded_action.error)
        )
    if pass_record.more:
        yield JournalLine(pass_record.at, source_parent(source), "more", f"and {pass_record.more} more objects")
