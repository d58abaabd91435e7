"""`make faults`: everything that the bench can do, on a control plane of its own. The last line is the result.

Kills at every write of every scenario at each of three moments, of a hub as well, random histories, mutants, and the tests of this directory, whole.
Beside them, in a process of its own that asks no server, the model with all histories of three commits over four objects and a second writer.
`--only kills,model` runs some of these parts; `--seed N` plays one random history again; `--scenario TEXT` runs the kills of one.

What cannot be tried counts as a violation, and all else goes on. Interrupted, it leaves nothing running.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.fleet_kills import FLEET_SCENARIOS, FleetBench
from tests.support.faults.fleet_lane import FleetLane
from tests.support.faults.kills import KillBench
from tests.support.faults.lane import Lane
from tests.support.faults.mutants import MUTANTS, Mutant, verdict
from tests.support.faults.proxy import Upstream
from tests.support.faults.random_walks import walk
from tests.support.faults.reduction import explore_all
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.faults.subjects import noticed, subject

EVERY_SCENARIO = (*SCENARIOS, *FLEET_SCENARIOS)
MUTATIONS = len(MUTANTS) + len(SCENARIOS)
SIDE_BY_SIDE = 4
WALKS = 40
PARTS = ("kills", "fleet-kills", "histories", "mutants", "model", "tests")
ON_CLUSTER = {"kills", "fleet-kills", "histories", "mutants"}
SIZES = ((3, 3), (4, 2), (4, 3))
"""Objects and commits of the model, the smaller ones first: what they breach has a shorter way."""
INTERRUPTED = 130


@dataclass
class Report:
    """What was counted; violations are printed as they are found."""

    points: int = 0
    violations: int = 0
    caught: int = 0
    seeds: list[int] = field(default_factory=list)

    def violated(self, where: object, found: Iterable[str]) -> None:
        for text in found:
            self.violations += 1
            print(f"  VIOLATION {where}: {text}", flush=True)

    def __str__(self) -> str:
        return f"faults: points={self.points} violations={self.violations} mutants={self.caught}/{MUTATIONS}"


@dataclass
class Run:
    """One run of the bench against one control plane."""

    upstream: Upstream
    audit: AuditLog
    report: Report

    @asynccontextmanager
    async def fleet_lane(self) -> AsyncIterator[FleetLane]:
        found = FleetLane(self.upstream, self.audit, plurals=("chains",))
        await found.open()
        yield found
        await found.close()

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[Lane]:
        found = Lane(self.upstream, self.audit, plurals=("chains", "others", "things", "readers", "boths"))
        await found.open()
        yield found
        await found.close()

    async def tried(self, what: str, trying: Callable[[], Awaitable[object]]) -> None:
        """Whatever keeps it from being tried is a violation."""
        try:
            await trying()
        except Exception as error:
            self.report.violated(what, [f"could not be tried: {error!r}"])

    async def kills(self, scenarios: Sequence[Scenario]) -> None:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(scenario: Scenario) -> None:
            async with limit, self.lane() as lane:
                await self._points(KillBench(scenario, lane))

        await asyncio.gather(*(self.tried(scenario.name, partial(one, scenario)) for scenario in scenarios))

    async def fleet_kills(self, scenarios: Sequence[Scenario]) -> None:
        """One after the other: the hub has one mark and one Lease in the cluster that it works on."""

        async def one(scenario: Scenario) -> None:
            async with self.fleet_lane() as lane:
                await self._points(FleetBench(scenario, lane))

        for scenario in scenarios:
            await self.tried(scenario.name, partial(one, scenario))

    async def _points(self, bench: KillBench) -> None:
        start, points, wrong = time.monotonic(), 0, 0
        await bench.prepare()
        async for point in bench.points():
            points, wrong = points + 1, wrong + len(point.violations)
            self.report.points += 1
            self.report.violated(point, point.violations)
        spent = time.monotonic() - start
        print(f"  {bench.scenario.name:45}{points:4} points{wrong:4} violations  {spent:4.0f} s", flush=True)

    async def walks(self, seeds: Sequence[int]) -> None:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(seed: int) -> None:
            async with limit, self.lane() as lane:
                found = await walk(lane, seed)
                self.report.violated(f"random history, seed {seed}", found)
                print(f"  seed {seed}: {len(found)} violations", flush=True)

        await asyncio.gather(*(self.tried(f"random history, seed {seed}", partial(one, seed)) for seed in seeds))
        self.report.seeds += seeds

    async def mutants(self) -> None:
        """One after the other: a mutant changes the code of the whole process. Then each scenario of kills without what it is about."""
        for mutant in MUTANTS:
            await self.tried(mutant.name, partial(self._mutant, mutant))
        for scenario in SCENARIOS:
            await self.tried(f"{scenario.name}, without its subject", partial(self._subject, scenario))

    async def _mutant(self, mutant: Mutant) -> None:
        async with self.lane() as lane:
            self.report.violated(f"{mutant.name} is on", await mutant.probe(lane))
        async with self.lane() as lane:
            found = await verdict(mutant, lane)
        self._told(mutant.name, mutant.probe.__name__, found[0] if found else "")

    async def _subject(self, scenario: Scenario) -> None:
        async with self.lane() as lane:
            self._told(subject(scenario), scenario.name, await noticed(scenario, lane))

    def _told(self, mutation: str, probe: str, breach: str) -> None:
        self.report.caught += bool(breach)
        print(f"  {mutation:24}-> {probe:42}{breach or 'NOT CAUGHT'}", flush=True)


class ModelProcess:
    """The model, explored in a process of its own, which ends with this one."""

    def __init__(self) -> None:
        self._found, told = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.Process(target=_explore, args=(told,), daemon=True)
        self._process.start()
        told.close()

    def breaches(self) -> list[str]:
        """What it found, once it has been through all."""
        try:
            found: list[str] = self._found.recv()
        except EOFError:
            self._process.join()
            return [f"its process ended with code {self._process.exitcode}"]
        return found


def _explore(told: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that has started us ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(5)  # nothing here is timed
    gc.disable()  # no state leads back to itself, and millions of them would be looked at again and again
    breaches: list[str] = []
    for size, commits in SIZES:
        name = f"model, {size} objects, {commits} commits, second writer"
        found = explore_all(size, commits, meddle=True, explored=partial(_progress, name))
        if found.breach:
            breaches.append(f"{name}: {found.breach} after {', '.join(found.path)}")
        print(f"  {name}: {found.states} states, {time.process_time():.0f} s of CPU by now", flush=True)
    told.send(breaches)


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def _progress(name: str, commit: int, graphs: int, of: int, states: int) -> None:
    if graphs % 10 == 0:
        print(f"  {name}: commit {commit}, graph {graphs} of {of}, {states} states", flush=True)


def tests(report: Report) -> None:
    """The tests of this directory in full; each that fails is a violation."""
    command = [sys.executable, "-m", "pytest", "tests/faults", "-vv", "-rfE", "--no-header"]
    own = {"LEVELGATE_FAULTS": "all", "CI": "true", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        failed = []
        try:
            for line in running.stdout:
                print(f"  {line}", end="", flush=True)
                failed += [line.strip()] if line.startswith(("FAILED", "ERROR")) else []
        finally:
            running.terminate()  # of no effect where it has ended; else its servers go with it
    code = running.returncode
    report.violated("tests/faults", failed or ([f"pytest ended with code {code}"] if code else []))


async def on_cluster(report: Report, options: argparse.Namespace, directory: Path) -> None:
    with ControlPlane.start(directory) as control_plane:
        async with Upstream(control_plane) as upstream:
            run = Run(upstream, AuditLog(control_plane.audit_log), report)
            if "kills" in options.only:
                print("kills", flush=True)
                await run.kills(_named(options.scenario, SCENARIOS))
            if "fleet-kills" in options.only:
                print("kills of a hub", flush=True)
                await run.fleet_kills(_named(options.scenario, FLEET_SCENARIOS))
            if "histories" in options.only:
                print("random histories", flush=True)
                many = range(options.first_seed, options.first_seed + WALKS)
                await run.walks(many if options.seed is None else [options.seed])
            if "mutants" in options.only:
                print("mutants", flush=True)
                await run.mutants()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description="The fault bench, whole.")
    parser.add_argument("--seed", type=int, help="play one random history again")
    parser.add_argument("--scenario", default="", help="only the kills of the scenarios with this text in their name")
    parser.add_argument("--first-seed", type=int, default=1000, help="of the random histories")
    parser.add_argument("--only", type=_parts, help=f"some of {','.join(PARTS)}  [default: all]")
    options = parser.parse_args()
    options.only = options.only or (
        ["histories"] if options.seed is not None else ["kills", "fleet-kills"] if options.scenario else PARTS
    )
    if not _named(options.scenario, EVERY_SCENARIO):
        parser.error(f"no scenario {options.scenario!r}; there are {', '.join(one.name for one in EVERY_SCENARIO)}")
    for ends in (signal.SIGTERM, signal.SIGINT):  # a shell has its jobs in the background ignore SIGINT
        signal.signal(ends, signal.default_int_handler)
    report, start = Report(), time.monotonic()
    try:
        run(report, options)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return INTERRUPTED
    print(f"took {(time.monotonic() - start) / 60:.0f} minutes")
    if report.seeds:
        print(f"seeds: random histories {report.seeds[0]}-{report.seeds[-1]}")
    print(report)
    return 1 if report.violations or ("mutants" in options.only and report.caught < MUTATIONS) else 0


def run(report: Report, options: argparse.Namespace) -> None:
    """The model beside all else. The rest one after the other: parts that share two cores would find out of each other what takes long."""
    model = ModelProcess() if "model" in options.only else None
    if ON_CLUSTER & set(options.only):
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(on_cluster(report, options, Path(directory)))
    if "tests" in options.only:
        print("tests", flush=True)
        tests(report)
    if model:
        print("model: to its end", flush=True)
        report.violated("model", model.breaches())


def _named(text: str, scenarios: Sequence[Scenario]) -> list[Scenario]:
    return [scenario for scenario in scenarios if text in scenario.name]


def _parts(text: str) -> list[str]:
    found = text.split(",")
    if unknown := set(found) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
