"""What goes wrong in one pass: all of it is told by that pass, and costs only what depends on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from applier.sandbox.wire import Request, Response
from tests.support.definitions import chain, config_map, link
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.platform import CONFIG_MAPS, Platform

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
        "denied.json": config_map(HERE, "denied", a="b"),
        "broken.json": config_map(HERE, "broken", a="b"),
        "no such namespace.json": config_map("nowhere", "lost", a="b"),
        "no such kind.json": json.dumps(nothing),
        "invalid.json": json.dumps(ports),
        "theirs.json": config_map(HERE, "theirs", a="b"),
    }


@dataclass
class CountingPlatform(Platform):
    """A platform that counts the writes of each object, statuses apart, by its name."""

    counts: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: Request) -> Response:
        path = request.target.partition("?")[0]
        if request.method in {"PATCH", "DELETE"} and not path.endswith("/status"):
            self.counts[path.rpartition("/")[2]] += 1
        return await super().answer(request)

    def reasons(self) -> dict[str, str]:
        """Return the reason of each node that the record of the source names."""
        return {row["node"]: row["reason"] for row in self.record().causes}


@pytest.fixture
def platform() -> Iterator[CountingPlatform]:
    with CountingPlatform() as platform:
        yield platform


def test_one_pass_tells_all_that_fails_and_tries_each_once(platform: CountingPlatform) -> None:
    """S0-20, rule 8, 2.2 of apply and prune: plain objects by class, a deletion, nodes at two levels of two instances; what is fine goes on."""
    platform.request("POST", CONFIG_MAPS, json.loads(config_map(HERE, "theirs", a="c")))
    definition = {"chain.json": chain(GROUP, "ab")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gone", "namespace": HERE}}
    platform.commit({**definition, "gone.json": json.dumps(secret)})
    for _ in range(2):
        platform.step()
    platform.faulty.faults = FAULTS
    platform.counts.clear()
    instances = {f"{name}.json": link(GROUP, HERE, name) for name in ("one", "two", "three")}
    platform.commit({**definition, **instances, **failing(), "fine.json": config_map(HERE, "fine", a="b")})
    platform.step()

    assert platform.reasons() == {
        "ConfigMap/default/denied": "ApplyFailed",
        "ConfigMap/default/broken": "Progressing",
        "ConfigMap/nowhere/lost": "ApplyFailed",
        "Nothing.no.example.org/default/nothing": "ApplyFailed",
        "Service/default/no-ports": "ApplyFailed",
        "ConfigMap/default/theirs": "Conflict",
        "Secret/default/gone": "ApplyFailed",
    }
    tried = ("denied", "broken", "lost", "nothing", "no-ports", "theirs", "gone", "fine")
    assert [platform.counts[name] for name in tried] == [1, 1, 1, 0, 1, 0, 1, 1]
    rows = {}
    for name in ("one", "two", "three"):
        status = platform.request("GET", f"/apis/{GROUP}/v1/namespaces/{HERE}/chains/{name}")["status"]
        rows[name] = [(row["node"], row["reason"], row.get("behind")) for row in status["levelgate"].get("blocked", ())]
    assert rows == {"one": [("b", "ApplyFailed", None)], "two": [("a", "ApplyFailed", ["b"])], "three": []}
    nodes = ("one-a", "one-b", "two-a", "two-b", "three-a", "three-b")
    assert [platform.counts[name] for name in nodes] == [1, 1, 1, 0, 1, 1]


def test_an_object_that_came_with_its_kind_is_looked_at_first(platform: CountingPlatform) -> None:
    """I2: others bring the kind and an object of the name that Git has; what a process knew of kinds before does not prove that there is none."""
    theirs = {"apiVersion": "no.example.org/v1", "kind": "Nothing", "metadata": {"name": "nothing", "namespace": HERE}}
    platform.commit({"it.json": json.dumps(theirs)})
    platform.step()
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "nothings", "kind": "Nothing"}
    kind = {
        "metadata": {"name": "nothings.no.example.org"},
        "spec": {"group": "no.example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    platform.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind)
    platform.request("POST", f"/apis/no.example.org/v1/namespaces/{HERE}/nothings", theirs)
    platform.step()
    assert platform.reasons() == {"Nothing.no.example.org/default/nothing": "Conflict"}
    assert platform.counts["nothing"] == 0
