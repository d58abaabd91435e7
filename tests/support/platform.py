"""The harness of one cluster, the commits of its sources, and one clock.

    with Platform() as platform:
        platform.commit({"one.json": config_map("default", "one")})
        platform.settle()
        assert platform.listed("configmaps") == ["one"]

Everything runs in this process: the cluster is a sandbox, a commit is a dictionary of files, and time passes only where
the test moves `clock`. `tests.support.link_platform` adds a definition and its instances,
`tests.support.git.platform` a real repository, `tests.support.kill_points` deaths at every write, and
`tests.support.properties.checked_platform` invariants that hold after every write.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Self, TypeVar

from applier.cluster import Cluster
from applier.sandbox.endpoints.transport import RequestHandler, cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from applier.sandbox.wire import Request, Response
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.records.source_record import SourceRecord
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import Catalog, load
from renderer.identity import OWN_NAMESPACE
from tests.support.clock import StillClock
from tests.support.fault_injector import FaultInjector

T = TypeVar("T")

OWN = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps"
"""The path of Levelgate's own records."""
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


def copy_of(store: Store) -> Store:
    """Copy a store. Objects and events never change, so both stores share them."""
    shelves = map(store.resource_store, store.resources())
    return deepcopy(store, {id(one): one for shelf in shelves for one in (*shelf.objects.values(), *shelf.events)})


def commit_id(number: int) -> str:
    """Return the id of a commit by its number, from 1.

    The short form that objects record differs between commits; the shorter form for people does not.
    """
    return f"{number:012d}".ljust(40, "0")


def annotation_patch(**annotations: str | None) -> dict[str, Any]:
    """Return the merge patch that sets annotations of Levelgate. Underscores stand for dashes; None removes one."""
    said = {f"levelgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"annotations": said}}


class Died(BaseException):
    """The death of the process at a write; no handler of `Exception` catches it."""


@dataclass(kw_only=True)
class Platform:
    """A cluster, the newest commit of each source, a clock, and the process that reconciles them.

    `pushed` has every commit by its id. `writes` counts write requests of the process, from 0. At the request with the
    number in `dies_at` the process dies: before the server carries it out, or (True) after. While `dies_at` is set, a
    dead process writes nothing more.
    """

    source: str = "platform"
    clock: StillClock = field(default_factory=StillClock)
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    sources: dict[str, SourceState] = field(default_factory=dict)
    pushed: dict[str, Catalog] = field(default_factory=dict)
    commits: int = 0
    writes: int = 0
    dies_at: tuple[int, bool] | None = None

    def __enter__(self) -> Self:
        self.sandbox = self.new_sandbox()
        self._loop = self.new_loop()
        self.restart()
        return self

    @contextmanager
    def copied(self) -> Iterator[Self]:
        """Yield a copy of the platform with a new process. Changes to the copy do not reach the original."""
        with replace(self, **self._copied_fields()) as other:
            other.sandbox = other.new_sandbox(copy_of(self.sandbox.state.store))
            other.restart()
            yield other

    def _copied_fields(self) -> dict[str, Any]:
        return {"sources": dict(self.sources), "pushed": dict(self.pushed), "clock": copy(self.clock)}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self.cluster.close())
        self._loop.close()

    def new_sandbox(self, store: Store | None = None) -> Sandbox:
        """Return the cluster as it is before the first commit, or with the objects of a store."""
        return Sandbox(clock=self.clock.seconds, store=store)

    def connect(self, door: RequestHandler) -> Cluster:
        """Return the connection of a new process, whose requests go to `door`."""
        return cluster_of(door)

    def restart(self, door: RequestHandler | None = None, /, **settings: Any) -> None:
        """Start a new process, which remembers nothing, on the same cluster.

        Args:
            door: handler of the requests of the process, in front of the cluster.
            settings: fields of the reconciler.
        """
        self.cluster = self.connect(door or self.answer)
        self.reconciler = Reconciler(self.cluster, "0", self.clock, LOCAL, **settings)
        self.reconciler.heal_from(self._read_earlier)

    async def _read_earlier(self, _source: str, commit: str) -> Catalog | None:
        """Return an earlier commit: Git keeps every one."""
        found = self.find_pushed_commit(commit)
        return self.pushed[found] if found else None

    def find_pushed_commit(self, prefix: str) -> str | None:
        """Return the full id of a commit by its beginning."""
        return next((commit for commit in self.pushed if commit.startswith(prefix)), None)

    async def answer(self, request: Request) -> Response:
        """Answer a request of the process."""
        return await self.faulty.answer(request)

    @cached_property
    def faulty(self) -> FaultInjector:
        """Return the faults between the process and the cluster, none at first."""
        return FaultInjector(self._carry_out)

    async def _carry_out(self, request: Request) -> Response:
        is_write = request.method != "GET" and "selfsubject" not in request.target
        number, self.writes = self.writes, self.writes + is_write
        if is_write and self.dies_at and self.dies_at[0] <= number:
            if self.dies_at == (number, True):
                await self.sandbox.answer(request)
            raise Died
        return await self.sandbox.answer(request)

    # ---- what people commit

    def commit(self, files: Mapping[str, str], *, source: str = "", hold: str = "") -> str:
        """Commit these files, and no others, to a source. Return the id of the commit."""
        name = source or self.source
        known = self.sources.get(name)
        catalog = load(
            {file: text.encode() for file, text in files.items()},
            source=name,
            commit=self.committed(files),
            previous=known.catalog if known else None,
        )
        self.sources[name] = _committed_state(catalog, hold)
        self.pushed[catalog.commit] = catalog
        return catalog.commit

    def committed(self, files: Mapping[str, str]) -> str:
        """Return the id of a new commit of these files."""
        self.commits += 1
        return commit_id(self.commits)

    @property
    def catalog(self) -> Catalog | None:
        """The newest commit of `source`; None before the first."""
        return self.sources[self.source].catalog if self.sources else None

    @catalog.setter
    def catalog(self, catalog: Catalog | None) -> None:
        assert catalog
        self.sources[self.source] = _committed_state(catalog)

    @property
    def state(self) -> SourceState:
        """`source` as it was committed last."""
        return self.sources[self.source]

    # ---- what the process does

    def step(self, after: timedelta = timedelta()) -> ReconcileResult:
        """Move the clock, then reconcile once in the same process."""
        self.clock.moment += after
        return self.call(self.reconciler.reconcile(self.read_sources()))

    def read_sources(self) -> list[SourceState]:
        """Return each source as the process reads it now, sorted by name."""
        return [self.sources[name] for name in sorted(self.sources)]

    def settle(self) -> ReconcileResult | None:
        """Reconcile until nothing changes, at most ten times."""
        for _ in range(10):
            found = self.step()
            if not found.changed:
                return found
        raise AssertionError("something still changes after ten reconciliations")

    def call(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the loop of the process. If the process dies, its tasks end."""
        try:
            return self._loop.run_until_complete(awaited)
        except Died:
            self._end_tasks()
            raise

    def _end_tasks(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))

    # ---- what others do and see

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send a request as another client; it must succeed. Return the body of the response."""
        headers = {"content-type": content_type}
        response = self.sandbox.handle(Request(method, path, headers, json.dumps(body).encode() if body else b""))
        assert response.status < 300, response.body
        return json.loads(response.body)

    def find(self, path: str) -> Any:
        """Return the object at this path, None if it does not exist."""
        response = self.sandbox.handle(Request("GET", path, {}, b""))
        return json.loads(response.body) if response.status == 200 else None

    def listed(self, resource: str, namespace: str = "default") -> list[str]:
        """Return the names of the objects of a resource of the core group, sorted."""
        listed = self.request("GET", f"/api/v1/namespaces/{namespace}/{resource}")["items"]
        return sorted(one["metadata"]["name"] for one in listed)

    def put(self, path: str, manager: str = "kubectl-annotate", /, **annotations: str | None) -> None:
        """Annotate the object at this path, as `kubectl annotate` does. Underscores stand for dashes."""
        self.request("PATCH", f"{path}?fieldManager={manager}", annotation_patch(**annotations), MERGE)

    def record(self, source: str = "") -> SourceRecord:
        """Return the record of a source, empty if there is none."""
        return SourceRecord.from_object(self.find(self.record_path(source)) or {})

    def approve(self, commit: str, *, source: str = "") -> None:
        """Approve a commit of a source, as a person does."""
        self.put(self.record_path(source), approved_commit=commit)

    def record_path(self, source: str = "") -> str:
        """Return the path of the record of a source."""
        return f"{OWN}/source-{source or self.source}"


def _committed_state(catalog: Catalog, hold: str = "") -> SourceState:
    return SourceState(catalog, ref="main", url="file:///platform", hold=hold)
