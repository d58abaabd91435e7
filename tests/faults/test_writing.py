"""The fault table, what one process writes, or must not: the server, its storage and its permissions fail in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.faults.extent import first
from tests.support.faults.lane import FAST, Lane
from tests.support.faults.proxy import (
    Delay,
    Drop,
    Fault,
    Garble,
    Lost,
    Meanwhile,
    Moment,
    Reset,
    Rule,
    Status,
    Truncate,
)
from tests.support.faults.scenarios import CHAIN
from tests.support.faults.table import assert_settles, broken, configmaps, names, platform, reference, settled

FAULTS: Sequence[Fault] = (
    Lost(504),
    Reset(Moment.FORWARDED),
    Status(500),
    Status(503),
    Status(429, retry_after=0),
    Reset(Moment.RECEIVED),
    Truncate(),
    Garble(),
    Delay(0.05),
)


@pytest.mark.parametrize("fault", first(3, FAULTS), ids=repr)
async def test_writes_that_fail_or_are_lost_change_neither_order_nor_end(lane: Lane, fault: Fault) -> None:
    """Row "5xx, 429 + Retry-After, reset, half response": every third write of an update and of a prune (I1 to I4, I7)."""
    steps = (platform(lane), platform(lane, text="two"), platform(lane, {}, text="two"))
    targets = [await settled(lane, step) for step in steps]
    for step, target in zip(steps, targets, strict=True):
        await lane.commit(step)
        start, since = await lane.objects(), lane.audit.mark()
        life = await lane.live(*(Rule(fault, nth=nth) for nth in range(2, 30, 3)), wait=0.0)
        assert life.befallen >= 1
        await lane.live()
        assert broken(lane, start, since, target) == []
    await assert_settles(lane, targets[-1])


async def test_retry_after_is_respected(lane: Lane) -> None:
    """Row "429 + Retry-After" (I11): the same request does not come again before the time that was asked for. The clock of a life is fast."""
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, text="two"))
    clock = asyncio.get_running_loop().time
    times: list[float] = []

    async def note() -> None:
        times.append(clock())

    path = f"{configmaps(lane)}one-b"
    before = Rule(Meanwhile(note), path=f"{configmaps(lane)}one-a", times=0)
    again = Rule(Meanwhile(note), path=path, nth=2)
    await lane.live(before, Rule(Status(429, retry_after=10), path=path), again)
    assert times[-1] - times[0] >= 10 / FAST


async def test_a_server_that_hangs_holds_one_request_and_not_the_order(lane: Lane) -> None:
    """Row "60 s hang": the process is ended while a write is neither forwarded nor answered; the next start goes on."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, text="two"))
    life = asyncio.ensure_future(lane.live(Rule(Drop(), path=f"{configmaps(lane)}one-b", times=0)))
    await asyncio.wait([life], timeout=2.0)
    assert not life.done()
    life.cancel()
    await asyncio.wait([life])
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


async def test_storage_that_stands_still_for_a_moment_is_waited_for(lane: Lane) -> None:
    """Row "etcd slow" (I1): etcd is stopped by SIGSTOP in the middle of an update."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, text="two"))
    server = lane.upstream.control_plane

    async def stop() -> None:
        server.pause_etcd()
        asyncio.get_running_loop().call_later(0.5, server.resume_etcd)

    try:
        await lane.live(Rule(Meanwhile(stop), nth=3))
    finally:
        server.resume_etcd()
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


@pytest.mark.parametrize("needs", first(1, [{}, CHAIN]), ids=lambda needs: "update" if needs else "prune")
async def test_storage_that_is_full_stops_writing_and_is_told(lane: Lane, needs: dict[str, str]) -> None:
    """Row "no space alarm" (I1, I12): from the third write on etcd refuses all; what is there stays, and it goes on when there is room."""
    wanted = await reference(lane, platform(lane), platform(lane, needs, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, needs, text="two"))
    server = lane.upstream.control_plane

    async def fill() -> None:
        await asyncio.to_thread(server.fill_etcd)

    try:
        life = await lane.live(Rule(Meanwhile(fill), nth=3), wait=0.0)
        errors = [*(one.error for one in life.found.results), *life.found.status_errors] if life.found else [life.error]
        assert any("database space exceeded" in str(error) for error in errors)
    finally:
        await asyncio.to_thread(server.empty_etcd)
    await assert_settles(lane, wanted)
    assert broken(lane, start, since, wanted) == []


async def test_a_token_that_is_refused_once_is_read_again(lane: Lane) -> None:
    """Row "token expiry/rotation": a 401 in the middle of an update is answered with what the kubeconfig says now."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, text="two"))
    life = await lane.live(Rule(Status(401), path=f"{configmaps(lane)}one-b"), wait=0.0)
    assert life.befallen == 1
    record = await lane.get(lane.record("git"))
    assert record is not None
    assert '"error"' not in record["data"]["passes"]
    await assert_settles(lane, wanted)


async def test_permission_that_is_withdrawn_in_the_middle_costs_nobody_what_is_still_used(lane: Lane) -> None:
    """Row "RBAC removed mid-run" (I4, I12): no object may be patched any more, but deleted; B could not be told that it uses A no longer."""
    after = platform(lane, {"b": "", "c": "b", "d": "c"}, text="two")
    wanted = await reference(lane, platform(lane), after)
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(after)
    life = await lane.live(Rule(Status(403), methods={"PATCH"}, path=configmaps(lane), nth=2, times=0), wait=0.0)
    assert life.error is None
    assert life.befallen >= 1
    assert "one-a" in await names(lane)
    assert broken(lane, start, since, wanted) == []
    one = await lane.get(lane.instance("chains", "one"))
    assert one is not None
    assert one["status"]["state"] == "ERROR"
    await assert_settles(lane, wanted)
