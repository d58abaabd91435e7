"""Cost of one changed object for the daemon, among few objects and among many: `python -m bench.operation [MANY]`.

A whole daemon runs in this process, on the sandbox, with a real repository, watches, log, metrics and records. Each row
covers the time from the commit or event to rest, including the records of sources. Figures are seconds of CPU without
the answers of the sandbox, the least of several runs, and the largest number of requests. The seconds of Git's
processes stand apart, because Git's tree objects grow with the files. Ratios near 1 mean that the cost does not grow
with the fleet.

For a list, the sandbox searches all its objects, which displaces the data of Levelgate from the processor's caches. So
with few followed objects, the sandbox holds as many objects in total.

If a row has more requests than among few objects, the bench ends with exit code 1. The bench also ends so if an
instance takes more than 1.25 times the seconds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from math import inf
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from applier.cluster import Object
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from bench._wanted import end, missed
from gitops.cli import GC_THRESHOLD
from gitops.cli.progress import ProgressPrinter
from gitops.clock import SystemClock
from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.instrumentation import combine
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.server.observability import Observability
from gitops.source import Mirror, SourceTarget
from gitops.windows.window import LOCAL
from tests.support.git.repository import Repository

FEW, MANY, RUNS = 50, 5_000, 3
GROUP: Final = "bench.example.com"
SOURCE: Final = "bench"
T = TypeVar("T")

AT_MOST: Final = {"seconds": 1.25, "requests": 1.0}
"""Largest ratio of many objects to few objects."""

LOOK: Final = 0.2
"""Seconds between two checks for rest."""


@dataclass
class World:
    """Instances of one definition, each with two ConfigMaps, and a daemon that has reconciled them and continues.

    The sandbox also holds `others` ConfigMaps, which no source declares.
    """

    size: int
    directory: Path
    others: int
    requests: int = 0
    answering: float = 0.0
    passes: int = 0
    touched: int = 0
    config_maps: ClassVar = 2

    async def run(self, stack: AsyncExitStack) -> None:
        self.sandbox = Sandbox()
        for number in range(self.others):
            other = json.dumps(_config_map(number, "theirs", "other")).encode()
            await self.sandbox.answer(Request("POST", "/api/v1/namespaces/default/configmaps", {}, other))
        cluster = cluster_of(self._door)
        stack.push_async_callback(cluster.close)
        clock = SystemClock()
        self.repository = Repository(self.directory / "repository")
        self.repository.path.mkdir()
        self.repository.git("init", "--quiet")
        first = {f"i{number:05}.json": json.dumps(self.declared(number, "one")) for number in range(self.size)}
        self.repository.commit({**first, "note.json": json.dumps(_definition())})
        mirror = Mirror(SourceTarget(f"file://{self.repository.path}"), self.directory / "cache")
        seen = Observability(cluster, "0", clock, lambda: True, lambda: False, lambda: 0.0)
        progress = ProgressPrinter(clock, json=True)
        reconciler = Reconciler(
            cluster, "0", clock, LOCAL, _each(progress.print_result, seen.record_action), stage=combine(seen.stage)
        )
        passed = _each(self._passed, progress.report_pass, seen.record_pass)
        self.follower = Follower({SOURCE: mirror}, reconciler, clock, on_pass=passed, stage=seen.stage)
        self.follower.event_router = await stack.enter_async_context(
            EventRouter(reconciler, self.follower.enqueue, progress.print_problem)
        )
        running = asyncio.ensure_future(self.follower.run_forever())

        async def end() -> None:
            self.follower.stop.set()
            await running

        stack.push_async_callback(end)
        await self._rest(0)

    def declared(self, number: int, text: str) -> Object:
        return _instance(number, text)

    def _passed(self, _: ReconcileResult) -> None:
        self.passes += 1

    async def _door(self, request: Request) -> Response:
        begun = time.process_time()
        response = await self.sandbox.answer(request)
        self.answering += time.process_time() - begun
        self.requests += response.stream is None
        return response

    async def _rest(self, passes: int) -> None:
        """Wait until more than `passes` passes have ended, and no further work is due."""
        while not (self.passes > passes and self._rests):  # noqa: ASYNC110 - looking often would be counted
            await asyncio.sleep(LOOK)

    @property
    def _rests(self) -> bool:
        queue, whole = self.follower.queue, self.follower.reconciler.whole
        return bool(whole and not whole.has_unreported_changes) and not (
            queue.dirty or queue.processing or queue.next_due_at
        )

    async def cost(self, touch: Callable[[], Awaitable[None]]) -> tuple[float, float, int]:
        """Return the seconds of this process and of Git, and the requests, from the end of `touch` to rest."""
        passes = self.passes
        await touch()
        gc.collect()
        self.requests, self.answering, begun, git = 0, 0.0, time.process_time(), _of_git()
        await self._rest(passes)
        return time.process_time() - begun - self.answering, _of_git() - git, self.requests

    async def change(self) -> None:
        """Commit a change of one object."""
        self.touched += 1
        file = "i00000.json"
        await asyncio.to_thread(self.repository.commit, {file: json.dumps(self.declared(0, f"text {self.touched}"))})
        self.follower.poll(SOURCE)

    async def drift(self) -> None:
        """Delete an object, each time another one."""
        self.touched += 1
        await self.sandbox.answer(Request("DELETE", self.member, {}, b""))

    async def label(self) -> None:
        """Annotate an object with a value that no program reads."""
        self.touched += 1
        body = {"metadata": {"annotations": {"someone": f"{self.touched}"}}}
        merge = {"content-type": "application/merge-patch+json"}
        await self.sandbox.answer(Request("PATCH", self.member, merge, json.dumps(body).encode()))

    @property
    def member(self) -> str:
        return f"/api/v1/namespaces/default/configmaps/i{self.touched % self.size:05}-one"


class Plain(World):
    """Plain objects, each a ConfigMap."""

    config_maps: ClassVar = 1

    def declared(self, number: int, text: str) -> Object:
        return _config_map(number, text)

    @property
    def member(self) -> str:
        return super().member.removesuffix("-one")


def main(many: int = MANY) -> list[str]:
    gc.set_threshold(GC_THRESHOLD)  # as the command does
    return asyncio.run(_main(many))


async def _main(many: int) -> list[str]:
    found: list[str] = []
    rows = {
        "commit to it brought about": World.change,
        "object deleted, put back": World.drift,
        "annotation of others on an object": World.label,
    }
    for what, kind in (("instance", World), ("plain object", Plain)):
        costs = [await _costs(kind, size, many - size, rows.values()) for size in (FEW, many)]
        print(f"\n{f'one {what} touched, among':<50} {FEW:>9,} {many:>9,} {'ratio':>8}")
        for label, few, large in zip(rows, *costs, strict=True):
            for unit, small, big in zip(("seconds", "seconds of Git", "requests"), few, large, strict=True):
                ratio = big / small if small else float(big > 0) + 1
                print(f"{f'{label}, {unit}':<50} {small:>9.4g} {big:>9.4g} {ratio:>8.2f}")
                wanted = AT_MOST.get(unit, inf) if kind is World or unit == "requests" else inf
                found += missed(f"{what}, {label}, {unit}, x those among {FEW}", ratio, wanted)
    return found


async def _costs(
    kind: type[World], size: int, fewer: int, rows: Iterable[Callable[[World], Awaitable[None]]]
) -> list[tuple[float, float, int]]:
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name, redirect_stdout(StringIO()):
        async with AsyncExitStack() as stack:
            world = kind(size, Path(name), fewer * kind.config_maps)
            await world.run(stack)
            return [_of([await world.cost(partial(row, world)) for _ in range(RUNS)]) for row in rows]


def _of(runs: Iterable[tuple[float, float, int]]) -> tuple[float, float, int]:
    """Return the least seconds and the largest number of requests of several runs."""
    seconds, of_git, requests = zip(*runs, strict=True)
    return min(seconds), min(of_git), max(requests)


def _each(*listeners: Callable[[T], None]) -> Callable[[T], None]:
    def tell(it: T) -> None:
        for listener in listeners:
            listener(it)

    return tell


def _of_git() -> float:
    """Return the CPU seconds of the ended child processes."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _config_map(number: int, text: str, beginning: str = "i") -> Object:
    metadata = {"name": f"{beginning}{number:05}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def _definition() -> Object:
    resources = [
        {
            "id": name,
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"${{schema.metadata.name}}-{name}"},
                "data": {"text": "${schema.spec.text}"},
            },
        }
        for name in ("one", "two")
    ]
    schema = {"group": GROUP, "apiVersion": "v1", "kind": "Note", "spec": {"text": "string"}}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": f"notes.{GROUP}"},
        "spec": {"schema": schema, "resources": resources},
    }


def _instance(number: int, text: str) -> Object:
    metadata = {"name": f"i{number:05}", "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Note", "metadata": metadata, "spec": {"text": text}}


if __name__ == "__main__":
    end(main(*map(int, sys.argv[1:2])))
