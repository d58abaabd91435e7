"""A whole Levelgate on a sandbox: commits go in, passes run, and every single write is held against the invariants."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from applier.cluster import CONTENT, Object
from applier.errors import ClusterError
from applier.inventory import Scope, read_scope
from applier.observed import annotation, label
from gitops.passes.known import Pass, Preview
from gitops.passes.previewing import preview
from gitops.passes.reconcile import Reconciler
from gitops.passes.sources import SourceState
from gitops.records.record import SourceRecord
from gitops.review import planning
from gitops.review.report import Report
from renderer import keys
from renderer.catalog import load
from renderer.identity import ObjectKey, applyset_id, key_hash, source_parent
from renderer.memo import Memo
from tests.gitops.fleet import commit_id
from tests.properties.world import Crash, World, Write

VOLATILE = frozenset(
    {keys.LEVEL, keys.PARENT_UID, keys.FILE, keys.COMMIT, keys.REVISION, keys.SOURCE_FILE, keys.APPROVED, keys.TARGET}
)
"""Annotations that are renewed only together with another difference (Sets)."""

Files = Mapping[str, str]


@dataclass
class StepClock:
    """Goes on by a second each time that it is asked, so that a time which is written without need is seen."""

    moment: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class Platform:
    """Sources, a cluster, and what went wrong so far in `broken` (texts). `parents_may_vanish` after a parent was deleted by hand."""

    cluster: World = field(default_factory=World)
    clock: StepClock = field(default_factory=StepClock)
    sources: dict[str, SourceState] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    parents_may_vanish: bool = False
    _commits: int = 0

    def __enter__(self) -> Self:
        self._process = self._started()
        self._runner = asyncio.Runner()
        self.cluster.witness = self._watch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def commit(self, files: Files, *, source: str = "platform", hold: str = "", approved: bool = True) -> None:
        """A new commit; `approved` for what the brake would hold."""
        self._commits += 1
        parent = source_parent(source)
        if approved and parent in self.cluster.objects:
            self.cluster.edit(
                parent, lambda obj: obj["metadata"]["annotations"].update({keys.APPROVED: commit_id(self._commits)})
            )
        known = self.sources.get(source)
        catalog = load(
            {name: text.encode() for name, text in files.items()},
            source=source,
            revision=commit_id(self._commits),
            previous=known.catalog if known else None,
        )
        self.sources[source] = SourceState(catalog, ref="main", url="file:///platform", hold=hold)

    def run(self, faults: Mapping[int, str] | None = None) -> Pass | None:
        """One pass of a new process; None when it died or gave up on the way."""
        self.cluster.revive(faults)
        self._process = self._started()
        return self.go_on()

    def go_on(self) -> Pass | None:
        """One more pass of the same process."""
        states = [self.sources[name] for name in sorted(self.sources)]
        try:
            return self._runner.run(self._process.reconcile(states))
        except (Crash, ClusterError):
            return None

    def _again(self) -> Pass | None:
        self.cluster.go_on()
        return self.go_on()

    def annotate(self, key: ObjectKey, name: str, text: str) -> None:
        """As a person does: the annotation is theirs from then on."""
        patch = {"metadata": {"annotations": {name: text}}}
        self._runner.run(self.cluster.merge(key, patch, manager="kubectl-annotate"))

    def preview(self) -> Preview:
        self.cluster.revive()
        states = [self.sources[name] for name in sorted(self.sources)]
        return self._runner.run(preview(self.cluster, states, self.clock, memo=Memo()))

    def plan(self, source: str = "platform") -> Report:
        """As `levelgate plan` of this source."""
        self.cluster.revive()
        plan = planning.against(self.cluster, self.sources[source], clock=self.clock)
        return self._runner.run(plan)

    def _started(self) -> Reconciler:
        return Reconciler(self.cluster, "0", self.clock)

    def settle(self, *, passes: int = 40, anew: bool = True) -> Pass:
        """Passes, each of a new process if `anew`, with controllers in between, until one changes nothing and the world stands still."""
        for number in range(passes):
            before = len(self.cluster.writes)
            found = self.run() if anew or not number else self._again()
            world = self.cluster.objects
            self.cluster.tick()
            if len(self.cluster.writes) == before and self.cluster.objects == world:
                assert found is not None
                return found
        raise AssertionError(f"no rest after {passes} passes; the last wrote {self.cluster.writes[before:]}")

    def members(self, kind: str = "ConfigMap") -> set[str]:
        """Names of the members of this kind, of any set."""
        return {key.name for key, obj in self.cluster.objects.items() if key.kind == kind and label(obj, keys.PART_OF)}

    def deleted(self, kind: str = "ConfigMap") -> list[str]:
        """Names of what was deleted, in order."""
        return [write.key.name for write in self.cluster.writes if write.verb == "delete" and write.key.kind == kind]

    def _watch(self, write: Write) -> None:
        objects = self.cluster.objects
        self._scope_covers_members(objects, write)
        if write.verb == "delete":
            self._nothing_lives_on_it(objects, write)
        if write.verb == "apply" and write.manager == CONTENT and write.before is None and write.after is not None:
            self._dependencies_are_there(objects, write.after)

    def _scope_covers_members(self, objects: Mapping[ObjectKey, Object], write: Write) -> None:
        """I1. While an instance that was deleted by hand is created again, the source's record stands in for it."""
        recorded: dict[str, tuple[ObjectKey, Scope]] = {}
        for key, obj in objects.items():
            if key.kind == "ConfigMap" and label(obj, keys.PARENT_ID):
                recorded |= {
                    applyset_id(parent): (parent, scope) for parent, scope in SourceRecord.read(obj).scopes.items()
                }
        parents = {
            label(obj, keys.PARENT_ID): (key, read_scope(obj))
            for key, obj in objects.items()
            if label(obj, keys.PARENT_ID)
        }
        for key, obj in objects.items():
            if set_id := label(obj, keys.PART_OF):
                if set_id not in parents and set_id not in recorded:
                    if not self.parents_may_vanish:
                        self.broken.append(f"I1: after {write.verb} {write.key}, {key} has no parent")
                    continue
                parent, scope = parents.get(set_id) or recorded[set_id]
                if not Scope(scope.kinds, scope.namespaces | {"", parent.namespace}) >= Scope(
                    frozenset({key.group_kind}), frozenset({key.namespace})
                ):
                    self.broken.append(f"I1: after {write.verb} {write.key}, {parent} does not cover {key}")

    def _nothing_lives_on_it(self, objects: Mapping[ObjectKey, Object], write: Write) -> None:
        """I4; a circle of mixed generations has to be cut somewhere."""
        assert write.before is not None
        live = {**objects, write.key: write.before}
        uses = {key: deps_of(obj) for key, obj in live.items() if label(obj, keys.PART_OF)}
        by_hash = {key_hash(key): key for key in live}
        for key in uses:
            if key != write.key and key_hash(write.key) in uses[key] and key not in _reached(uses, by_hash, write.key):
                self.broken.append(f"I4: {write.key} was deleted while {key} needs it")

    def _dependencies_are_there(self, objects: Mapping[ObjectKey, Object], created: Object) -> None:
        """S0-9: nothing is created before what it depends on."""
        hashes = {key_hash(key) for key in objects}
        for dep in annotation(created, keys.DEPS).split(","):
            if dep and not dep.endswith("~") and dep not in hashes:
                self.broken.append(f"S0-9: {ObjectKey.of(created)} was created before a dependency of it")


def deps_of(obj: Object) -> set[str]:
    return {dep.removesuffix("~") for dep in annotation(obj, keys.DEPS).split(",") if dep}


def _reached(uses: Mapping[ObjectKey, set[str]], by_hash: Mapping[str, ObjectKey], start: ObjectKey) -> set[ObjectKey]:
    found: set[ObjectKey] = set()
    pending = [start]
    while pending:
        for dep in uses.get(pending.pop(), ()):
            key = by_hash.get(dep)
            if key and key not in found:
                found.add(key)
                pending.append(key)
    return found


def essence(cluster: World) -> dict[str, Any]:
    """Everything in the cluster that Levelgate decides, but for uids, versions, times and commits."""
    return {
        str(key): _essence(obj)
        for key, obj in cluster.objects.items()
        if label(obj, keys.PART_OF) or label(obj, keys.PARENT_ID)
    }


def _essence(obj: Object) -> dict[str, Any]:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    record = {
        name: text
        for name, text in (obj.get("data") or {}).items()
        if name not in {"target", "applied", "own", "since", "passes"}
    }
    status = obj.get("status") or {}
    return {
        "labels": metadata.get("labels") or {},
        "annotations": {name: text for name, text in annotations.items() if name not in VOLATILE},
        "finalizers": metadata.get("finalizers") or [],
        "going": "deletionTimestamp" in metadata,
        "spec": obj.get("spec") or record,
        "state": status.get("state"),
        "conditions": [
            [condition.get(name) for name in ("type", "status", "reason", "message")]
            for condition in status.get("conditions", [])
        ],
    }
