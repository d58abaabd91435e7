"""The lead is kept however long the work keeps its event loop busy, and lost by an event loop that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Condition
from typing import NoReturn

import pytest

from applier.errors import ConfigurationError
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.http import write_kubeconfig
from applier.sandbox.server import Sandbox
from gitops.leadership import FLEET_LEASE_TIMES, LEASE_KEY, LEASE_TIMES, LeaseTimes, NotLeading
from gitops.lease_thread import LeaseThread, ThreadLeadership
from gitops.loop_watch import HUNG_SECONDS
from tests.support.cluster.http_api import ServedApi, evaluate

PATIENCE = 120.0
"""Seconds after which a test gives up waiting for the thread."""


class Ticks:
    """A clock that goes on whenever somebody sleeps, by as much, and takes no time to do so."""

    def __init__(self) -> None:
        self.seconds, self.went_on = 0.0, Condition()

    def now(self) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None:
        with self.went_on:
            self.seconds += seconds
            self.went_on.notify_all()
        await asyncio.sleep(0)

    def block_until(self, seconds: float) -> None:
        """Keep the calling thread, and the event loop in it, until the clock says so."""
        with self.went_on:
            assert self.went_on.wait_for(lambda: self.seconds >= seconds, PATIENCE)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    api = ServedApi(Sandbox(evaluate=evaluate))
    write_kubeconfig(tmp_path / "kubeconfig", api.url)
    yield tmp_path / "kubeconfig"
    api.close()


@asynccontextmanager
async def connection(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def thread(clock: Ticks) -> AsyncIterator[LeaseThread]:
    """A thread whose working event loop last turned when the clock began."""
    async with LeaseThread(lambda: clock.seconds < HUNG_SECONDS) as started:
        yield started


def leadership(
    lease_thread: LeaseThread, kubeconfig: Path, clock: Ticks, name: str = "one", times: LeaseTimes = LEASE_TIMES
) -> ThreadLeadership:
    return ThreadLeadership(lease_thread, partial(connection, kubeconfig), name, clock, times, lambda: clock.seconds)


@asynccontextmanager
async def leading(
    kubeconfig: Path, clock: Ticks, times: LeaseTimes = LEASE_TIMES
) -> AsyncIterator[tuple[ThreadLeadership, asyncio.Task[NoReturn]]]:
    """One that holds the Lease, and the task that waits for the end of that."""
    async with thread(clock) as started, leadership(started, kubeconfig, clock, times=times) as lead:
        await lead.acquire(lambda _: None, patient=False)
        holding = asyncio.create_task(lead.hold())
        await asyncio.sleep(0)
        yield lead, holding


async def holder(kubeconfig: Path) -> str:
    async with connection(kubeconfig) as cluster:
        return str((await cluster.get(LEASE_KEY) or {})["spec"]["holderIdentity"])


async def test_a_loop_that_is_busy_for_longer_than_a_lease_lasts_keeps_the_lead(kubeconfig: Path) -> None:
    """The work blocks its event loop for 40 seconds; nobody else may take over, and it may write."""
    clock = Ticks()
    async with leading(kubeconfig, clock) as (lead, holding):
        clock.block_until(4 * LEASE_TIMES.renew_deadline_seconds)
        assert lead.leads
        lead.check()
        holding.cancel()
        await lead.release()
    assert await holder(kubeconfig) == ""


async def test_a_loop_that_hangs_loses_the_lead(kubeconfig: Path) -> None:
    """It is renewed no more, so that another process takes over; the work is broken off as soon as its loop turns."""
    clock = Ticks()
    async with leading(kubeconfig, clock) as (_, holding):
        clock.block_until(HUNG_SECONDS)
        with pytest.raises(NotLeading, match="the work hangs"):
            await holding
        assert clock.seconds <= HUNG_SECONDS + 2 * LEASE_TIMES.renew_interval_seconds


async def test_two_of_them_lead_one_after_the_other(kubeconfig: Path) -> None:
    clock, waited_for = Ticks(), list[str]()
    async with (
        thread(clock) as started,
        leadership(started, kubeconfig, clock) as one,
        leadership(started, kubeconfig, clock, "two") as two,
    ):
        await one.acquire(waited_for.append, patient=True)
        await one.release()
        await two.acquire(waited_for.append, patient=True)
        assert (one.leads, two.leads, two.epoch) == (False, True, 2)
    assert await holder(kubeconfig) == "two"


async def test_a_cluster_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    """The thread goes on: it renews the Leases of other clusters."""
    (tmp_path / "kubeconfig").write_text("{}")
    async with thread(Ticks()) as started:
        with pytest.raises(ConfigurationError):
            async with leadership(started, tmp_path / "kubeconfig", Ticks()):
                pass


async def test_leases_of_several_clusters_are_renewed_in_one_thread(tmp_path: Path) -> None:
    """S3-9: each has its own term and its own times; one that is given back costs the others nothing."""
    apis = {name: ServedApi(Sandbox(evaluate=evaluate)) for name in ("hub", "spoke")}
    configs = {name: tmp_path / name for name in apis}
    for name, api in apis.items():
        write_kubeconfig(configs[name], api.url)
    clock = Ticks()
    async with (
        thread(clock) as started,
        leadership(started, configs["hub"], clock) as hub,
        leadership(started, configs["spoke"], clock, times=FLEET_LEASE_TIMES) as spoke,
    ):
        for one in (hub, spoke):
            await one.acquire(lambda _: None, patient=False)
        durations = {name: await lease_duration(config) for name, config in configs.items()}
        assert durations == {"hub": 15, "spoke": 30}
        holding = [asyncio.create_task(one.hold()) for one in (hub, spoke)]
        await spoke.release()
        assert (hub.leads, spoke.leads) == (True, False)
        for task in holding:
            task.cancel()
    for api in apis.values():
        api.close()


async def lease_duration(kubeconfig: Path) -> int:
    async with connection(kubeconfig) as cluster:
        return int((await cluster.get(LEASE_KEY) or {})["spec"]["leaseDurationSeconds"])
