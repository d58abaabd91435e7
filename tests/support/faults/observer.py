"""The invariants, held against what the API server says that it did: its audit log, and nothing of our own.

Who uses whom is read from content, not from our records: an object uses those whose names stand in its data under `reads-...`. A change counts
as done when the server had answered it; another may rest on it only if the server received it after that. So order is judged by the server's
own times, and requests that were under way together are in no order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gitops.records.installation import CLUSTER_RECORD
from renderer import well_known
from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditEvent
from tests.support.faults.lane import Object, PathKey, key_of

US = "levelgate"
PART_OF, PARENT_ID = "applyset.kubernetes.io/part-of", "applyset.kubernetes.io/id"
KINDS, NAMESPACES = "applyset.kubernetes.io/contains-group-kinds", "applyset.kubernetes.io/additional-namespaces"

World = Mapping[PathKey, Object]


@dataclass(frozen=True, slots=True)
class Change:
    """One write that the server carried out: the object before and after it, None where there was or is none."""

    event: AuditEvent
    key: PathKey
    before: Object | None
    after: Object | None

    @property
    def is_ours(self) -> bool:
        return self.event.user == US

    def __str__(self) -> str:
        return f"{self.event.verb} {self.key}"


@dataclass
class ObservedHistory:
    """The lane's objects through time, from a quiet `start`."""

    start: World
    changes: list[Change] = field(default_factory=list)

    @classmethod
    def of(cls, start: World, events: Sequence[AuditEvent]) -> ObservedHistory:
        """Changes in the order of their answers; what was refused changed nothing."""
        found = cls(start)
        now = dict(start)
        for event in events:
            if event.is_write and event.code < 300:
                for key, after in _effects(event, now):
                    found.changes.append(Change(event, key, now.get(key), after))
                    now.pop(key, None)
                    if after is not None:
                        now[key] = after
        return found

    def at(self, time: datetime) -> dict[PathKey, Object]:
        """What was certainly so when the server received something at `time`."""
        world = dict(self.start)
        for change in self.changes:
            if change.event.answered <= time:
                world.pop(change.key, None)
                if change.after is not None:
                    world[change.key] = change.after
        return world


def _effects(event: AuditEvent, now: World) -> Iterator[tuple[PathKey, Object | None]]:
    """What one write left behind; None where the object is gone."""
    response = event.response or {}
    if event.verb == "deletecollection":
        yield from ((key, None) for key in now if key[:3] == (event.group, event.resource, event.namespace))
        return
    if response.get("kind") == "Status" or "metadata" not in response:
        if event.verb == "delete":
            yield PathKey(event.group, event.resource, _namespace(event), event.name), None
        return
    metadata = response["metadata"]
    leaving = "deletionTimestamp" in metadata or event.verb == "delete"
    held = metadata.get("finalizers") or response.get("spec", {}).get("finalizers")  # of a Namespace
    yield key_of(event.group, event.resource, response), None if leaving and not held else response


def _namespace(event: AuditEvent) -> str:
    return "" if event.resource == "namespaces" else event.namespace


def violations(
    history: ObservedHistory,
    requests: Sequence[AuditEvent],
    *,
    target: World,
    foreign: Collection[PathKey] = (),
    parents_may_vanish: bool = False,
) -> list[str]:
    """Every breach of I1 to I4 in one stretch of time, as texts. `target` is what a clean run to the same commit leaves."""
    found = list(_inconsistent_reads(requests))
    for change in history.changes:
        before = history.at(change.event.time)
        after = {key: obj for key, obj in {**before, change.key: change.after}.items() if obj is not None}
        if change.is_ours:
            found += _uncovered(change, after, parents_may_vanish=parents_may_vanish)
            found += _foreign(change, foreign)
            found += _too_early(change, before, target)
            found += _too_soon_gone(change, before)
    return list(dict.fromkeys(found))


def _uncovered(change: Change, world: World, *, parents_may_vanish: bool) -> Iterator[str]:
    """I1: every live member lives in a kind and a namespace that its parent names."""
    parents = {_label(obj, PARENT_ID): (key, obj) for key, obj in world.items() if _label(obj, PARENT_ID)}
    for key, obj in world.items():
        mark = _label(obj, PART_OF)
        if mark and mark not in parents and not parents_may_vanish:
            yield f"I1: after {change} the member {key} has no parent"
        elif mark in parents:
            where, parent = parents[mark]
            kinds, namespaces = (_annotation(parent, name).split(",") for name in (KINDS, NAMESPACES))
            if _group_kind(obj) not in kinds or key.namespace not in {"", where.namespace, *namespaces}:
                yield f"I1: after {change} the parent {where} does not cover {key}"


def _foreign(change: Change, foreign: Collection[PathKey]) -> Iterator[str]:
    """I2: nothing of others is touched, and what is deleted is named by uid and version."""
    if change.key in foreign:
        yield f"I2: {change}, which is not ours"
    if change.event.verb == "delete" and change.key.resource != "controllerrevisions" and not _is_of_hub(change.before):
        conditions = (change.event.request or {}).get("preconditions") or {}
        if not {"uid", "resourceVersion"} <= conditions.keys():
            yield f"I2: {change} without the uid and the resourceVersion that were seen"
        if change.before is not None and not _label(change.before, PART_OF):
            yield f"I2: {change}, which no set contained"


def _is_of_hub(obj: Object | None) -> bool:
    """The record of a cluster is the hub's own, whatever it says; it goes by its uid alone."""
    return obj is not None and _label(obj, well_known.RECORD) == CLUSTER_RECORD


def _too_early(change: Change, world: World, target: World) -> Iterator[str]:
    """I3: content is written only when all that it uses is there as the commit wants it, and speaks of its newest generation."""
    if change.after is None or content(change.after) == (content(change.before) if change.before else None):
        return
    for name in uses(change.after):
        needed = change.key._replace(name=name)
        needed = next((key for key in world if key.name == name and key.namespace == needed.namespace), needed)
        live, wanted = world.get(needed), target.get(needed)
        if live is None:
            yield f"I3: {change} before {needed} exists"
        elif wanted is not None and content(live) != content(wanted):
            yield f"I3: {change} before {needed} is as the commit wants it"
        elif live.get("status", {}).get("observedGeneration", 0) < live["metadata"].get("generation", 0) and live.get(
            "status"
        ):
            yield f"I3: {change} on a status of {needed} that speaks of an older generation"


def _too_soon_gone(change: Change, world: World) -> Iterator[str]:
    """I4: what is still there and uses an object keeps it; a kind outlives its objects, a namespace its content, a parent its members."""
    if change.event.verb != "delete":
        return
    for key, obj in world.items():
        if key != change.key and _label(obj, PART_OF) and _lives_on(key, obj, change.key):
            yield f"I4: {change} while {key} is still there"


def _lives_on(key: PathKey, obj: Object, gone: PathKey) -> bool:
    if gone.resource == "namespaces":
        return key.namespace == gone.name
    if gone.resource == "customresourcedefinitions":
        return gone.name == f"{key.resource}.{key.group}"
    return key.namespace == gone.namespace and gone.name in uses(obj)


def _inconsistent_reads(requests: Sequence[AuditEvent]) -> Iterator[str]:
    """I4: deletions rest on lists, so none may be answered from a cache (a resourceVersion of its own allows that)."""
    for event in requests:
        if event.user == US and event.verb == "list" and "resourceVersion=" in event.uri:
            yield f"I4: a list that may be stale: {event.uri}"


def unplaced(before: World, after: World, *, recreated: Collection[str] = ()) -> list[str]:
    """Objects that both worlds hold under another uid: deleted on the way though they were to stay. `recreated` are resources that may."""
    return [
        f"I4: {key} was deleted and created again"
        for key in before.keys() & after.keys()
        if key.resource not in recreated and before[key]["metadata"]["uid"] != after[key]["metadata"]["uid"]
    ]


def disturbed(before: World, after: World, foreign: Collection[PathKey]) -> list[str]:
    """I2: foreign objects that are not byte for byte what they were."""
    return [f"I2: {key} was changed" for key in foreign if before.get(key) != after.get(key)]


def uses(obj: Object) -> set[str]:
    """Names of what an object uses, as its own content says."""
    data: Mapping[str, Any] = obj.get("data") or {}
    annotations = obj["metadata"].get("annotations") or {}
    named = [text for name, text in {**data, **annotations}.items() if name.startswith("reads-")]
    return {text for text in named if isinstance(text, str)}


def content(obj: Object) -> str:
    """What people wrote, as text."""
    parts = {name: obj.get(name) for name in ("data", "spec")}
    return "" if obj["metadata"].get("namespace") == OWN_NAMESPACE else json.dumps(parts, sort_keys=True)


def _group_kind(obj: Object) -> str:
    group = obj["apiVersion"].rpartition("/")[0]
    return f"{obj['kind']}.{group}" if group else str(obj["kind"])


def _label(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))


def _annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))


def fleet_violations(history: ObservedHistory, record: PathKey, mark: PathKey) -> list[str]:
    """Every breach of what a hub keeps of one cluster, as texts: its `record` has the uid, and the cluster the `mark` of the hub, before
    anything else is written there, and until all is gone that is to go. The record goes last.
    """
    found: list[str] = []
    for change in filter(lambda change: change.is_ours, history.changes):
        before = history.at(change.event.time)
        stored, marked = before.get(record), bool(_data(before.get(mark)).get("hub"))
        if change.key.namespace != OWN_NAMESPACE and not (_data(stored).get("uid") and marked):
            found.append(f"S3-22: {change} in a cluster that is not recorded, or not marked")
        elif change.key == mark and marked and not _data(change.after).get("hub"):
            found += [f"S3-22: {change} while {key} is there" for key in _left(before, stored)]
        elif change.key == record and change.after is None and marked:
            found.append(f"S3-22: {change} while the cluster is marked")
    return found


def _left(world: World, record: Object | None) -> list[PathKey]:
    """What is to go with a cluster, and has not."""
    declared = json.loads(_data(record).get("declared") or "{}")
    if (declared.get("manifest") or {}).get("spec", {}).get("onRemove") != "Delete":
        return []
    return [key for key, obj in world.items() if _label(obj, PART_OF) and key.resource != "customresourcedefinitions"]


def _data(obj: Object | None) -> Mapping[str, str]:
    return (obj or {}).get("data") or {}
