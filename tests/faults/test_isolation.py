"""Instances with one of each kind of fault among them: all others get there as fast as without (I9, threat 23), in virtual time and in requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from applier.sandbox.faults import Delay, Fault, Refuse, Reset
from applier.sandbox.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.daemon.attention import Attention
from gitops.daemon.follow import Follower
from gitops.passes.known import Pass
from gitops.passes.reconcile import Reconciler
from gitops.source import Mirror
from renderer.catalog import load
from tests.faults.extent import WHOLE
from tests.faults.test_hour import Shaken
from tests.gitops.fleet import START, StillClock
from tests.gitops.test_operation import Committed
from tests.gitops.test_stories import BROKEN, in_the_way
from tests.gitops.virtual_time import VirtualClock, VirtualLoop

COUNT = 300 if WHOLE else 40
PUT_OFF = 3
SLOTS, LATENCY, LOOK = 4, 0.02, 0.1
"""Requests in flight, seconds that the server takes for one, and seconds between two looks of the kubelet."""
FAULTS = {
    "i00": "a spec that does not fit",
    "i01": "a file that cannot be read",
    "i02": "a Deployment that never gets ready",
    "i03": "a write that is refused",
    "i04": "a write whose outcome is not known",
    "i05": "a write at which the server fails",
    "i06": "an expression that fails",
    "i07": "an object that is somebody else's",
    "i08": "a write that takes long",
    "i09": "a write that the server puts off",
}


class Faulted(Shaken):
    """A server that takes its time for each request; what is committed has a file that cannot be read."""

    unreadable: str = ""

    def restart(self) -> None:
        self.cluster = cluster_of(self._door, concurrency=SLOTS)
        self.reconciler = Reconciler(self.cluster, "0", self.clock)

    async def _door(self, request: Request) -> Response:
        await asyncio.sleep(LATENCY)
        return await super()._door(request)

    def push(self, image: str = "", **rules: Any) -> None:
        super().push(image, **rules)
        if self.unreadable and self.catalog:
            data = {file: found.data for file, found in self.catalog.contents.items()}
            data[f"{self.unreadable}.json"] = b"{"
            self.catalog = load(data, source="platform", revision=self.catalog.revision)


@dataclass
class Rollout:
    """From nothing to all of `names`, with these faults; `settled` is when each was, in seconds, and `requests` what that took."""

    faults: bool
    names: tuple[str, ...] = tuple(f"i{number:02}" for number in range(COUNT))
    settled: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    passes: int = 0

    def run(self) -> None:
        loop = VirtualLoop()
        clock = cast(StillClock, VirtualClock(loop, START))
        with Faulted(names=self.names, more=BROKEN, clock=clock, new_loop=lambda: loop) as self.fleet:
            if self.faults:
                self._break()
            self.fleet.push()
            self.fleet.call(self._live())
            self.met = Counter(
                type(fault.kind) for fault in self.fleet.faulty.met if fault.name in {"i08-app", "i09-app"}
            )

    def _break(self) -> None:
        self.fleet.written = {"i00": {"text": ["no"]}, "i06": {"text": "broken"}}
        in_the_way(self.fleet, "i07")
        self.fleet.unreadable = "i01"
        self.fleet.faulty.faults = [
            Fault(Refuse(403), verb="patch", name="i03-app"),
            Fault(Reset(carried_out=False), verb="patch", name="i04-app"),
            Fault(Refuse(500), verb="patch", name="i05-app"),
            Fault(Delay(25), verb="patch", name="i08-app"),
            Fault(Refuse(429, retry_after=PUT_OFF), verb="patch", name="i09-app"),
        ]

    async def _live(self) -> None:
        mirror = cast(Mirror, Committed(self.fleet))
        follower = Follower(
            {"platform": mirror},
            self.fleet.reconciler,
            self.fleet.clock,
            elapsed=asyncio.get_running_loop().time,
            max_concurrent=4,
        )
        async with Attention(self.fleet.cluster, follower.wake, lambda _: None) as follower.attention:
            follower.passed = self._passed
            running = asyncio.ensure_future(follower.forever())
            while not self._watch() and asyncio.get_running_loop().time() < 600:  # noqa: ASYNC110 - a kubelet's look
                await asyncio.sleep(LOOK)
            self.requests = sum(self.fleet.cluster.requests.values())  # type: ignore[attr-defined]
            self.passes = 0
            await asyncio.sleep(60)
            follower.stop.set()
            await running

    def _passed(self, _: Pass) -> None:
        self.passes += 1
        assert self.passes < 100, "it runs in circles"

    def _watch(self) -> bool:
        """The kubelet's work, and who has settled; True when all have that can."""
        self._kubelet()
        now = asyncio.get_running_loop().time()
        for name, why in self.fleet.waits().items() if self.fleet.deployed("one") else ():
            if why == "Settled":
                self.settled.setdefault(name, now)
        return self.settled.keys() >= set(self.names) - FAULTS.keys()

    def _kubelet(self) -> None:
        for one in self.fleet.request("GET", "/apis/apps/v1/namespaces/default/deployments")["items"]:
            name = one["metadata"]["name"].removesuffix("-app")
            if not one.get("status") and not (self.faults and name == "i02"):
                self.fleet.ready(name)


def test_i9_the_others_are_as_fast_as_ever() -> None:
    """I9; and I11: what fails costs looks of its own, half as many requests again at the most, and in a minute after that, while the faults last,
    it is tried again ever more rarely.
    """
    normal, faulted = Rollout(faults=False), Rollout(faults=True)
    normal.run()
    faulted.run()
    good = set(normal.names) - FAULTS.keys()
    assert not faulted.settled.keys() & FAULTS.keys()
    assert max(faulted.settled[name] for name in good) <= 1.2 * max(normal.settled[name] for name in good)
    assert faulted.requests <= 1.5 * normal.requests
    assert faulted.passes < 40
    assert faulted.met[Delay] == 1, "it was written again although nobody had answered yet"
    assert 4 <= faulted.met[Refuse] <= 60 / PUT_OFF, "the server said when to come again"


@pytest.mark.parametrize(("takes", "wanted"), [(3.0, True), (60.0, False)])
def test_a_write_that_is_under_way_at_the_end_is_waited_for_a_while(takes: float, wanted: bool) -> None:
    """A graceful stop takes less than ten seconds, whatever the server does; what it answers by then is heard."""
    loop = VirtualLoop()
    heard: list[str] = []
    clock = cast(StillClock, VirtualClock(loop, START))
    with Faulted(names=("a", "b"), clock=clock, new_loop=lambda: loop) as fleet:

        async def story() -> None:
            follower = Follower(
                {"platform": cast(Mirror, Committed(fleet))}, fleet.reconciler, clock, elapsed=loop.time
            )
            running = asyncio.ensure_future(follower.forever())
            while not fleet.faulty.met:  # noqa: ASYNC110 - the server's doing
                await asyncio.sleep(LOOK)
            begun = loop.time()
            follower.stop.set()
            follower.hint()
            await running
            assert loop.time() - begun < 10

        fleet.reconciler.report = lambda result: heard.append(result.key.name)
        fleet.faulty.faults = [Fault(Delay(takes), verb="patch", name="a-app")]
        fleet.push()
        fleet.call(story())
        assert ("a-app" in heard, "b-app" in heard) == (wanted, True)
