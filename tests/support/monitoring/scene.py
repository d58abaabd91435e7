"""A fleet that is seen: passes on the sandbox with a still clock, told to everything that watches a daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from applier.cluster import ClusterName, parse_cluster_name
from applier.errors import ClusterError
from applier.plan.model import ApplySetPlan, Plan
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.set_summaries import SetSummaries
from gitops.server.http import HttpServer
from gitops.server.observability import Observability
from gitops.server.trace_endpoint import TraceEndpoint
from gitops.source_config import SourceConfig
from tests.support.link_platform import LinkPlatform

HOURS = {
    "kind": "Allow",
    "timeZone": "Europe/Berlin",
    "schedule": {"cron": "0 9 * * 1-5"},
    "until": "17:00",
    "selector": {"namespaces": ["default"]},
    "ticket": "CHG-2210",
}
FREEZE = {
    "kind": "Deny",
    "timeZone": "Europe/Berlin",
    "schedule": {"once": [{"start": "2026-11-22T12:00", "end": "2026-11-24T06:00"}]},
}


def planned(found: ReconcileResult, sets: Iterable[ApplySetPlan]) -> ReconcileResult:
    """The pass as if it had planned these."""
    plan = Plan(tuple(sets))
    return replace(found, plan=plan, ledger=SetSummaries.of(plan), latest=None)


@dataclass
class MeasuredCluster:
    """A cluster as far as metrics ask it."""

    name: ClusterName = field(default_factory=lambda: parse_cluster_name("prod-eu"))
    answers: Counter[tuple[str, int]] = field(default_factory=lambda: Counter({("list", 200): 3, ("patch", 409): 1}))


@dataclass
class Scene:
    """`polled` are the sources that a hook wanted to be asked; `refusal` is why nobody can be told of them."""

    fleet: LinkPlatform
    seen: Observability
    polled: list[tuple[str, ...]] = field(default_factory=list)
    sources: tuple[SourceConfig, ...] = ()
    secrets: Mapping[str, Path] = field(default_factory=dict)
    refusal: ClusterError | None = None

    async def step(self, after: timedelta = timedelta()) -> ReconcileResult:
        """One pass, so much later."""
        self.fleet.clock.moment += after
        found = await self.fleet.reconciler.reconcile([self.fleet.state])
        self.seen.record_pass(found)
        return found

    async def started(self) -> None:
        """All of the fleet runs, is healthy and has settled; only the first of fleets that are alike goes all the way."""
        made_of = self.fleet.made_of
        if self.fleet.recall(made_of):
            self.fleet.push()
            await self.step()
            return
        self.fleet.push()
        for _ in range(6):
            await self.step()
            self.fleet.ready(*self.fleet.at("one"))
        self.fleet.remember(made_of)

    @property
    def server(self) -> HttpServer:
        async def hint(*names: str) -> None:
            if self.refusal:
                raise self.refusal
            self.polled.append(names)

        traces = TraceEndpoint(lambda: {"local": self.fleet.reconciler.inputs.graph})
        return HttpServer(
            self.seen.monitor,
            self.seen.metrics,
            hint,
            lambda: self.sources,
            lambda: self.secrets,
            traces,
            self.seen.fleet,
        )

    @asynccontextmanager
    async def client(self) -> AsyncIterator[TestClient[web.Request, web.Application]]:
        async with TestClient(TestServer(self.server.create_app(is_local=True))) as client:
            yield client

    async def page(self, path: str = "/") -> str:
        async with self.client() as client:
            response = await client.get(path)
            assert response.status == 200
            return await response.text()

    async def metrics(self) -> str:
        return (await self.seen.metrics.render(self.fleet.clock.now())).decode()


@asynccontextmanager
async def scene(*, leads: bool = True, has_fleet: bool = False, **fleet: Any) -> AsyncIterator[Scene]:
    made = LinkPlatform(**fleet)
    made.sandbox = made.new_sandbox()
    seen = Observability(
        MeasuredCluster(), "0.1.0", made.clock, lambda: leads, lambda: False, lambda: 0.25, has_fleet=has_fleet
    )
    seen.monitor.elapsed = made.clock.seconds
    made.restart(report=seen.record_action, stage=seen.stage)
    yield Scene(made, seen)
    await made.cluster.close()
