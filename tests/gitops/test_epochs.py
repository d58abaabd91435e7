"""The term of leadership on the parents of sets: who was overtaken without knowing it learns it before it writes (I6, threats-and-faults 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.leadership import LEASE_KEY, LEASE_TIMES, Leadership, NotLeading
from gitops.reconcile.context import ReconcileResult
from renderer import well_known
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE, OWN

SOURCE = f"{OWN}/source-platform"
INSTANCE = "/apis/g.test/v1/namespaces/default/links/a"
MEMBER = "/apis/apps/v1/namespaces/default/deployments/a-app"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/levelgate-system/leases/{LEASE_KEY.name}"


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        yield found


class Process:
    """One that leads, on purpose without the fence: here the epoch alone has to stop it. `writes` are the paths that its last pass wrote, `meanwhile`
    happens before the first of them.
    """

    def __init__(self, fleet: LinkPlatform, name: str) -> None:
        self.fleet, self.writes = fleet, list[str]()
        self.meanwhile: Callable[[], None] | None = None
        self.lead = Leadership(cluster_of(fleet.sandbox.answer), name, fleet.clock, LEASE_TIMES, fleet.clock.seconds)
        fleet.restart(self._door, lead=self.lead)
        self.reconciler = fleet.reconciler
        fleet.call(self.lead.acquire(lambda _: None, patient=False))

    def step(self) -> ReconcileResult:
        self.writes.clear()
        self.fleet.reconciler = self.reconciler
        return self.fleet.step()

    async def _door(self, request: Request) -> Response:
        if request.method != "GET" and "selfsubject" not in request.target:
            happens, self.meanwhile = self.meanwhile, None
            if happens:
                happens()
            self.writes.append(request.target.partition("?")[0])
        return await self.fleet.sandbox.answer(request)


def successor(fleet: LinkPlatform, name: str = "two") -> Process:
    """Another one leads, although the one before has not heard of it."""
    fleet.request("PATCH", LEASE_PATH, {"spec": {"holderIdentity": ""}}, MERGE)
    return Process(fleet, name)


def epoch(fleet: LinkPlatform, path: str) -> str:
    found: str = fleet.request("GET", path)["metadata"]["annotations"][well_known.EPOCH]
    return found


def settle(process: Process) -> None:
    for _ in range(6):
        process.step()
        process.fleet.ready(*process.fleet.at("one"))


def test_before_its_first_write_in_an_epoch_a_set_says_so_on_its_parent(fleet: LinkPlatform) -> None:
    """Only sets that are written say it, and each once."""
    fleet.push()
    settle(Process(fleet, "one"))
    assert (epoch(fleet, SOURCE), epoch(fleet, INSTANCE)) == ("1", "1")
    other = successor(fleet)
    other.step()
    assert other.writes == []
    fleet.request("DELETE", MEMBER)
    other.step()
    written = [path for path in other.writes if path in {INSTANCE, MEMBER}]
    assert written == [INSTANCE, MEMBER]
    assert (epoch(fleet, SOURCE), epoch(fleet, INSTANCE)) == ("1", "2")
    fleet.request("DELETE", MEMBER)
    other.step()
    assert [path for path in other.writes if path in {INSTANCE, MEMBER}] == [MEMBER]


def test_who_meets_a_later_epoch_stops_for_good(fleet: LinkPlatform) -> None:
    """I6: it has heard of nothing, and its clock (broken, say) forbids nothing."""
    fleet.push()
    first = Process(fleet, "one")
    settle(first)
    fleet.request("DELETE", MEMBER)
    successor(fleet).step()
    fleet.request("DELETE", MEMBER)
    with pytest.raises(NotLeading, match="two has taken the lease; this process no longer leads"):
        first.step()
    assert first.writes == []
    with pytest.raises(NotLeading):
        first.lead.check()


def test_who_is_overtaken_in_the_middle_of_a_pass_cannot_begin_another_set(fleet: LinkPlatform) -> None:
    """The version of the parent that it has seen is not there any more, so the server refuses; what it was to write stays as the other left it."""
    fleet.push()
    settle(Process(fleet, "one"))
    second = successor(fleet)

    def overtaken() -> None:
        fleet.request("PATCH", LEASE_PATH, {"spec": {"holderIdentity": "three", "leaseTransitions": 3}}, MERGE)
        fleet.request("PATCH", INSTANCE, {"metadata": {"annotations": {well_known.EPOCH: "3"}}}, MERGE)

    fleet.request("DELETE", MEMBER)
    second.meanwhile = overtaken
    second.step()
    assert MEMBER not in second.writes
    with pytest.raises(NotLeading):
        second.step()


def test_a_lease_that_was_deleted_begins_to_count_above_what_is_written(fleet: LinkPlatform) -> None:
    """Its count is gone with it, while the parents still carry that of before: who certainly holds it goes on above them."""
    fleet.push()
    settle(Process(fleet, "one"))
    settle(successor(fleet))
    fleet.request("DELETE", MEMBER)
    settle(successor(fleet, "three"))
    assert epoch(fleet, INSTANCE) == "3"
    fleet.request("DELETE", LEASE_PATH)
    last = Process(fleet, "four")
    assert last.lead.epoch == 1
    fleet.request("DELETE", MEMBER)
    last.step()
    assert (last.lead.epoch, epoch(fleet, INSTANCE)) == (4, "4")
    last.lead.check()
