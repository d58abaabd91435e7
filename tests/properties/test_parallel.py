"""What goes side by side: writes that do not depend on one another, as many as are allowed at once, counted in turns of the event loop."""

from __future__ import annotations

import asyncio

from applier.sandbox.wire import Request, Response
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.repositories import config_map, definition, instance

LATENCY = 100
"""Turns of the event loop that every write takes; all that are under way pass theirs together."""


class Slow(WitnessedCluster):
    """Counts turns and what is under way. Its client lets 16 requests go at once, lists aside."""

    def __init__(self) -> None:
        self.turns = self.under_way = self.most_under_way = 0
        super().__init__()

    async def _answer(self, request: Request) -> Response:
        if request.method != "GET":
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            for _ in range(LATENCY):
                await asyncio.sleep(0)
            self.under_way -= 1
        return await super()._answer(request)


def applied(*, levels: int, width: int, instances: int = 1) -> tuple[Slow, float]:
    """Instances of `levels` times `width` objects, each of which reads the one above it; and how many writes one after another that took."""
    resources = [
        config_map(f"n{level}x{column}", *([f"n{level - 1}x{column}"] if level else []))
        for level in range(levels)
        for column in range(width)
    ]
    files = {"grid.json": definition("Grid", resources)}
    with CheckedPlatform(Slow()) as platform:
        cluster = platform.cluster
        assert isinstance(cluster, Slow)
        platform.commit(files)
        platform.settle()
        counter = platform._loop.create_task(_count(cluster))
        platform.commit(files | {f"{n}.json": instance("Grid", f"grid-{n}") for n in range(instances)})
        before, cluster.most_under_way = cluster.turns, 0
        platform.settle()
        counter.cancel()
        assert len(platform.members()) == levels * width * instances
    return cluster, (cluster.turns - before) / LATENCY


async def _count(cluster: Slow) -> None:
    while True:
        cluster.turns += 1
        await asyncio.sleep(0)


def test_a_level_takes_as_long_as_one_of_its_members() -> None:
    """S0-4, S0-25: twelve times as many objects in as many levels take as long; twice as many levels take longer."""
    _, narrow = applied(levels=4, width=1)
    _, wide = applied(levels=4, width=12)
    _, deep = applied(levels=8, width=1)
    assert wide - narrow < 1
    assert 4 <= deep - narrow < 5


def test_requests_of_all_instances_together_are_bounded_by_one_number() -> None:
    """S0-4, S0-5: five instances could write sixty objects at once."""
    cluster, _ = applied(levels=1, width=12, instances=5)
    assert cluster.most_under_way == 16
