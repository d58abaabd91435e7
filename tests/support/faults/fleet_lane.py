"""A hub with one cluster, and lives of it in a lane: each is a new process as far as the two clusters can tell.

The server is the hub's cluster and the one that it works on, so one proxy, one audit log and one order of writes are of both. Of what a hub
keeps in its own cluster (`cluster-NAME`, `fleet-SOURCE`) and in others (the mark, the Lease, `source-SOURCE`) nothing has one name.

A life runs `gitops.daemon.fleet.Fleet`; the hub's own cluster, which is worked on as a single one is, is left out. Lanes of this kind take turns:
they share the mark and the Lease.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final
from unittest import mock

from applier.cluster import Cluster, ClusterName
from applier.execute.results import Result
from gitops import leadership
from gitops.daemon.credential_watch import CredentialWatch
from gitops.daemon.fleet import Fleet
from gitops.daemon.fleet_environment import FleetEnvironment
from gitops.daemon.turns import Turns
from gitops.fleet.access import AccessSettings
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.identity import read_cluster_uid
from gitops.fleet.projections import FleetProjections
from gitops.instrumentation import no_stage
from gitops.leadership import LEASE_KEY, own_identity
from gitops.lease_thread import LeaseThread
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.requeue import in_flight
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.audit import AuditEvent
from tests.support.faults.lane import Lane, Life, Object, PathKey, TenfoldClock, end_of, path_of
from tests.support.faults.proxy import Proxy, ProxyResponse, Rule

MARK: Final = PathKey("", "configmaps", OWN_NAMESPACE, "levelgate")
LEASE: Final = PathKey("coordination.k8s.io", "leases", OWN_NAMESPACE, LEASE_KEY.name)
LONGEST_LIFE: Final = 300.0
"""Seconds after which a life counts as one that comes to no end."""

_NO_PROCESS: Final = count(9_000_000)
"""Numbers beyond those that a process can have."""


@dataclass
class FleetPasses:
    """What is told of a cluster: what the last pass has found."""

    last: ReconcileResult | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        self.last = reconcile_result
        self.changed.set()

    def print_result(self, result: Result) -> None: ...

    def print_notice(self, source: str, text: str) -> None: ...

    @property
    def is_whole(self) -> bool:
        return self.last is not None and self.last.touched is None

    def is_at_rest(self, commit: str) -> bool:
        """Whether another pass over this commit would find nothing more, and nothing is on its way."""
        found = self.last
        return (
            found is not None
            and {state.catalog.commit for state in found.sources} == {commit}
            and found.is_conclusive
            and not any(map(in_flight, found.plan.sets))
        )


@dataclass
class FleetLane(Lane):
    """The cluster is called like the lane; its source `git` is the one that declares it."""

    unreachable_seconds: float = 0.1

    @property
    def cluster(self) -> ClusterName:
        return ClusterName(self.token)

    @property
    def cluster_record(self) -> PathKey:
        return PathKey("", "configmaps", OWN_NAMESPACE, f"cluster-{self.token}")

    async def open(self) -> None:
        """With a server that no other hub has left anything on."""
        await super().open()
        found = await self.ask("GET", f"{path_of(MARK._replace(name=''))}?labelSelector=internal.levelgate.dev/record")
        for obj in found.json["items"]:
            if obj["metadata"]["labels"]["internal.levelgate.dev/record"] in {"cluster", "fleet", "installation"}:
                await self.delete(MARK._replace(name=obj["metadata"]["name"]))

    async def wipe(self) -> None:
        await self.ask("DELETE", path_of(LEASE))
        await super().wipe()

    async def objects(self) -> dict[PathKey, Object]:
        """With the mark, which is the only thing here that does not bear the lane's name."""
        mark = await self.get(MARK)
        return {**await super().objects(), **({MARK: mark} if mark else {})}

    def essence(self, objects: Mapping[PathKey, Object]) -> dict[PathKey, Object]:
        """With what the hub records, without times and commits."""
        records = {key: dict(objects[key].get("data") or {}) for key in self._records_of_hub if key in objects}
        if record := records.get(self.cluster_record):
            del record["since"]
            record["sources"] = _without_commits(record["sources"])
        return {**super().essence(objects), **records}

    @property
    def _records_of_hub(self) -> tuple[PathKey, ...]:
        return MARK, self.cluster_record, MARK._replace(name=f"fleet-{self.source('git')}")

    def events(self, since: int) -> list[AuditEvent]:
        mark = path_of(MARK)
        return [event for event in self.audit.events(since=since) if self.token in event.uri or mark in event.uri]

    def _is_ours(self, path: str, records: Collection[str]) -> bool:
        """Each life takes and gives back a Lease, and Events tell of what it does."""
        return super()._is_ours(path, records) and not {"leases", "events"} & set(path.partition("?")[0].split("/"))

    async def live(
        self,
        *rules: Rule,
        wait: float = 1200.0,
        passes: int = 1,
        memory: dict[str, ProxyResponse] | None = None,
    ) -> Life:
        """A new hub until its cluster is as Git says, and so many passes have seen that, or removed; or killed by the rules, then without an end in
        good order.
        """
        told = FleetPasses()
        async with (
            self._behind(rules, {} if memory is None else memory) as (proxy, hub),
            self._fleet(hub, proxy, told) as fleet,
        ):
            task = asyncio.ensure_future(self._until_settled(fleet, told, passes))
            proxy.kill = lambda: asyncio.ensure_future(_break_off(task, fleet))
            _, error = await end_of(task, proxy, LONGEST_LIFE)
        return Life(proxy.killed, proxy.writes, len(proxy.befallen), told.last, error)

    @asynccontextmanager
    async def _fleet(self, hub: Cluster, proxy: Proxy, told: FleetPasses) -> AsyncIterator[Fleet]:
        clock = TenfoldClock()
        with _access(self.token, proxy.kubeconfig()) as access:
            async with LeaseThread(lambda: True) as lease_thread:
                environment = FleetEnvironment(
                    hub=hub,
                    hub_id=f"hub-{await read_cluster_uid(hub)}",  # a hub is no cluster of its own fleet
                    recorder=FleetRecorder(hub, clock, told.print_notice),
                    access=access,
                    clock=clock,
                    version="0.1.0",
                    identity=_gone_process(),
                    lease_thread=lease_thread,
                    facts=lambda _: {},
                    stage_of=lambda _: no_stage,
                    concurrency=self.concurrency,
                    max_concurrent=1,
                    turns=Turns(1, 60.0, 60.0),
                    credentials=CredentialWatch(hub, None, lambda _: None),
                )
                yield Fleet(
                    environment, FleetProjections(self.source("git")), observe=lambda _: told, served_kinds=dict
                )

    async def _until_settled(self, fleet: Fleet, told: FleetPasses, passes: int) -> None:
        branch, stop = self.branches[self.source("git")], asyncio.Event()
        files = {name: text.encode() for name, text in branch.files.items()}
        catalog = load(files, source=self.source("git"), commit=branch.resolve_head())
        await fleet.restore()
        fleet.update([SourceState(catalog)])
        running = asyncio.ensure_future(fleet.run(stop))
        try:
            if self.cluster in fleet.projections.clusters:
                await _settled(fleet, told, catalog.commit, passes)
            else:
                await asyncio.gather(*fleet._tasks.values())
        finally:
            stop.set()
            await running


@contextmanager
def _access(name: str, kubeconfig: str) -> Iterator[AccessSettings]:
    """An operator's directory with one kubeconfig."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, name).write_text(kubeconfig)
        yield AccessSettings(Path(directory), (), "")


async def _settled(fleet: Fleet, told: FleetPasses, commit: str, passes: int) -> None:
    """Wait until so many whole passes have found nothing to do."""
    while passes:
        await told.changed.wait()
        told.changed.clear()
        if told.is_at_rest(commit):
            passes -= told.is_whole
            fleet.resync()


async def _break_off(task: asyncio.Future[None], fleet: Fleet) -> None:
    """End all that the hub does, where it is. What would give a Lease back, or write what is not written yet, has no time for it."""
    with mock.patch.object(leadership, "RELEASE_TIMEOUT_SECONDS", 0.0):
        members = {*fleet._tasks.values(), *fleet._ending.values()}
        for member in members:
            member.cancel()
        await asyncio.wait({*members, asyncio.ensure_future(asyncio.sleep(0))})
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)


def _gone_process() -> str:
    """Return who a life is: a process of this machine that is gone, so that the next one need not wait for its Lease."""
    machine, _, _ = own_identity().rpartition("_")
    return f"{machine}_{next(_NO_PROCESS)}-1"


def _without_commits(sources: str) -> Object:
    """What a record says of the sources, but for commits, which are others in each run."""
    rows = json.loads(sources or "{}")
    return {name: {key: row[key] for key in row.keys() - {"commit"}} for name, row in rows.items()}
