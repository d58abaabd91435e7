"""What goes wrong in one pass: all of it is told by that pass, and costs only what depends on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.records.source_record import causes_of
from gitops.simulate.world import VirtualClock
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import load
from renderer.identity import ObjectKey, source_parent
from tests.support.clock import START
from tests.support.definitions import chain, config_map, link
from tests.support.fault_injector import FaultInjector, InjectedFault, RefusedRequest
from tests.support.platform import commit_id

GROUP, HERE = "g.test", "default"
FAULTS = (
    InjectedFault(RefusedRequest(403), verb="patch", name="denied"),
    InjectedFault(RefusedRequest(500), verb="patch", name="broken"),
    InjectedFault(RefusedRequest(403), verb="delete", name="gone"),
    InjectedFault(RefusedRequest(422), verb="patch", name="one-b"),
    InjectedFault(RefusedRequest(400), verb="patch", name="two-a"),
)


def failing() -> dict[str, str]:
    """Files of plain objects that cannot be written, by why: `FAULTS`, or as any server would say."""
    nothing = {"apiVersion": "no.example.org/v1", "kind": "Nothing", "metadata": {"name": "nothing", "namespace": HERE}}
    ports = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "no-ports", "namespace": HERE}, "spec": {}}
    return {
        "denied": config_map(HERE, "denied", a="b"),
        "broken": config_map(HERE, "broken", a="b"),
        "no such namespace": config_map("nowhere", "lost", a="b"),
        "no such kind": json.dumps(nothing),
        "invalid": json.dumps(ports),
        "theirs": config_map(HERE, "theirs", a="b"),
    }


class CountingPlatform:
    """A server that counts the writes of each object, and a process that works on it."""

    def __init__(self) -> None:
        self.door = FaultInjector(Sandbox().answer)
        self.writes: Counter[str] = Counter()
        self.cluster = cluster_of(self._answer)
        self.reconciler = Reconciler(self.cluster, "0.1.0", VirtualClock(START), LOCAL)

    async def _answer(self, request: Request) -> Response:
        path = request.target.partition("?")[0]
        if request.method in {"PATCH", "DELETE"} and not path.endswith("/status"):
            self.writes[path.rpartition("/")[2]] += 1
        return await self.door.answer(request)

    async def one_pass(self, number: int, files: Mapping[str, str]) -> None:
        catalog = load({f"{n}.json": text.encode() for n, text in files.items()}, source="s", commit=commit_id(number))
        await self.reconciler.reconcile([SourceState(catalog)])

    async def live(self, key: ObjectKey) -> dict[str, Any]:
        found = await self.cluster.get(key)
        assert found is not None
        return found


async def test_one_pass_tells_all_that_fails_and_tries_each_once() -> None:
    """S0-20, rule 8, 2.2 of apply and prune: plain objects by class, a deletion, nodes at two levels of two instances; what is fine goes on."""
    world = CountingPlatform()
    await world.cluster.apply(json.loads(config_map(HERE, "theirs", a="c")), manager="somebody")
    definition = {"chain": chain(GROUP, "ab")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gone", "namespace": HERE}}
    for _ in range(2):
        await world.one_pass(1, {**definition, "gone": json.dumps(secret)})
    world.door.faults = FAULTS
    world.writes.clear()
    instances = {name: link(GROUP, HERE, name) for name in ("one", "two", "three")}
    await world.one_pass(2, {**definition, **instances, **failing(), "fine": config_map(HERE, "fine", a="b")})

    told = {row["node"]: row["reason"] for row in causes_of(await world.live(source_parent("s")))}
    assert told == {
        "ConfigMap/default/denied": "ApplyFailed",
        "ConfigMap/default/broken": "Progressing",
        "ConfigMap/nowhere/lost": "ApplyFailed",
        "Nothing.no.example.org/default/nothing": "ApplyFailed",
        "Service/default/no-ports": "ApplyFailed",
        "ConfigMap/default/theirs": "Conflict",
        "Secret/default/gone": "ApplyFailed",
    }
    tried = ("denied", "broken", "lost", "nothing", "no-ports", "theirs", "gone", "fine")
    assert [world.writes[name] for name in tried] == [1, 1, 1, 0, 1, 0, 1, 1]
    rows = {}
    for name in instances:
        status = (await world.live(ObjectKey(GROUP, "Chain", HERE, name)))["status"]
        rows[name] = [(row["node"], row["reason"], row.get("behind")) for row in status["levelgate"].get("blocked", ())]
    assert rows == {"one": [("b", "ApplyFailed", None)], "two": [("a", "ApplyFailed", ["b"])], "three": []}
    nodes = ("one-a", "one-b", "two-a", "two-b", "three-a", "three-b")
    assert [world.writes[name] for name in nodes] == [1, 1, 1, 0, 1, 1]


async def test_an_object_that_came_with_its_kind_is_looked_at_first() -> None:
    """I2: others bring the kind and an object of the name that Git has; what a process knew of kinds before does not prove that there is none."""
    world = CountingPlatform()
    theirs = {"apiVersion": "no.example.org/v1", "kind": "Nothing", "metadata": {"name": "nothing", "namespace": HERE}}
    await world.one_pass(1, {"it": json.dumps(theirs)})
    others = cluster_of(world.door.answer)
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "nothings", "kind": "Nothing"}
    kind = {"group": "no.example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    await others.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "nothings.no.example.org"},
            "spec": kind,
        },
        manager="somebody",
    )
    await others.apply(theirs, manager="somebody")
    await world.one_pass(1, {"it": json.dumps(theirs)})
    told = {row["node"]: row["reason"] for row in causes_of(await world.live(source_parent("s")))}
    assert told == {"Nothing.no.example.org/default/nothing": "Conflict"}
    assert world.writes["nothing"] == 0
