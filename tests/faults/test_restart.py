"""Row "API server restart": the server goes away in the middle of an update and of a prune, and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.extent import WHOLE
from tests.support.faults.kills import differences
from tests.support.faults.lane import Commit, Lane, Object, PathKey, essence
from tests.support.faults.observer import ObservedHistory, unplaced, violations
from tests.support.faults.proxy import Meanwhile, Rule, Upstream
from tests.support.faults.scenarios import CHAIN, graph, instance


@pytest.mark.skipif(not WHOLE, reason="needs a control plane of its own: make faults")
@pytest.mark.parametrize("needs", [CHAIN, {}], ids=["update", "prune"])
async def test_a_server_that_restarts_is_waited_for(
    control_plane: ControlPlane, tmp_path: Path, needs: dict[str, str]
) -> None:
    """I1 to I4, I7."""
    with ControlPlane.start(tmp_path / "own") as server:
        async with Upstream(server) as upstream:
            lane = Lane(upstream, AuditLog(server.audit_log), plurals=("chains",))
            await lane.open()
            before = {"git": {"chain.json": graph(lane, {"z": "", **CHAIN}), "one.json": instance(lane)}}
            after = {"git": {"chain.json": graph(lane, {"z": "", **needs}), "one.json": instance(lane, text="two")}}
            wanted = essence(await brought_to(lane, before, after))
            await brought_to(lane, before)
            start, since = await lane.objects(), lane.audit.mark()
            await lane.commit(after)

            async def restart() -> None:
                restarts.append(asyncio.ensure_future(asyncio.to_thread(server.restart_apiserver)))

            restarts: list[asyncio.Future[None]] = []
            await lane.live(Rule(Meanwhile(restart), nth=3), wait=0.0)
            await asyncio.gather(*restarts)
            await lane.live()
            end = await lane.objects()
            events = [event for event in lane.audit.events(since=since, settle=False) if lane.token in event.uri]
            assert len(restarts) == 1
            assert violations(ObservedHistory.of(start, events), events, target=end) == []
            assert unplaced(start, end) == []
            assert essence(end) == wanted, differences(essence(end), wanted)
            assert await lane.quiet() == []


async def brought_to(lane: Lane, *commits: Commit) -> dict[PathKey, Object]:
    for commit in commits:
        await lane.commit(commit)
        await lane.live()
    return await lane.objects()
