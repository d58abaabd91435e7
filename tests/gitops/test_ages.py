"""What is judged by its age, on a clock of the test's own: what is told of it, and that somebody looks again when that changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from applier.sandbox.wire import Request, Response
from gitops.daemon.follower import Follower
from gitops.explain.tree import read_tree, walk
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from gitops.source import Mirror
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import CommittedMirror, operating
from tests.support.platform import MERGE
from tests.support.properties.repositories import widgets

CRD = widgets("example.org", {"x-kubernetes-preserve-unknown-fields": True})
NAME = {"name": "${schema.metadata.name}"}
WIDGET = {"id": "widget", "template": {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": NAME}}
CLAIM = {
    "id": "claim",
    "template": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": NAME,
        "spec": {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
}
GRACE = timedelta(seconds=30)


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b"), gates=[]) as found:
        found.start()
        yield found


def with_widgets(fleet: LinkPlatform) -> None:
    """A commit by which each instance has a Widget, of which nobody writes a status."""
    fleet.plain, fleet.more = {"crd": CRD}, [WIDGET]
    fleet.push()


def healthy(fleet: LinkPlatform, name: str = "a") -> str:
    found: str = next(one for one in fleet.status(name)["conditions"] if one["type"] == "Healthy")["status"]
    return found


def test_a_custom_resource_without_status_is_healthy_after_a_while(fleet: LinkPlatform) -> None:
    """Health: InProgress for 30 s of grace, then Current; the pass says when to look again, and looking costs no request and no write more."""
    with_widgets(fleet)
    for _ in range(4):
        begun = fleet.step()
    assert healthy(fleet) == "False"
    assert fleet.status("a")["state"] == "ACTIVE"  # what depends on it may start
    assert begun.plan.recheck_at == fleet.clock.moment + GRACE
    before = fleet.writes
    assert fleet.step(GRACE - timedelta(seconds=1)).plan.recheck_at == fleet.clock.moment + timedelta(seconds=1)
    assert (healthy(fleet), fleet.writes) == ("False", before)
    assert fleet.step(timedelta(seconds=1)).plan.recheck_at is None
    assert healthy(fleet) == "True"
    fleet.step()
    before = fleet.writes
    assert StateCounts.of_all(fleet.step().ledger).state is DisplayState.SETTLED
    assert fleet.writes == before


def test_the_daemon_looks_again_when_an_age_makes_the_difference(fleet: LinkPlatform) -> None:
    """By a timer for the instances, while nothing is asked of anything else; that ends their wave, which is for a look at everything."""
    with_widgets(fleet)
    for _ in range(4):
        fleet.step()
    written, whole = fleet.clock.moment, list[str]()

    class Noting(Reconciler):
        async def reconcile(self, sources: Sequence[SourceState]) -> ReconcileResult:
            whole.append(healthy(fleet))
            return await super().reconcile(sources)

    async def story() -> None:
        async with operating(fleet, Noting) as found:
            await found.until(lambda: len(whole) > 1)
            assert whole == ["False", "True"]
            assert healthy(fleet, "b") == "True"
            assert written + GRACE <= fleet.clock.moment < written + GRACE + timedelta(seconds=2)

    fleet.call(story())


@pytest.mark.parametrize(("wait", "waiting"), [(GRACE, 0), (timedelta(seconds=29), 3)])
def test_run_once_ends_as_far_as_it_was_to_wait(fleet: LinkPlatform, wait: timedelta, waiting: int) -> None:
    """Never as if it were done while it is not: the two instances and their source are told as waiting, which is exit code 3."""
    with_widgets(fleet)
    fleet.restart()
    mirrors = {"platform": cast(Mirror, CommittedMirror(fleet))}
    follower = Follower(mirrors, fleet.reconciler, fleet.clock, elapsed=fleet.clock.seconds)
    found = fleet.call(follower.run_once(wait=wait))
    assert sum(account.is_on_its_way for account in found.ledger.restless()) == waiting
    assert not StateCounts.of_all(found.ledger).by_state[DisplayState.FAILED]


def test_a_tree_is_judged_by_the_same_rules(fleet: LinkPlatform) -> None:
    with_widgets(fleet)
    for _ in range(4):
        fleet.step()

    def health(after: timedelta) -> str:
        parent = fleet.call(fleet.cluster.get(ObjectKey(GROUP, "Link", "default", "a")))
        assert parent is not None
        found = fleet.call(read_tree(fleet.cluster, parent, fleet.clock.moment + after))
        return next(branch.health for _, branch in walk(found) if branch.node == "widget")

    assert health(GRACE - timedelta(seconds=1)) == "InProgress"
    assert health(GRACE) == "Current"


def test_a_claim_that_binds_on_first_use_is_healthy_until_it_is_used(fleet: LinkPlatform) -> None:
    """Its StorageClass is read while it is not bound, and only then."""
    asked: list[str] = []

    async def noting(request: Request) -> Response:
        asked.extend(["class"] if "storageclasses" in request.target else [])
        return await fleet.sandbox.answer(request)

    late: Any = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}}
    late |= {"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    fleet.request("POST", "/apis/storage.k8s.io/v1/storageclasses", late)
    fleet.restart(noting)
    fleet.step()
    assert not asked
    fleet.more = [CLAIM]
    fleet.push()
    for _ in range(3):
        fleet.step()
    assert (healthy(fleet), bool(asked)) == ("True", True)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "${claim.metadata.name}"}}]
    pod = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    fleet.more = [CLAIM, {"id": "user", "template": {"apiVersion": "v1", "kind": "Pod", "metadata": NAME, "spec": pod}}]
    fleet.push()
    for _ in range(3):
        fleet.step()
    rows = {row["node"]: row["message"] for row in fleet.status("a")["levelgate"]["blocked"]}
    assert rows["claim"] == "the phase is Pending, not Bound"
    for name in fleet.names:
        path = f"/api/v1/namespaces/default/persistentvolumeclaims/{name}/status"
        fleet.request("PATCH", path, {"status": {"phase": "Bound"}}, MERGE)
    fleet.step()
    asked.clear()
    fleet.step()
    assert not asked
