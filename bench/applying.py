"""Figures of apply and prune on a real API server, beside other programs in the same run.

Usage: `python -m bench.applying [OBJECTS ...]`.

`bare` is a load generator, which only uses aiohttp. `bare` sends the bodies that Levelgate sent, from the audit log, to
another namespace, with as many requests in flight. The time of Levelgate also contains reading, rendering, planning,
and the record of the source. The bench compares whole commands with `kubectl apply --server-side`. The API server
counts the requests.

`python -m bench.applying patch` measures the CPU of this process for one server-side apply over TLS, including the
decoding of the answer. `levelgate` calls the cluster as the executor does. `bare` is aiohttp with bodies that are
serialized beforehand.
"""

from __future__ import annotations

import asyncio
import compileall
import gc
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson

import applier
import gitops
import renderer
from applier.cluster import CONTENT_MANAGER
from applier.execute.pending_writes import MAX_STARTED_ACTIONS
from applier.kube import connect
from gitops import source_config
from gitops.cli import GC_THRESHOLD
from gitops.clock import SystemClock
from gitops.daemon.follower import Follower
from gitops.reconcile.reconciler import Reconciler
from gitops.source import Mirror
from gitops.windows.window import LOCAL
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.git.repository import Repository

SIZES = (1_000, 10_000)
PRUNED, LEVELS = 1_000, 5
PATCHES, REPETITIONS = 2_000, 5
IN_FLIGHT = 32
PER_FILE = 1_000
MIB = 1024**2
T = TypeVar("T")
_HEADERS = {"PATCH": "application/apply-patch+yaml", "DELETE": "application/json"}
_QUERY = "?fieldManager=levelgate&force=false&fieldValidation=Strict"
_COUNTED = re.compile(
    r'^apiserver_request_total\{(?=.*resource="(?:configmaps|namespaces)").*verb="(\w+)".*\} (\S+)$', re.MULTILINE
)


def main(sizes: Sequence[int] = SIZES) -> None:
    patch_main()
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name:
        for size in sizes:
            for measured in (Bench.commands, Bench.passes):
                with ControlPlane.start(Path(name) / f"{measured.__name__}-{size}") as server:
                    measured(Bench(server, size))
        with ControlPlane.start(Path(name) / "prunes") as server:
            Bench(server, PRUNED).prunes()


def patch_main() -> None:
    """Measure the CPU of one patch."""
    for package in (applier, gitops, renderer):
        compileall.compile_dir(package.__path__[0], quiet=1)  # as pip does when it installs them
    with (
        tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name,
        ControlPlane.start(Path(name) / "patch") as server,
    ):
        asyncio.run(Bench(server, PATCHES).patches())


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a command: wall clock and CPU in seconds, and the largest memory of its process in bytes."""

    wall: float
    cpu: float
    memory: int


@dataclass(frozen=True)
class Bench:
    """Control plane of a measurement, which applies `size` objects."""

    server: ControlPlane
    size: int

    @property
    def directory(self) -> Path:
        return self.server.directory

    def commands(self) -> None:
        """Measure whole commands that create all objects, then commands that change nothing."""
        ours, theirs = self.repository("ours"), self.repository("theirs")
        files = [word for file in sorted(theirs.path.glob("*.json")) for word in ("--filename", str(file))]
        kubectl = (str(Path(sys.executable).with_name("kubectl")), "apply", "--server-side", *files)
        print(f"\n{f'{self.size:,} ConfigMaps, whole commands':<44} {'levelgate':>10} {'kubectl':>10} {'ratio':>8}")
        for label in ("created", "unchanged"):
            mine, other = self.run(self.command(ours)), self.run(kubectl)
            print(f"{label:<44} {mine.wall:>9.2f}s {other.wall:>9.2f}s {mine.wall / other.wall:>8.2f}")
            print(f"{'  client CPU for each object':<44} {_each(mine, self.size)} {_each(other, self.size)}")
            print(f"{'  peak memory':<44} {mine.memory / MIB:>7.0f}MiB {other.memory / MIB:>7.0f}MiB")

    def passes(self) -> None:
        """Measure a pass that creates all objects, the same requests by `bare`, and a pass that changes nothing."""
        asyncio.run(self._passes(self.repository("pass")))

    async def _passes(self, repository: Repository) -> None:
        audit = AuditLog(self.server.audit_log)
        async with self.following(repository) as (follower, reconciler):
            follower.poll(*follower.mirrors)
            states = await follower.fetch()
            created = await _timed(reconciler.reconcile(states))
            applied = [event for event in audit.events(user="levelgate") if _is_content(event)]
            again = await _timed(reconciler.reconcile(states))
            before = self.counted()
            unchanged = await _timed(reconciler.reconcile(states))
            asked = self.counted() - before
        await self.send("PATCH", [_moved(event, "pass", "bare-0") for event in applied[:1]])
        floor = await _timed(self.send("PATCH", [_moved(event, "pass", "bare-0") for event in applied]))
        assert len(applied) == self.size + 1, f"{len(applied)} applied"
        print(f"{'one pass':<44} {'levelgate':>10} {'bare':>10} {'rate':>8}")
        print(f"{f'created, {IN_FLIGHT} in flight':<44} {created:>9.2f}s {floor:>9.2f}s {floor / created:>8.2f}")
        print(f"{'unchanged, first and second look':<44} {again:>9.2f}s {unchanged:>9.2f}s")
        print(f"{'  requests of the second':<44} {_told(asked)}")

    def prunes(self) -> None:
        """Measure the pruning of several levels in one commit, beside the same deletions by `bare` without reads."""
        asyncio.run(self._prunes(self.repository("prune", levels=LEVELS)))

    async def _prunes(self, repository: Repository) -> None:
        names = [f"item-{number:05}" for number in range(self.size)]
        async with self.following(repository) as (follower, reconciler):
            await follower.run_once(wait=timedelta())
            repository.git("rm", "--quiet", *(file.name for file in repository.path.glob("0*.json")))
            commit = repository.commit({})
            self.approve(repository, commit)
            follower.poll(*follower.mirrors)
            states = await follower.fetch()
            before = self.counted()
            deleted = await _timed(reconciler.reconcile(states))
            asked = self.counted() - before
        await self.send("PATCH", [(f"/api/v1/namespaces/bare-0{_QUERY}", orjson.dumps(_namespace("bare-0")))])
        places = [f"/api/v1/namespaces/bare-0/configmaps/{name}" for name in names]
        await self.send(
            "PATCH",
            [
                (f"{place}{_QUERY}", orjson.dumps(_config_map("bare-0", number, levels=1)))
                for number, place in enumerate(places)
            ],
        )
        share = self.size // LEVELS
        waves = [[(place, b"{}") for place in places[start : start + share]] for start in range(0, self.size, share)]
        floor = await _timed(self.in_waves(waves))
        print(f"\n{f'{self.size:,} ConfigMaps in {LEVELS} levels':<44} {'levelgate':>10} {'bare':>10} {'ratio':>8}")
        print(f"{f'deleted, {IN_FLIGHT} in flight':<44} {deleted:>9.2f}s {floor:>9.2f}s {deleted / floor:>8.2f}")
        print(f"{'  requests':<44} {_told(asked)}")

    async def patches(self) -> None:
        """Measure the CPU of this process for one patch of a ConfigMap of about 300 bytes.

        The figure is the median of several rounds, in which Levelgate and `bare` take turns.
        """
        await self.send("PATCH", [(f"/api/v1/namespaces/cpu{_QUERY}", orjson.dumps(_namespace("cpu")))])
        gc.set_threshold(GC_THRESHOLD)
        cluster = await connect(kubeconfig=str(self.server.kubeconfig("levelgate")), concurrency=IN_FLIGHT)
        taken: dict[str, list[float]] = {"levelgate": [], "bare": []}

        async def ours(manifest: dict[str, Any]) -> None:
            await cluster.apply(manifest, manager=CONTENT_MANAGER)

        async with _session(self.server, "PATCH") as session:

            async def bare(request: tuple[str, bytes]) -> None:
                async with session.request("PATCH", request[0], data=request[1]) as answer:
                    text = await answer.read()
                    assert answer.status < 300, text
                    orjson.loads(text)

            for repetition in range(1 + REPETITIONS):  # the first creates the objects, and opens the connections
                manifests = [_patch(number, f"{repetition}-levelgate") for number in range(self.size)]
                taken["levelgate"].append(await _cpu(_in_turn(manifests, ours, tasks=MAX_STARTED_ACTIONS)))
                manifests = [_patch(number, f"{repetition}-bare") for number in range(self.size)]
                place = f"/api/v1/namespaces/cpu/configmaps/{{}}{_QUERY}"
                bodies = [(place.format(one["metadata"]["name"]), orjson.dumps(one)) for one in manifests]
                taken["bare"].append(await _cpu(_in_turn(bodies, bare, tasks=IN_FLIGHT)))
        await cluster.close()
        mine, floor = (statistics.median(seconds[1:]) / self.size * 1000 for seconds in taken.values())
        print(f"\n{f'{self.size:,} patches, {IN_FLIGHT} in flight':<44} {'levelgate':>10} {'bare':>10} {'ratio':>8}")
        print(f"{'CPU of one patch':<44} {mine:>8.3f}ms {floor:>8.3f}ms {mine / floor:>8.2f}")

    async def send(self, method: str, requests: Sequence[tuple[str, bytes]]) -> None:
        await send(self.server, method, requests, in_flight=IN_FLIGHT)

    async def in_waves(self, waves: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        for wave in waves:
            await self.send("DELETE", wave)

    @asynccontextmanager
    async def following(self, repository: Repository) -> AsyncIterator[tuple[Follower, Reconciler]]:
        gc.set_threshold(GC_THRESHOLD)
        cluster = await connect(kubeconfig=str(self.server.kubeconfig("levelgate")), concurrency=IN_FLIGHT)
        clock = SystemClock()
        reconciler = Reconciler(cluster, "0.1.0", clock, LOCAL)
        config = source_config.parse_source(f"{repository.path.name}={repository.path}")
        mirror = Mirror(config.target, self.directory / "cache")
        yield Follower({config.name: mirror}, reconciler, clock), reconciler
        await cluster.close()

    def command(self, repository: Repository) -> tuple[str, ...]:
        source = f"{repository.path.name}={repository.path}"
        flags = ("--once", "--apply-concurrency", str(IN_FLIGHT))
        return (sys.executable, "-c", "from gitops.cli import main; main()", "run", "--source", source, *flags)

    def run(self, command: Sequence[str]) -> Cost:
        kubeconfig = str(self.server.kubeconfig("levelgate"))
        environment = {**os.environ, "KUBECONFIG": kubeconfig, "XDG_CACHE_HOME": str(self.directory / "cache")}
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0, command
        return Cost(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)

    def counted(self) -> Counter[str]:
        """Return the number of requests for these objects so far, by verb."""
        found = Counter[str]()
        for verb, number in _COUNTED.findall(str(self.server.request("GET", "/metrics").body)):
            found[verb] += int(float(number))
        return found

    def approve(self, repository: Repository, commit: str) -> None:
        """Approve the deletions of a commit, because so many deletions wait for an approval."""
        annotations = {"levelgate.dev/approved-commit": commit}
        path = f"/api/v1/namespaces/levelgate-system/configmaps/source-{repository.path.name}"
        body = {"metadata": {"annotations": annotations}}
        done = self.server.request("PATCH", path, body, content_type="application/merge-patch+json")
        assert done.code == 200, done.body

    def repository(self, namespace: str, *, levels: int = 1) -> Repository:
        """Return a repository with a namespace and its ConfigMaps, in several files."""
        path = self.directory / namespace
        path.mkdir()
        found = Repository(path)
        found.git("init", "--quiet")
        items = [
            json.dumps(_config_map(namespace, number, levels=levels, size=self.size)) for number in range(self.size)
        ]
        files = {
            f"{start:05}.json": "\n---\n".join(items[start : start + PER_FILE])
            for start in range(0, self.size, PER_FILE)
        }
        found.commit({"--.json": json.dumps(_namespace(namespace)), **files})
        return found


def _namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _config_map(namespace: str, number: int, *, levels: int, size: int = 0) -> dict[str, object]:
    """Return a small ConfigMap.

    With several levels, a ConfigMap above the first level depends on a ConfigMap of the level before.
    """
    share = size // levels
    metadata: dict[str, object] = {"name": f"item-{number:05}", "namespace": namespace}
    if levels > 1 and number >= share:
        before = f"/namespaces/{namespace}/ConfigMap/item-{number - share:05}"
        metadata["annotations"] = {"config.kubernetes.io/depends-on": before}
    data = {"number": str(number), "text": "x" * 200}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def send(server: ControlPlane, method: str, requests: Sequence[tuple[str, bytes]], *, in_flight: int) -> None:
    """Send requests, each a path with its query, and a body."""
    limit = asyncio.Semaphore(in_flight)
    async with _session(server, method) as session:

        async def one(path: str, body: bytes) -> None:
            async with limit, session.request(method, path, data=body) as answer:
                text = await answer.read()
                assert answer.status < 300, text

        await asyncio.gather(*(one(*request) for request in requests))


def _session(server: ControlPlane, method: str) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {server.token('other')}", "Content-Type": _HEADERS[method]}
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.ca_file), limit=0)
    return aiohttp.ClientSession(server.url, connector=connector, headers=headers)


def _patch(number: int, text: str) -> dict[str, Any]:
    """Return a ConfigMap of about 300 bytes with the given text."""
    metadata = {"name": f"item-{number:05}", "namespace": "cpu"}
    data = {"number": str(number), "changed": text, "text": "x" * 150}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def _in_turn(items: Iterable[T], send_one: Callable[[T], Awaitable[None]], *, tasks: int) -> None:
    """Send all items. Each of `tasks` tasks sends one item after another."""
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await send_one(item)

    await asyncio.gather(*(work() for _ in range(tasks)))


async def _cpu(work: Awaitable[object]) -> float:
    """Return the CPU of this process during `work`, in seconds."""
    gc.collect()
    start = time.process_time()
    await work
    return time.process_time() - start


def _is_content(event: AuditEvent) -> bool:
    return event.verb == "patch" and "pass" in (event.namespace, event.name)


def _moved(event: AuditEvent, before: str, after: str) -> tuple[str, bytes]:
    """Return the request of `event` for another namespace."""
    return event.uri.replace(f"/{before}", f"/{after}"), orjson.dumps(event.request).replace(
        f'"{before}"'.encode(), f'"{after}"'.encode()
    )


async def _timed(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


def _each(cost: Cost, size: int) -> str:
    return f"{cost.cpu / size * 1000:>8.2f}ms"


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{verb} {number}" for verb, number in sorted(counts.items()) if number)


if __name__ == "__main__":
    if sys.argv[1:] == ["patch"]:
        patch_main()
    else:
        main([int(word) for word in sys.argv[1:]] or SIZES)
