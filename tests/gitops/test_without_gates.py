"""What orders changes where no gate does: dependencies with readiness. What does not depend on one another goes side by side."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from applier.sandbox.wire import Request, Response
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE


def node(name: str, template: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "template": {**template, "metadata": {"name": f"{name}-${{schema.metadata.name}}"}}, **more}


POD = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "IMAGE"}]}}}
TRIAL = node(
    "trial",
    {"apiVersion": "batch/v1", "kind": "Job", "spec": POD},
    readyWhen=["${trial.?status.?succeeded == optional.of(1)}"],
)
PROMOTED = node("promoted", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"after": "${trial.metadata.name}"}})


def names(fleet: LinkPlatform) -> set[str]:
    found = fleet.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    return {one["metadata"]["name"] for one in found}


def test_a_step_of_a_release_pipeline_is_an_object_with_readiness() -> None:
    """S1-31: a gate orders changes of declared objects; a test between two stages is a Job that the next stage depends on."""
    with LinkPlatform(names=("a",), more=[TRIAL, PROMOTED]) as fleet:
        fleet.push()
        for _ in range(3):
            fleet.step()
        assert "promoted-a" not in names(fleet)
        assert fleet.status("a")["state"] == "IN_PROGRESS"
        job = "/apis/batch/v1/namespaces/default/jobs/trial-a"
        done = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
        times = dict.fromkeys(("startTime", "completionTime"), "2026-11-20T12:00:00Z")
        fleet.request("PATCH", f"{job}/status", {"status": {"succeeded": 1, "conditions": done, **times}}, MERGE)
        fleet.step()
        assert "promoted-a" in names(fleet)


class Slow(LinkPlatform):
    """Writes of the nodes `low` and `high` take a while; which of them were under way together is noted."""

    def __enter__(self) -> Self:
        self.under_way: set[str] = set()
        self.together: set[frozenset[str]] = set()
        return super().__enter__()

    async def answer(self, request: Request) -> Response:
        name = request.target.partition("?")[0].rpartition("/")[2]
        if request.method == "GET" or not name.startswith(("low-", "high-")):
            return await super().answer(request)
        self.under_way.add(name)
        for _ in range(20):
            await asyncio.sleep(0)
        self.together.add(frozenset(self.under_way))
        self.under_way.discard(name)
        return await super().answer(request)


def test_what_does_not_depend_on_one_another_is_written_side_by_side() -> None:
    """S1-39: so that it is the gates, and no queue of writes, which say what comes after what."""
    chain = [
        node("low", {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}),
        node("high", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"low": "${low.metadata.name}"}}),
    ]
    with Slow(names=("a", "b", "c", "d"), more=chain) as fleet:
        fleet.push()
        for _ in range(3):
            fleet.step()
        assert frozenset({"low-a", "low-b", "low-c", "low-d"}) in fleet.together
        assert not [one for one in fleet.together for name in "abcd" if {f"low-{name}", f"high-{name}"} <= one]
        assert {"high-a", "high-b", "high-c", "high-d"} <= names(fleet)
