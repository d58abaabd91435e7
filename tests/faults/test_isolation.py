"""Instances with one of each kind of fault among them: all others get there as fast as without (I9, threat 23), in virtual time and in requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from applier.cluster import Cluster, Object
from applier.read.pending_reads import MIN_ANSWER_TIMEOUT_SECONDS
from applier.sandbox.endpoints.transport import RequestHandler, cluster_of
from applier.sandbox.wire import Request, Response
from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.source import Mirror
from renderer.catalog.catalog import load
from tests.support.clock import START, LoopClock, StillClock, VirtualLoop
from tests.support.fault_injector import ConnectionReset, DelayedRequest, InjectedFault, RefusedRequest
from tests.support.faults.extent import WHOLE
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import CommittedMirror
from tests.support.rollouts.disturbances import BROKEN, in_the_way

COUNT = 300 if WHOLE else 40
PUT_OFF = 3
SLOTS, LATENCY, LOOK = 4, 0.05, 0.1
"""Requests in flight, seconds that the server takes for one, and seconds between two looks of the kubelet."""
HANGS = 1e6
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
    "i10": "a status whose write takes long",
    "i11": "a status that the server puts off",
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plain", "namespace": "default"}}
"""Of a kind of which no list is ever answered."""


class Faulted(LinkPlatform):
    """A server that takes its time for each request; what is committed has a file that cannot be read."""

    unreadable: str = ""

    def connect(self, door: RequestHandler) -> Cluster:
        return cluster_of(door, concurrency=SLOTS)

    async def answer(self, request: Request) -> Response:
        await asyncio.sleep(LATENCY)
        return await super().answer(request)

    def push(self, image: str = "", /, **rules: Any) -> None:
        super().push(image, **rules)
        if self.unreadable and self.catalog:
            data = {file: found.data for file, found in self.catalog.contents.items()}
            data[f"{self.unreadable}.json"] = b"{"
            self.catalog = load(data, source="platform", commit=self.catalog.commit)

    async def live(self, seconds: float) -> None:
        """So much time goes by, in which all that runs the newest image becomes ready."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            self.ready(*self.at(self.image))
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def following(fleet: LinkPlatform, passed: Callable[[ReconcileResult], None]) -> AsyncIterator[Follower]:
    """A daemon at work, until it is stopped in good order."""
    follower = Follower(
        {"platform": cast(Mirror, CommittedMirror(fleet))},
        fleet.reconciler,
        fleet.clock,
        elapsed=asyncio.get_running_loop().time,
        max_concurrent=4,
    )
    async with EventRouter(fleet.reconciler, follower.enqueue, lambda _: None) as follower.event_router:
        follower.on_pass = passed
        running = asyncio.ensure_future(follower.run_forever())
        try:
            yield follower
        finally:
            follower.stop.set()
            follower.reconcile_all()
            await running


@dataclass
class IsolatedRollout:
    """From nothing to all of `names`, with these faults; `settled` is when each was, in seconds, and `requests` what that took."""

    faults: bool
    names: tuple[str, ...] = tuple(f"i{number:02}" for number in range(COUNT))
    settled: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    passes: int = 0

    def run(self) -> None:
        loop = VirtualLoop()
        clock = cast(StillClock, LoopClock(loop, START))
        plain = {"plain": SECRET}
        with Faulted(names=self.names, more=BROKEN, plain=plain, clock=clock, new_loop=lambda: loop) as self.fleet:
            if self.faults:
                self._break()
            self.fleet.push()
            self.fleet.call(self._live())
            self.met = Counter((fault.plural, fault.name) for fault in self.fleet.faulty.injected)

    def _break(self) -> None:
        self.fleet.written = {"i00": {"text": ["no"]}, "i06": {"text": "broken"}}
        in_the_way(self.fleet, "i07")
        self.fleet.unreadable = "i01"
        self.fleet.faulty.faults = [
            InjectedFault(RefusedRequest(403), verb="patch", name="i03-app"),
            InjectedFault(ConnectionReset(carried_out=False), verb="patch", name="i04-app"),
            InjectedFault(RefusedRequest(500), verb="patch", name="i05-app"),
            InjectedFault(DelayedRequest(25), verb="patch", plural="deployments", name="i08-app"),
            InjectedFault(DelayedRequest(25), verb="patch", plural="configmaps", name="i08-app"),
            InjectedFault(RefusedRequest(429, retry_after=PUT_OFF), verb="patch", name="i09-app"),
            InjectedFault(DelayedRequest(HANGS), verb="list", plural="secrets"),
            InjectedFault(DelayedRequest(25), verb="patch", name="i10", subresource="status"),
            InjectedFault(RefusedRequest(429, retry_after=PUT_OFF), verb="patch", name="i11", subresource="status"),
            InjectedFault(DelayedRequest(HANGS), verb="patch", plural="events"),
        ]

    async def _live(self) -> None:
        async with following(self.fleet, self._passed):
            while not self._watch() and asyncio.get_running_loop().time() < 600:  # noqa: ASYNC110 - a kubelet's look
                await asyncio.sleep(LOOK)
            self.requests = sum(self.fleet.cluster.requests.values())  # type: ignore[attr-defined]
            self.passes = 0
            await asyncio.sleep(60)

    def _passed(self, _: ReconcileResult) -> None:
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
    it is tried again ever more rarely: fewer than fifty passes more than without. That a kind does not answer has to be found out, once.
    """
    normal, faulted = IsolatedRollout(faults=False), IsolatedRollout(faults=True)
    normal.run()
    faulted.run()
    good = set(normal.names) - FAULTS.keys()
    assert not faulted.settled.keys() & FAULTS.keys()
    lasted = max(faulted.settled[name] for name in good) - MIN_ANSWER_TIMEOUT_SECONDS
    assert lasted <= 1.2 * max(normal.settled[name] for name in good)
    assert faulted.requests <= 1.5 * normal.requests
    assert faulted.passes < normal.passes + 50
    assert faulted.met["deployments", "i08-app"] == 1, "it was written again although nobody had answered yet"
    assert 1 <= faulted.met["*", "i10"] <= 60 / 25 + 1, "it was written again although nobody had answered yet"
    assert all(4 <= faulted.met["*", name] <= 60 / PUT_OFF for name in ("i09-app", "i11")), (
        "the server said when to come again"
    )


@pytest.mark.parametrize(("takes", "wanted"), [(3.0, True), (60.0, False)])
def test_a_write_that_is_under_way_at_the_end_is_waited_for_a_while(takes: float, wanted: bool) -> None:
    """A graceful stop takes less than ten seconds, whatever the server does; what it answers by then is heard."""
    loop = VirtualLoop()
    heard: list[str] = []
    clock = cast(StillClock, LoopClock(loop, START))
    with Faulted(names=("a", "b"), clock=clock, new_loop=lambda: loop) as fleet:

        async def story() -> None:
            follower = Follower(
                {"platform": cast(Mirror, CommittedMirror(fleet))}, fleet.reconciler, clock, elapsed=loop.time
            )
            running = asyncio.ensure_future(follower.run_forever())
            while not fleet.faulty.injected:  # noqa: ASYNC110 - the server's doing
                await asyncio.sleep(LOOK)
            begun = loop.time()
            follower.stop.set()
            follower.reconcile_all()
            await running
            assert loop.time() - begun < 10

        fleet.reconciler.report = lambda result: heard.append(result.key.name)
        fleet.faulty.faults = [InjectedFault(DelayedRequest(takes), verb="patch", name="a-app")]
        fleet.push()
        fleet.call(story())
        assert ("a-app" in heard, "b-app" in heard) == (wanted, True)


@pytest.mark.parametrize("fault", [DelayedRequest(300), RefusedRequest(503), RefusedRequest(429, retry_after=60)])
@pytest.mark.parametrize("since", [0.5, 2.0, 20.0])
def test_who_stops_waits_for_no_server_that_does_not_serve(
    fault: DelayedRequest | RefusedRequest, since: float
) -> None:
    """A graceful stop takes less than ten seconds also where a pass is in the middle of what cannot be had, `since` seconds after the start."""
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    with Faulted(names=("a", "b"), clock=clock, new_loop=lambda: loop) as fleet:

        async def story() -> None:
            async with following(fleet, lambda _: None) as follower:
                await asyncio.sleep(since)
                fleet.faulty.faults = [InjectedFault(fault)]
                fleet.push("two")
                follower.poll("platform")
                await asyncio.sleep(1)
                begun = loop.time()
            assert loop.time() - begun < 8, "two more are for receivers of notifications and for the Lease"

        fleet.push()
        fleet.call(story())


def service(name: str, text: str) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": {"text": text}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def there(fleet: LinkPlatform) -> set[str]:
    """What the second commit says and is there by now."""

    def items(path: str) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in fleet.request("GET", f"{path}")["items"]}

    services, secrets = items("/api/v1/namespaces/default/services"), items("/api/v1/namespaces/default/secrets")
    maps = items("/api/v1/namespaces/default/configmaps")
    found = {
        "services": services["plain"]["metadata"]["labels"]["text"] == "two",
        "secrets": bool(secrets["plain"].get("data")),
        "links": fleet.at("two") == ["a", "b"],
        "configmaps": [maps[f"{name}-app"]["data"]["image"] for name in fleet.names] == ["two", "two"],
        "gone": "going" not in services,
    }
    return {name for name, it_is in found.items() if it_is}


@pytest.mark.parametrize(
    ("plural", "left"),
    [("secrets", {"secrets"}), ("configmaps", {"configmaps"}), ("links", {"links", "configmaps"})],
)
def test_a_kind_that_stops_answering_is_left_alone_until_it_answers(plural: str, left: set[str]) -> None:
    """I9, I2: be it what instances consist of or the instances themselves, nothing of it is judged, nothing at all is deleted on an incomplete view,
    and everything else goes on. Then it gets there, however late the server answers.
    """
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    plain = {"secret": SECRET, "service": service("plain", "one"), "going": service("going", "one")}
    with Faulted(names=("a", "b"), plain=plain, gates=[], clock=clock, new_loop=lambda: loop) as fleet:

        async def story() -> None:
            async with following(fleet, lambda _: None) as follower:
                await fleet.live(20)
                assert fleet.waits() == {"a": "Settled", "b": "Settled"}
                fleet.faulty.faults = [InjectedFault(DelayedRequest(40), verb="list", plural=plural, namespace="")]
                fleet.plain = {"secret": {**SECRET, "stringData": {"text": "two"}}, "service": service("plain", "two")}
                fleet.push("two")
                follower.poll("platform")
                await fleet.live(10)
                assert there(fleet) == {"services", "secrets", "links", "configmaps"} - left
                fleet.faulty.faults = ()
                await fleet.live(60)
                assert there(fleet) == {"services", "secrets", "links", "configmaps", "gone"}
                assert fleet.waits() == {"a": "Settled", "b": "Settled"}

        fleet.push()
        fleet.call(story())


APIS = ("batch", "policy", "networking.k8s.io", "autoscaling", "storage.k8s.io", "rbac.authorization.k8s.io")


def test_many_kinds_that_do_not_answer_take_no_places_of_what_does() -> None:
    """I9: API servers of their own accept everything and answer nothing, neither lists nor the lists with which watches begin."""
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    with Faulted(
        names=(), plain={"secret": SECRET, "service": service("plain", "one")}, clock=clock, new_loop=lambda: loop
    ) as fleet:

        async def story() -> None:
            kinds = [one for one in (await fleet.cluster.discover()).resources.values() if one.group in APIS]
            assert len(kinds) > 3 * SLOTS
            fleet.faulty.faults = [InjectedFault(DelayedRequest(30), verb="list", plural=one.plural) for one in kinds]
            async with following(fleet, lambda _: None) as follower:
                await asyncio.sleep(15)
                assert fleet.request("GET", "/api/v1/namespaces/default/secrets/plain")
                fleet.plain = {"secret": SECRET, "service": service("plain", "two")}
                fleet.push()
                follower.poll("platform")
                await asyncio.sleep(3)
                found = fleet.request("GET", "/api/v1/namespaces/default/services/plain")
                assert found["metadata"]["labels"]["text"] == "two"

        fleet.push()
        fleet.call(story())


RECORDS = {
    "rollout": InjectedFault(DelayedRequest(25), verb="patch", plural="configmaps", name=f"rollout-links.{GROUP}"),
    "rollout refused": InjectedFault(
        RefusedRequest(403), verb="patch", plural="configmaps", name=f"rollout-links.{GROUP}"
    ),
    "revision": InjectedFault(DelayedRequest(25), verb="patch", plural="controllerrevisions", name="*-r2"),
    "revision refused": InjectedFault(RefusedRequest(403), verb="patch", plural="controllerrevisions", name="*-r2"),
}


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_recorded_before_it_is_acted_on_is_waited_for_by_who_rests_on_it_alone(record: str) -> None:
    """I9; and I1 of rollouts: nothing moves on a decision that is not on record. Others go on, drift is healed, and no pass ends."""
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    plain = {"secret": SECRET, "service": service("plain", "one"), "going": service("going", "one")}
    with Faulted(names=("a", "b"), plain=plain, clock=clock, new_loop=lambda: loop) as fleet:

        async def story() -> None:
            async with following(fleet, lambda _: None) as follower:
                follower.notice = lambda source, text: told.append((source, text))
                await fleet.live(20)
                assert fleet.waits() == {"a": "Settled", "b": "Settled"}
                fleet.faulty.faults = [RECORDS[record]]
                fleet.plain = {"secret": {**SECRET, "stringData": {"text": "two"}}, "service": service("plain", "two")}
                fleet.push("two")
                follower.poll("platform")
                await fleet.live(3)
                assert there(fleet) == {"services", "secrets", "gone"}
                fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/a-app")
                await fleet.live(3)
                assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/a-app")["data"]["image"] == "one"
                fleet.faulty.faults = ()
                await fleet.live(90)
                assert there(fleet) == {"services", "secrets", "gone", "links", "configmaps"}
                assert fleet.waits() == {"a": "Settled", "b": "Settled"}

        told: list[tuple[str, str]] = []
        fleet.push()
        fleet.call(story())
        assert not [text for source, text in told if source == "cluster"]


def test_a_record_of_a_source_that_is_written_slowly_holds_up_no_commit() -> None:
    """I9, I12: they are carried out meanwhile; once the record is answered it is written again, to say the last one, and then rests."""
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    with Faulted(names=("a",), plain={"service": service("plain", "one")}, clock=clock, new_loop=lambda: loop) as fleet:

        def label() -> str:
            found = fleet.request("GET", "/api/v1/namespaces/default/services/plain")
            return cast(str, found["metadata"]["labels"]["text"])

        async def story() -> None:
            async with following(fleet, lambda _: None) as follower:
                await asyncio.sleep(20)
                slow = InjectedFault(DelayedRequest(12), verb="patch", plural="configmaps", name="source-platform")
                fleet.faulty.faults = [slow]
                for text in ("two", "three"):
                    fleet.plain = {"service": service("plain", text)}
                    fleet.push()
                    follower.poll("platform")
                    await asyncio.sleep(4)
                    assert label() == text
                assert len(fleet.faulty.injected) == 1
                await asyncio.sleep(40)
                assert fleet.request("GET", SOURCE)["data"]["own"] == fleet.state.catalog.commit
                assert len(fleet.faulty.injected) == 2

        fleet.push()
        fleet.call(story())


SOURCE = "/api/v1/namespaces/levelgate-system/configmaps/source-platform"


def kinds_of(fleet: LinkPlatform) -> list[str]:
    """What the record of the source names."""
    annotations = fleet.request("GET", SOURCE)["metadata"]["annotations"]
    return cast(str, annotations["applyset.kubernetes.io/contains-group-kinds"]).split(",")


def settle(fleet: LinkPlatform) -> None:
    for _ in range(5):
        fleet.step()


def test_a_list_that_fails_before_a_record_shrinks_keeps_the_record_and_ends_no_pass() -> None:
    """I1, I9: whether members of what it is to lose are left is asked anew, and not knowing it is no reason to stop."""
    with Faulted(names=("a",), plain={"secret": SECRET}) as fleet:
        fleet.push()
        settle(fleet)
        fleet.plain = {}
        fleet.push()
        fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="list", plural="secrets", skip=2)]
        found = fleet.step()
        assert [one.action for one in found.results if one.error] == ["kept"]
        assert "Secret" in kinds_of(fleet)
        fleet.faulty.faults = ()
        settle(fleet)
        assert "Secret" not in kinds_of(fleet)


def test_a_source_without_a_record_may_have_members_of_a_kind_that_cannot_be_read() -> None:
    """I1, I9: where members are is looked for among all kinds; one that does not answer is in the new record until it does, and stops nothing."""
    with Faulted(names=("a",), plain={"secret": SECRET}) as fleet:
        fleet.push()
        settle(fleet)
        fleet.request("DELETE", SOURCE)
        fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="list", plural="secrets")]
        fleet.plain = {}
        fleet.push()
        settle(fleet)
        assert "Secret" in kinds_of(fleet)
        assert fleet.request("GET", "/api/v1/namespaces/default/secrets")["items"]
        fleet.faulty.faults = ()
        settle(fleet)
        assert "Secret" not in kinds_of(fleet)
        assert not fleet.request("GET", "/api/v1/namespaces/default/secrets")["items"]
