"""A place of its own on the shared server, and lives of the program in it: each a new process as far as the cluster can tell.

A life runs the loop of `levelgate run --once` (`gitops.daemon.follower.Follower`) inside this process, with everything below it real but for
Git: commits are handed to it. When the proxy kills it, its task is cancelled, and the proxy is deaf to whatever it still tries; so the
server sees what it would see of a process that got SIGKILL. A new life shares no state with the one before: the cluster is all there is.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Any, NamedTuple, TypeVar, cast
from uuid import uuid4

from applier.applyset.inventory import BOOKKEEPING_PATHS
from applier.cluster import Cluster
from applier.errors import ClusterError
from applier.kube import connect
from gitops.clock import SystemClock
from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.source import Mirror, SourceSnapshot, SourceTarget, Tip
from gitops.source.snapshot import File
from gitops.windows.window import LOCAL
from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.faults.proxy import Proxy, ProxyResponse, Request, Rule, Upstream
from tests.support.platform import MERGE, annotation_patch, commit_id

T = TypeVar("T")

QUIET_PASSES = 5
LONGEST_LIFE = 900.0

Object = dict[str, Any]
Files = Mapping[str, str]
Commit = Mapping[str, Files]
"""Files of each source, by the source's short name."""


class PathKey(NamedTuple):
    """An object as paths name it; `resource` is the plural."""

    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource, self.namespace, self.name)))


FAST = 10


class TenfoldClock(SystemClock):
    """Waits a tenth of what it is asked to: what a life waits for here takes milliseconds."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / FAST)


@dataclass
class Branch:
    """A stand-in for `gitops.source.Mirror` with a head that tests set; `line` are the ancestors of the head."""

    target: SourceTarget
    files: Files = field(default_factory=dict)
    number: int = 0
    line: tuple[str, ...] = ()
    kept: dict[str, Files] = field(default_factory=dict)

    def push(self, files: Files, number: int, *, rewrites: bool) -> None:
        """A new head; `rewrites`: one that follows from nothing."""
        self.line = () if rewrites else (*self.line, self.resolve_head())
        self.files, self.number = files, number
        self.kept[self.resolve_head()] = files

    def has_commit(self, commit: str) -> bool:
        return commit in self.kept

    def find_copied_commit(self, prefix: str) -> str | None:
        return next((commit for commit in self.kept if commit.startswith(prefix)), None)

    def is_ancestor(self, old: str, new: str) -> bool:
        assert new == self.resolve_head()
        return old in self.line

    def resolve_head(self) -> str:
        return commit_id(self.number)

    @property
    def repository(self) -> str:
        return self.target.location

    @property
    def server(self) -> str:
        return self.target.server

    @property
    def credential_states(self) -> tuple[object, ...]:
        return ()

    @property
    def ref_names(self) -> tuple[str, ...]:
        return ()

    def list_refs(self) -> Mapping[str, str]:
        return {}

    def find_tip(self, _refs: Mapping[str, str]) -> Tip:
        return Tip("refs/heads/main", self.resolve_head())

    def fetch(self, tip: Tip) -> str:
        return tip.commit

    def read_snapshot(self, revision: str) -> SourceSnapshot:
        files = {name: File(revision, text.encode()) for name, text in sorted(self.kept[revision].items())}
        return SourceSnapshot(
            revision, revision, files, (), True, f"commit {self.number}", "Ada", f"commit {self.number}", None
        )


@dataclass(frozen=True, slots=True)
class Life:
    """How one life went. `found` is its last pass; None when it was killed or gave up with `error`."""

    killed: bool
    writes: Sequence[Request]
    befallen: int
    found: ReconcileResult | None = None
    error: ClusterError | None = None

    @property
    def failures(self) -> list[str]:
        """Return the failures in the last result."""
        told = self.found.ledger.restless() if self.found else ()
        return [str(one) for summary in told for one in summary.rows if one.reason.is_failure]


@dataclass
class Lane:
    """One namespace, one API group, some sources, all named after `token`, which nothing else on the server contains."""

    upstream: Upstream
    audit: AuditLog
    token: str = field(default_factory=lambda: f"f{uuid4().hex[:9]}")
    plurals: Sequence[str] = ()
    branches: dict[str, Branch] = field(default_factory=dict)
    concurrency: int = 16
    unreachable_seconds: float = inf
    _commits: int = 0

    @property
    def namespace(self) -> str:
        return self.token

    @property
    def group(self) -> str:
        return f"{self.token}.test"

    def source(self, short: str) -> str:
        return f"{short}-{self.token}"

    async def open(self) -> None:
        created = await self.upstream.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert created.status == 201, created.body

    async def commit(self, commit: Commit, *, approved: bool = True, rewrites: bool = False) -> None:
        """New heads, `approved` for what the brake on many deletions would hold; the brake has tests of its own."""
        self._commits += 1
        for short, files in commit.items():
            name = self.source(short)
            branch = self.branches.setdefault(name, Branch(SourceTarget(f"/{name}")))
            if not branch.kept or branch.files != files:
                branch.push(files, self._commits, rewrites=rewrites)
            if approved:
                await self.approve({short: branch.resolve_head()})

    async def approve(self, commits: Mapping[str, str]) -> None:
        """Deletions of these commits, by source, need not wait for a person."""
        for short, commit in commits.items():
            await self.patch(self.record(short), annotation_patch(approved_commit=commit))

    async def live(
        self,
        *rules: Rule,
        wait: float = 1200.0,
        passes: int = 1,
        memory: dict[str, ProxyResponse] | None = None,
    ) -> Life:
        """A new process that runs as `run --once --wait` does, so often in a row; its end, or the one that the rules bring."""
        async with self._behind(rules, {} if memory is None else memory) as (proxy, cluster):
            clock = TenfoldClock()
            follower = Follower(self._mirrors, Reconciler(cluster, "0.1.0", clock, LOCAL), clock)
            task = asyncio.ensure_future(_passes(follower, wait=wait, passes=passes))
            proxy.kill = task.cancel
            found, error = await end_of(task, proxy, LONGEST_LIFE)
        return Life(proxy.killed, proxy.writes, len(proxy.befallen), found, error)

    @asynccontextmanager
    async def daemon(self, *rules: Rule) -> AsyncIterator[tuple[Follower, Proxy]]:
        """A new process that follows its sources and watches the cluster as `run` does, but for timers; at the end it is stopped in good order."""
        async with self._behind(rules, {}) as (proxy, cluster):
            clock = SystemClock()
            follower = Follower(self._mirrors, Reconciler(cluster, "0.1.0", clock, LOCAL), clock)
            async with EventRouter(follower.reconciler, follower.enqueue, lambda _: None) as follower.event_router:
                running = asyncio.ensure_future(follower.run_forever())
                try:
                    yield follower, proxy
                finally:
                    follower.stop.set()
                    await running

    @asynccontextmanager
    async def _behind(
        self, rules: Sequence[Rule], memory: dict[str, ProxyResponse]
    ) -> AsyncIterator[tuple[Proxy, Cluster]]:
        """A connection of its own to the server, through a proxy with these rules."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
            async with Proxy(self.upstream, rules, memory) as proxy:
                config.write(proxy.kubeconfig())
                config.flush()
                cluster = await connect(
                    kubeconfig=config.name,
                    concurrency=self.concurrency,
                    unreachable_seconds=self.unreachable_seconds,
                )
                try:
                    yield proxy, cluster
                finally:
                    await cluster.close()

    @property
    def _mirrors(self) -> Mapping[str, Mirror]:
        return cast(Mapping[str, Mirror], self.branches)

    async def quiet(self, *, passes: int = QUIET_PASSES) -> list[Request]:
        """What a new process writes in so many passes, five of them after a fault; nothing, if all is done.

        Superseded records are cleared away, and requests to a rollout without readable instances are refused, by whoever sees them: those of
        other lanes do not count.
        """
        before = await self._records()
        life = await self.live(wait=0.0, passes=passes)
        assert life.error is None, life.error
        ours = before | await self._records()
        return [request for request in life.writes if self._is_ours(request.path, ours)]

    def _is_ours(self, path: str, records: Collection[str]) -> bool:
        """Return whether the object at this path belongs to the lane, whose ControllerRevisions are `records`."""
        name = path.rpartition("/")[2].partition("?")[0]
        if "/controllerrevisions/" in path:
            return name in records
        return not name.startswith("rollout-") or self.token in name

    async def _records(self) -> set[str]:
        answer = await self.ask("GET", collection_path("apps", "controllerrevisions"))
        return {obj["metadata"]["name"] for obj in _items(answer.json) if self.token in str(obj["metadata"])}

    async def ask(self, method: str, path: str, body: object = None, **options: Any) -> ProxyResponse:
        return await self.upstream.ask(method, path, body, **options)

    async def patch(self, key: PathKey, body: object, *, subresource: str = "", **options: Any) -> ProxyResponse:
        """A merge patch (RFC 7386) by a person."""
        suffix = f"/{subresource}" if subresource else ""
        return await self.ask("PATCH", path_of(key) + suffix, body, kind=MERGE, **options)

    async def create(self, manifest: Object, *, resource: str = "configmaps", group: str = "") -> Object:
        """Created by a person, in the lane's namespace."""
        path = path_of(PathKey(group, resource, self.namespace, ""))
        answer = await self.ask("POST", path.rstrip("/"), manifest)
        assert answer.status == 201, answer.body
        return cast(Object, answer.json)

    async def get(self, key: PathKey) -> Object | None:
        answer = await self.ask("GET", path_of(key))
        return answer.json if answer.status == 200 else None

    async def delete(self, key: PathKey) -> None:
        """Deleted by a person."""
        answer = await self.ask("DELETE", path_of(key))
        assert answer.status in {200, 202}, answer.body

    def config_map(self, name: str) -> PathKey:
        return PathKey("", "configmaps", self.namespace, name)

    def instance(self, plural: str, name: str) -> PathKey:
        return PathKey(self.group, plural, self.namespace, name)

    def record(self, short: str) -> PathKey:
        """Return the key of the record of a source."""
        return PathKey("", "configmaps", OWN_NAMESPACE, f"source-{self.source(short)}")

    def crd(self, plural: str) -> PathKey:
        return PathKey("apiextensions.k8s.io", "customresourcedefinitions", "", f"{plural}.{self.group}")

    async def objects(self) -> dict[PathKey, Object]:
        """Everything on the server that bears the lane's name, as stored."""
        collections = [
            ("", "namespaces"),
            ("", "configmaps"),
            ("", "secrets"),
            ("apps", "deployments"),
            ("apps", "controllerrevisions"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            *((self.group, plural) for plural in self.plurals),
        ]
        answers = await asyncio.gather(*(self.ask("GET", collection_path(*place)) for place in collections))
        return {
            key_of(group, resource, obj): obj
            for (group, resource), answer in zip(collections, answers, strict=True)
            if answer.status == 200
            for obj in _items(answer.json)
            if self.token in str(obj["metadata"])
        }

    def essence(self, objects: Mapping[PathKey, Object]) -> dict[PathKey, Object]:
        """See `essence`."""
        return essence(objects)

    async def wipe(self) -> None:
        """Removes everything but the namespace, whatever holds it. With a CRD it takes seconds: the API server gives others time to notice."""
        for round_ in range(1000):
            if not await self._sweep():
                return
            await asyncio.sleep(0.02 * min(round_, 10))
        raise AssertionError(f"{self.token} is not empty")

    async def _sweep(self) -> bool:
        """Deletes all that is there; was there anything?"""
        kept = PathKey("", "namespaces", "", self.namespace)
        found = {key: obj for key, obj in (await self.objects()).items() if key != kept}
        for key, obj in found.items():
            if obj["metadata"].get("finalizers") and key.resource != "customresourcedefinitions":
                await self.patch(key, {"metadata": {"finalizers": None}})
            if "deletionTimestamp" not in obj["metadata"]:
                await self.ask("DELETE", path_of(key))
        return bool(found)

    async def close(self) -> None:
        """Leaves nothing behind that others would list but an empty namespace; does not wait for it."""
        await self._sweep()

    def events(self, since: int) -> list[AuditEvent]:
        """Requests that concern the lane, in the order of their answers."""
        return [event for event in self.audit.events(since=since) if self.token in event.uri]


async def end_of(task: Awaitable[T], proxy: Proxy, within: float) -> tuple[T | None, ClusterError | None]:
    """How it ended: with what it has come to, with an error, or killed, with neither. Raises TimeoutError after so many seconds."""
    try:
        return await asyncio.wait_for(task, within), None
    except ClusterError as refused:
        return None, refused
    except asyncio.CancelledError:
        if not proxy.killed:
            raise
        return None, None


async def _passes(follower: Follower, *, wait: float, passes: int) -> ReconcileResult:
    for _ in range(passes):
        found = await follower.run_once(wait=timedelta(seconds=wait))
    return found


def key_of(group: str, resource: str, obj: Object) -> PathKey:
    return PathKey(group, resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def collection_path(group: str, resource: str) -> str:
    return f"/apis/{group}/v1/{resource}" if group else f"/api/v1/{resource}"


def path_of(key: PathKey) -> str:
    prefix = f"/apis/{key.group}/v1" if key.group else "/api/v1"
    place = f"/namespaces/{key.namespace}" if key.namespace else ""
    return f"{prefix}{place}/{key.resource}/{key.name}"


def _items(page: Object) -> Iterator[Object]:
    """Items of a list; those of a typed one do not say what they are."""
    for item in page["items"]:
        yield {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List"), **item}


def essence(objects: Mapping[PathKey, Object]) -> dict[PathKey, Object]:
    """What Levelgate decides of these objects: without uids, versions, times, commits and the numbers of revisions."""
    return {key: _essence(key, obj) for key, obj in objects.items() if _is_decided(key, obj)}


_VOLATILE = frozenset(
    {
        "internal.levelgate.dev/epoch",
        "internal.levelgate.dev/level",  # a change of levels alone is recorded with the next write
        "internal.levelgate.dev/parent-uid",
        "internal.levelgate.dev/target",
        "levelgate.dev/approved-commit",
        "levelgate.dev/commit",
        "levelgate.dev/file",  # of a node that is rendered from a stored revision it is the record
        "levelgate.dev/revision",
    }
)
_RECORD = frozenset({"url", "target", "applied", "own", "since", "passes"})


def _is_decided(key: PathKey, obj: Object) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return key.resource != "controllerrevisions" and any(name.startswith("applyset.") for name in labels)


def _without_bookkeeping(fields: Object) -> Object:
    """What an instance was created with is its creator's until the manager of parents changes it (ADR 24): a matter of history."""
    metadata = {
        section: {
            name: owned for name, owned in parts.items() if _metadata_path(section, name) not in BOOKKEEPING_PATHS
        }
        for section, parts in fields.get("f:metadata", {}).items()
        if section != "f:finalizers"
    }
    return {**fields, "f:metadata": metadata}


def _metadata_path(section: str, name: str) -> str:
    return f".metadata.{section[2:]}.{name[2:]}"


def _essence(key: PathKey, obj: Object) -> Object:
    metadata, status = obj["metadata"], obj.get("status") or {}
    annotations = metadata.get("annotations") or {}
    data = obj.get("data") or {}
    return {
        "labels": metadata["labels"],
        "annotations": {name: text for name, text in annotations.items() if name not in _VOLATILE},
        "finalizers": metadata.get("finalizers") or [],
        "going": "deletionTimestamp" in metadata,
        "owners": sorted(
            (entry["manager"], json.dumps(_without_bookkeeping(entry["fieldsV1"]), sort_keys=True))
            for entry in metadata.get("managedFields") or ()
            if entry["manager"] == "levelgate" and not entry.get("subresource")
        ),
        "content": {name: text for name, text in data.items() if name not in _RECORD}
        if key.namespace == OWN_NAMESPACE
        else data or obj.get("spec") or {},
        "state": status.get("state"),
        "conditions": [
            [condition.get(name) for name in ("type", "status", "reason", "message")]
            for condition in (status.get("conditions") or ())
            if key.group.endswith(".test")
        ],
    }
