"""The harness with faults at every write, invariants that hold after each, and the essence of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Self

from applier.applyset.inventory import Scope, read_scope
from applier.cluster import CONTENT_MANAGER, Object
from applier.errors import ClusterError
from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from applier.state.observed import annotation, label
from gitops.plan import planner
from gitops.plan.report import Report
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.preview import Preview, preview
from gitops.records.source_record import SourceRecord
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.identity import ObjectKey, applyset_id, key_hash, source_parent
from renderer.render.model import READ_SUFFIX
from tests.support.clock import StepClock
from tests.support.platform import Platform, commit_id
from tests.support.properties.cluster import ClusterWrite, Crash, WitnessedCluster

VOLATILE = frozenset(
    {
        well_known.LEVEL,
        well_known.PARENT_UID,
        well_known.FILE,
        well_known.COMMIT,
        well_known.REVISION,
        well_known.APPROVED_COMMIT,
        well_known.TARGET,
    }
)
"""Annotations that are renewed only together with another difference (Sets)."""


Files = Mapping[str, str]


READ_FROM = frozenset({*"abcd", "inner"})
"""Words under which members of `tests.support.properties.repositories` hold the names of those that they read."""


@dataclass
class CheckedPlatform(Platform):
    """A platform that checks invariants after every write; `broken` has the breaches as text.

    `parents_may_vanish` says that a test deletes parents by hand. `wanted` is the essence of the final state: none of it
    may be deleted on the way.
    """

    cluster: WitnessedCluster = field(default_factory=WitnessedCluster)
    clock: StepClock = field(default_factory=StepClock, kw_only=True)
    broken: list[str] = field(default_factory=list)
    parents_may_vanish: bool = False
    wanted: Mapping[str, Any] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.cluster.witness = self._watch
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_tasks()
        self._loop.close()

    def new_sandbox(self, store: Store | None = None) -> Sandbox:
        assert store is None, "a witnessed cluster cannot be copied"
        return self.cluster.sandbox

    def connect(self, door: RequestHandler) -> WitnessedCluster:
        """Return the one connection, which fails and dies where a test says so."""
        return self.cluster

    def commit(self, files: Files, *, source: str = "", hold: str = "", approved: bool = True) -> str:
        """Commit these files to a source; *approved* lets the brake on deletions pass them."""
        parent = source_parent(source or self.source)
        if approved and parent in self.cluster.objects:
            approval = {well_known.APPROVED_COMMIT: commit_id(self.commits + 1)}
            self.cluster.edit(parent, lambda obj: obj["metadata"]["annotations"].update(approval))
        return super().commit(files, source=source, hold=hold)

    def run(self, faults: Mapping[int, str] | None = None) -> ReconcileResult | None:
        """Reconcile once in a new process. Return None if it died or gave up."""
        self.cluster.revive(faults)
        self.restart()
        return self.go_on()

    def go_on(self) -> ReconcileResult | None:
        """Reconcile once more in the same process."""
        try:
            return self.step()
        except (Crash, ClusterError):
            return None

    def _again(self) -> ReconcileResult | None:
        self.cluster.go_on()
        return self.go_on()

    def annotate(self, key: ObjectKey, name: str, text: str) -> None:
        """Annotate an object as a person, who then owns the annotation."""
        patch = {"metadata": {"annotations": {name: text}}}
        self.call(self.cluster.merge(key, patch, manager="kubectl-annotate"))

    def label(self, key: ObjectKey, name: str, text: str | None) -> None:
        """Label an object as a person, who then owns the label; None removes it."""
        self.cluster.revive()
        patch = {"metadata": {"labels": {name: text}}}
        self.call(self.cluster.merge(key, patch, manager="kubectl-label"))

    def preview(self) -> Preview:
        self.cluster.revive()
        return self.call(preview(self.cluster, self.read_sources(), self.clock, cluster_name=LOCAL))

    def plan(self, source: str = "platform") -> Report:
        """Return the plan that `levelgate plan` makes for this source."""
        self.cluster.revive()
        plan = planner.plan_against_cluster(self.cluster, self.sources[source], clock=self.clock, cluster_name=LOCAL)
        return self.call(plan)

    def settle(self, *, passes: int = 40, anew: bool = True) -> ReconcileResult:
        """Reconcile, in a new process each time if *anew*, and let controllers work, until nothing changes."""
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
        """Return the names of the members of this kind, of any set."""
        return {
            key.name for key, obj in self.cluster.objects.items() if key.kind == kind and label(obj, well_known.PART_OF)
        }

    def deleted(self, kind: str = "ConfigMap") -> list[str]:
        """Return the names of the deleted objects of this kind, in order."""
        return [write.key.name for write in self.cluster.writes if write.verb == "delete" and write.key.kind == kind]

    def _watch(self, write: ClusterWrite) -> None:
        objects = self.cluster.objects
        self._scope_covers_members(objects, write)
        if write.verb == "delete":
            self._nothing_lives_on_it(objects, write)
            self._git_does_not_want_it(write)
        if write.verb == "apply" and write.manager == CONTENT_MANAGER and write.after is not None:
            self._needs_are_recorded(write.after)
            if write.before is None:
                self._dependencies_are_there(objects, write.after)

    def _scope_covers_members(self, objects: Mapping[ObjectKey, Object], write: ClusterWrite) -> None:
        """I1. While an instance that was deleted by hand is created again, the source's record stands in for it."""
        recorded: dict[str, tuple[ObjectKey, Scope]] = {}
        for key, obj in objects.items():
            if key.kind == "ConfigMap" and label(obj, well_known.PARENT_ID):
                recorded |= {
                    applyset_id(parent): (parent, scope)
                    for parent, scope in SourceRecord.from_object(obj).scopes.items()
                }
        parents = {
            label(obj, well_known.PARENT_ID): (key, read_scope(obj))
            for key, obj in objects.items()
            if label(obj, well_known.PARENT_ID)
        }
        for key, obj in objects.items():
            if set_id := label(obj, well_known.PART_OF):
                if set_id not in parents and set_id not in recorded:
                    if not self.parents_may_vanish:
                        self.broken.append(f"I1: after {write.verb} {write.key}, {key} has no parent")
                    continue
                parent, scope = parents.get(set_id) or recorded[set_id]
                if not Scope(scope.kinds, scope.namespaces | {"", parent.namespace}) >= Scope(
                    frozenset({key.group_kind}), frozenset({key.namespace})
                ):
                    self.broken.append(f"I1: after {write.verb} {write.key}, {parent} does not cover {key}")

    def _nothing_lives_on_it(self, objects: Mapping[ObjectKey, Object], write: ClusterWrite) -> None:
        """I4; a circle of mixed generations has to be cut somewhere."""
        assert write.before is not None
        live = {**objects, write.key: write.before}
        uses = {key: deps_of(obj) for key, obj in live.items() if label(obj, well_known.PART_OF)}
        by_hash = {key_hash(key): key for key in live}
        for key in uses:
            if key != write.key and key_hash(write.key) in uses[key] and key not in _reached(uses, by_hash, write.key):
                self.broken.append(f"I4: {write.key} was deleted while {key} needs it")

    def _git_does_not_want_it(self, write: ClusterWrite) -> None:
        """S0-10: neither what Git wants in the end is deleted, nor what stood in a file that cannot be read now."""
        assert write.before is not None
        if str(write.key) in self.wanted:
            self.broken.append(f"S0-10: {write.key} was deleted, and Git wants it")
        for state in self.sources.values():
            if label(write.before, well_known.PART_OF) == applyset_id(source_parent(state.catalog.source)):
                file, unreadable = annotation(write.before, well_known.SOURCE_FILE), state.catalog.unreadable_files
                if unreadable and (file in unreadable or file not in state.catalog.contents):
                    self.broken.append(f"S0-10: {write.key} was deleted, and {sorted(unreadable)} cannot be read")

    def _needs_are_recorded(self, applied: Object) -> None:
        """S0-11: what content names is in the record."""
        deps = deps_of(applied)
        for name in _named_by(applied):
            if deps.isdisjoint(_hashes_of(name)):
                self.broken.append(
                    f"S0-11: {ObjectKey.from_manifest(applied)} reads {name}, which its record does not say"
                )

    def _dependencies_are_there(self, objects: Mapping[ObjectKey, Object], created: Object) -> None:
        """S0-9: nothing is created before all that it depends on is there and runs."""
        by_hash = {key_hash(key): key for key in objects}
        uses = {key: deps_of(obj) for key, obj in objects.items()}
        for dep in annotation(created, well_known.DEPS).split(","):
            if dep and not dep.endswith("~") and dep.removesuffix(READ_SUFFIX) not in by_hash:
                self.broken.append(f"S0-9: {ObjectKey.from_manifest(created)} was created before a dependency of it")
        for key in _reached(uses, by_hash, ObjectKey.from_manifest(created)):
            if key.kind == "Deployment" and not _runs(objects[key]):
                self.broken.append(f"S0-9: {ObjectKey.from_manifest(created)} was created before {key} ran")


def deps_of(obj: Object) -> set[str]:
    return {dep.removesuffix("~") for dep in annotation(obj, well_known.DEPS).split(",") if dep}


def _named_by(obj: Object) -> Iterator[str]:
    """The names of objects that the content of a member of `tests.support.properties.repositories` tells."""
    said = {**(obj["metadata"].get("annotations") or {}), **(obj.get("data") or {})}
    if well_known.INSTANCE in said:
        yield from (name for word, name in said.items() if word in READ_FROM)
    yield from (one.rpartition("/")[2] for one in said.get("config.kubernetes.io/depends-on", "").split(",") if one)


@cache
def _hashes_of(name: str) -> Set[str]:
    """Return the hashes of all objects that a name may mean."""
    kinds = (("", "ConfigMap"), ("apps", "Deployment"), ("g.test", "Link"))
    spaces = ("default", "team", "crew")
    return {key_hash(ObjectKey(*kind, namespace, name)) for kind in kinds for namespace in spaces}


def _runs(workload: Object) -> bool:
    status, metadata = workload.get("status") or {}, workload["metadata"]
    return bool(
        status.get("availableReplicas") == workload["spec"]["replicas"]
        and status.get("observedGeneration") == metadata.get("generation")
    )


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


def essence(cluster: WitnessedCluster) -> dict[str, Any]:
    """Everything in the cluster that Levelgate decides, but for uids, versions, times and commits."""
    return {
        str(key): _essence(obj)
        for key, obj in cluster.objects.items()
        if label(obj, well_known.PART_OF) or label(obj, well_known.PARENT_ID)
    }


def _stable(name: str, text: str) -> str:
    """Return an annotation without the position in a collection, which is renewed only together with another difference."""
    return text.partition("/")[0] if name in {well_known.NODE, well_known.NODE_ID} else text


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
        "annotations": {name: _stable(name, text) for name, text in annotations.items() if name not in VOLATILE},
        "finalizers": metadata.get("finalizers") or [],
        "going": "deletionTimestamp" in metadata,
        "spec": obj.get("spec") or record,
        "state": status.get("state"),
        "conditions": [
            [condition.get(name) for name in ("type", "status", "reason", "message")]
            for condition in status.get("conditions", [])
        ],
    }
