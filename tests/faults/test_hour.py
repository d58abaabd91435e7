"""An hour of the daemon's life in virtual time: whatever happens, once it is over the cluster is as Git says, and nothing is written any more (I7).

Nothing is looked at but what an event, a commit, a timer of a gate or the daemon's own looks wake: there is no resync, which would hide what
somebody forgot to wake.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import pytest

from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.errors import Unreachable
from gitops.reconcile.requeue import LAST_LOOK_WATCHED
from gitops.source import Mirror
from tests.support.clock import START, LoopClock, StillClock, VirtualLoop
from tests.support.fault_injector import ConnectionReset, EndedWatch, InjectedFault, RefusedRequest
from tests.support.faults.extent import WHOLE
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import CommittedMirror
from tests.support.platform import CONFIG_MAPS
from tests.support.properties.happenings import LINKS, happens, state_of

NAMES = ("a", "b", "c", "d")
LEAVING = frozenset({"c", "d"})
HOUR = 3600.0
POLLED = 30.0
QUIET = 1500.0
"""Seconds in which everything has to come to its end: two windows, and rollouts of one instance after the other."""

EVENTS = ("delete", "edit", "label", "commit", "commit", "image", "break", "mend")
WORDS = ("hold", "suspend", "policy", "leave", "return", "gone", "move", "rename")
"""What people order, and how files and definitions change their names and places."""
SHOCKS = ("cut", "refuse", "reset", "git", "restart", "kill")

NEEDS = {"config.kubernetes.io/depends-on": f"{GROUP}/namespaces/default/Link/a"}
WINDOW = {
    "kind": "Allow",
    "timeZone": "UTC",
    "schedule": {"cron": "*/10 * * * *"},
    "duration": "5m",
    "selector": {"rgds": [f"links.{GROUP}"]},
}
POLICY = {"selector": {"rgds": [f"links.{GROUP}"]}, "shape": {"linear": {"n": 1}}, "progressDeadline": "2h"}
SHAPES = ({"linear": {"n": 1}}, {"linear": {"n": "50%"}}, {"exponential": {"factor": 2}})


class Severed(CommittedMirror):
    """Nothing can be read of it for a while."""

    lost = False

    def list_refs(self, *names: str) -> dict[str, str]:
        if self.lost:
            raise Unreachable("https://git.test", "no answer")
        return super().list_refs(*names)


@dataclass
class MovedPlatform(LinkPlatform):
    """A platform whose instances have their files in `folder`, and whose definition is named `called`."""

    folder: str = ""
    called: str = f"links.{GROUP}"

    def _files(self) -> dict[str, str]:
        files = {f"{self.folder}{name}": text for name, text in super()._files().items()}
        definition = json.loads(files.pop(f"{self.folder}link.json"))
        definition["metadata"]["name"] = self.called
        return {**files, "link.json": json.dumps(definition)}


@dataclass
class Hour:
    """A fleet whose daemon runs; `broken` are instances whose Deployments do not get ready. In a `calm` one no window, no fault and no restart wakes
    the daemon to look at everything.
    """

    seed: int
    calm: bool
    broken: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def live(self) -> None:
        loop = VirtualLoop()
        clock = cast(StillClock, LoopClock(loop, START))
        with MovedPlatform(names=NAMES, clock=clock, new_loop=lambda: loop) as self.fleet:
            self.fleet.written = {"b": {"metadata": {"annotations": NEEDS}}}
            self.mirror = Severed(self.fleet)
            self.fleet.push(rolling=POLICY)
            self.fleet.call(self._hour())

    async def _hour(self) -> None:
        others = [asyncio.ensure_future(self._kubelet()), asyncio.ensure_future(self._polls())]
        self._start()
        await asyncio.sleep(60)
        if not self.calm:
            self.fleet.push(hours=WINDOW)
        while asyncio.get_running_loop().time() < (HOUR / 4 if self.calm else HOUR):
            await asyncio.sleep(self.chance.choice([0.0, 0.3, 5.0, 90.0, 120.0]))
            await self._something()
        self.mirror.lost, self.fleet.faulty.faults = False, ()
        self.broken.clear()
        self._over()
        await asyncio.sleep(QUIET)
        if self.calm:
            await self._at_once()
        await self._stop()
        for one in others:
            one.cancel()
        self._is_as_git_says()
        await self._stays()

    async def _at_once(self) -> None:
        """One gets ready again after all have long waited for it: they go on because of that, not because the daemon looks around some day."""
        self.broken.add("a")
        await asyncio.sleep(10)
        self._change("b")
        await asyncio.sleep(self.chance.uniform(5, 10) * LAST_LOOK_WATCHED)
        assert self.fleet.request("GET", f"{LINKS}/b")["spec"]["text"] != self.fleet.written["b"]["text"]
        self.broken.clear()
        await asyncio.sleep(LAST_LOOK_WATCHED / 4)

    # ---- what happens

    async def _something(self) -> None:
        what = self.chance.choice((*EVENTS, *WORDS) if self.calm else (*EVENTS, *WORDS, *SHOCKS))
        name = self.chance.choice(NAMES)
        self.log.append(f"{asyncio.get_running_loop().time():.1f} {what} {name}")
        match what:
            case "image":
                self.fleet.push(f"image-{self.fleet.commits}")
                self.follower.poll("platform")
            case "commit":
                self._change(name)
            case "break":
                self.broken.add(name)
            case "mend":
                self.broken.clear()
            case "hold" | "suspend" if self.exists(name):
                self.fleet.annotate(name, **{what: "INC-7" if self.chance.random() < 0.6 else None})
            case "policy":
                self._pushed(rolling={**POLICY, "shape": self.chance.choice(SHAPES)})
            case "leave" if name in LEAVING:
                self.fleet.names = tuple(one for one in self.fleet.names if one != name)
                self._pushed()
            case "return":
                self._return()
            case "gone" if self.exists(name):
                self.fleet.request("DELETE", f"{LINKS}/{name}")
            case "move":
                self.fleet.folder = f"folder-{self.fleet.commits}/"
                self._pushed()
            case "rename":
                self.fleet.called = self.chance.choice([f"links.{GROUP}", f"chains.{GROUP}"])
                self._pushed()
            case "cut":
                self.fleet.faulty.faults = [InjectedFault(EndedWatch(self.chance.randrange(3)), verb="watch", times=5)]
            case "refuse":
                self.fleet.faulty.faults = [
                    InjectedFault(RefusedRequest(503), verb=self.chance.choice(["list", "patch", "watch"]), times=9)
                ]
            case "reset":
                self.fleet.faulty.faults = [
                    InjectedFault(ConnectionReset(self.chance.random() < 0.5), verb="patch", times=3)
                ]
            case "git":
                self.mirror.lost = not self.mirror.lost
            case "restart":
                await self._stop()
                self._start()
            case "kill":
                for _ in range(self.chance.randrange(400)):
                    await asyncio.sleep(0)
                self.running.cancel()
                await asyncio.gather(self.running, return_exceptions=True)
                self._start()
            case _ if self.exists(name):
                happens(self.fleet, what, name)

    def _change(self, name: str) -> None:
        more = {"metadata": {"annotations": NEEDS}} if name == "b" else {}
        self.fleet.written = {**self.fleet.written, name: {"text": f"text {self.fleet.commits}", **more}}
        self.fleet.push()
        self.follower.poll("platform")

    def _pushed(self, **rules: Mapping[str, Any]) -> None:
        self.fleet.push(**rules)
        self.follower.poll("platform")

    def _return(self) -> None:
        self.fleet.names = NAMES
        self._pushed()

    def _over(self) -> None:
        """Nobody orders anything any more."""
        self.fleet.called = f"links.{GROUP}"
        self._return()
        for name in filter(self.exists, NAMES):
            self.fleet.annotate(name, hold=None, suspend=None)

    def exists(self, name: str) -> bool:
        return any(one["metadata"]["name"] == name for one in self.fleet.request("GET", LINKS)["items"])

    # ---- who is at work

    def _start(self) -> None:
        self.fleet.restart()
        mirrors = {"platform": cast(Mirror, self.mirror)}
        loop = asyncio.get_running_loop()
        self.follower = Follower(mirrors, self.fleet.reconciler, self.fleet.clock, elapsed=loop.time)
        self.follower.set_timer = self._timer
        self._due: asyncio.TimerHandle | None = None
        self.running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async with EventRouter(
            self.fleet.reconciler, self.follower.enqueue, lambda _: None
        ) as self.follower.event_router:
            await self.follower.run_forever()

    def _timer(self, moment: datetime | None) -> None:
        if self._due:
            self._due.cancel()
        if moment:
            wait = (moment - self.fleet.clock.now()).total_seconds()
            self._due = asyncio.get_running_loop().call_later(max(wait, 0.0), self.follower.reconcile_all)

    async def _stop(self) -> None:
        self.follower.stop.set()
        await self.running

    async def _polls(self) -> None:
        while True:
            await asyncio.sleep(POLLED)
            self.follower.poll("platform")

    async def _kubelet(self) -> None:
        """Deployments become ready three seconds after they were changed, but for those that are broken; told where it is news alone."""
        path = "/apis/apps/v1/namespaces/default/deployments"
        while True:
            await asyncio.sleep(3)
            for one in self.fleet.request("GET", path)["items"]:
                name, status = one["metadata"]["name"].removesuffix("-app"), one.get("status") or {}
                ready = name not in self.broken
                told = status.get("observedGeneration"), status.get("availableReplicas", 0) == 1
                if told != (one["metadata"]["generation"], ready):
                    self.fleet.ready(name, ready=ready)

    # ---- how it ends

    def _is_as_git_says(self) -> None:
        fleet = self.fleet
        assert fleet.waits() == dict.fromkeys(NAMES, "Settled"), self.log
        assert fleet.at(fleet.image) == list(NAMES), self.log
        for one in fleet.request("GET", LINKS)["items"]:
            wanted = fleet.written.get(one["metadata"]["name"], {}).get("text", "one")
            assert one["spec"]["text"] == wanted, self.log
        assert {f"{name}-app" for name in NAMES} <= {
            one["metadata"]["name"] for one in fleet.request("GET", CONFIG_MAPS)["items"]
        }
        assert len(self.follower.queue) == 0

    async def _stays(self) -> None:
        """Five passes of a process that remembers nothing, and no write; what is there is what such a process wants."""
        states = await self.follower.fetch()
        self.fleet.restart()
        before = state_of(self.fleet)
        await self.fleet.reconciler.reconcile(states)
        assert state_of(self.fleet) == before, self.log
        writes = self.fleet.writes
        for _ in range(5):
            await self.fleet.reconciler.reconcile(states)
        assert self.fleet.writes == writes, self.log


@pytest.mark.parametrize("calm", [False, True], ids=["shaken", "calm"])
@pytest.mark.parametrize("seed", range(8 if WHOLE else 1))
def test_i7_an_hour_of_anything_ends_as_git_says(seed: int, *, calm: bool) -> None:
    """`make faults` lives through more of them."""
    Hour(seed, calm).live()
