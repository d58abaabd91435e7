"""Objects that others write all the time: conditions on a deletion must not keep it from ever being carried out."""

from __future__ import annotations

import asyncio

from applier.execute.executor import MAX_DELETE_CONFLICTS
from tests.support.faults.lane import Lane
from tests.support.faults.table import assert_settles, deleted, platform, reference, settled


async def test_an_object_that_is_written_without_pause_is_deleted_all_the_same(lane: Lane) -> None:
    """Open point "resourceVersion preconditions on busy objects" (I4, I7): after three conflicts, each followed by a look that proves it ours, the
    uid has to do.
    """
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    await settled(lane, platform(lane))
    busy, count = lane.config_map("one-d"), 0

    async def write() -> None:
        nonlocal count
        while (await lane.patch(busy, {"metadata": {"annotations": {"test.example/beat": str(count)}}})).status == 200:
            count += 1

    beating = asyncio.create_task(write())
    since = lane.audit.mark()
    await lane.commit(platform(lane, {}))
    life = await lane.live()
    beating.cancel()
    assert life.error is None
    assert count
    tried = deleted(lane, since)
    assert 1 <= tried.count("one-d") <= MAX_DELETE_CONFLICTS + 1
    assert tried[tried.count("one-d") :] == ["one-c", "one-b", "one-a"]
    await assert_settles(lane, wanted)
