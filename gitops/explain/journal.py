"""What has happened lately, as a cluster tells it: Events of transitions, and what passes did by the records of the sources.

Events last as long as the server keeps them, an hour unless it is told otherwise; records of passes longer (`gitops.records.pass_history`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime

from applier.causes import EventReason
from applier.cluster import Cluster, Object
from applier.cluster import WatchTarget as Watched
from gitops.reconcile.events import CONTROLLER, EVENT
from gitops.records import pass_history
from gitops.records.pass_history import PassRecord
from gitops.records.source_record import SourceRecord, read_records
from gitops.rollouts.directives import moment
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, source_parent

SELECTOR = f"{well_known.MANAGED_BY}={CONTROLLER}"

WATCHED = (Watched(EVENT, selector=SELECTOR), Watched(GroupKind("", "ConfigMap"), OWN_NAMESPACE))
"""Where something has to happen before there is anything new to be told."""

_DONE = frozenset({EventReason.UPDATED, EventReason.HEALED, EventReason.PRUNED, EventReason.ADOPTED})


@dataclass(frozen=True, slots=True, order=True)
class JournalLine:
    """One thing that happened: when, to what (an instance, or the record of a source), the word for it, and a sentence."""

    at: datetime
    about: ObjectKey
    word: str
    text: str
    level: int | None = None
    is_warning: bool = False


async def transitions(cluster: Cluster, namespace: str | None = None) -> list[JournalLine]:
    """By Events, the oldest first. Raises ClusterError."""
    found = await cluster.list(EVENT, namespace, selector=SELECTOR)
    return sorted(line for one in found if (line := _of_event(one)))


async def everything(cluster: Cluster, namespace: str | None = None) -> list[JournalLine]:
    """All that was done, and every transition that is not just that it was done, the oldest first. Raises ClusterError."""
    told, records = await asyncio.gather(transitions(cluster, namespace), read_records(cluster))
    done = [line for name, record in records for line in _of_record(name, record)]
    within = [line for line in done if namespace in {None, line.about.namespace}]
    return sorted([*(line for line in told if line.word not in _DONE), *within], key=lambda line: line.at)


def about(lines: Iterable[JournalLine], key: ObjectKey) -> list[JournalLine]:
    return [line for line in lines if line.about == key]


def _of_event(event: Object) -> JournalLine | None:
    at, regarding = moment(event.get("eventTime")), event.get("regarding") or {}
    if at is None:
        return None
    group = regarding.get("apiVersion", "").rpartition("/")[0]
    key = ObjectKey(group, regarding.get("kind", ""), regarding.get("namespace", ""), regarding.get("name", ""))
    return JournalLine(
        at, key, event.get("reason", ""), event.get("note", ""), is_warning=event.get("type") == "Warning"
    )


def _of_record(source: str, record: SourceRecord) -> Iterator[JournalLine]:
    for one in pass_history.read(record.passes):
        yield from _of_pass(source, one)


def _of_pass(source: str, one: PassRecord) -> Iterator[JournalLine]:
    for deed in one.deeds:
        about = ObjectKey.parse(deed.set) or source_parent(source)
        done = f"{deed.object} {'NOT ' if deed.error else ''}{deed.action}{f': {deed.error}' if deed.error else ''}"
        yield JournalLine(one.at, about, deed.action, done, deed.level, bool(deed.error))
    if one.more:
        yield JournalLine(one.at, source_parent(source), "more", f"and {one.more} more objects")
