"""`make faults`: everything that the bench can do, on a control plane of its own. The last line is the result.

Kills at every write of every scenario at each of three moments, random histories, mutants, the model with all histories of three commits over
four objects and a second writer, and the tests of this directory, whole. `--only kills,model` runs some of these parts; `--seed N` plays one random
history again; `--scenario TEXT` runs the kills of one.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.audit import AuditLog
from tests.controlplane.server import ControlPlane
from tests.faults.kills import Bench
from tests.faults.lane import Lane
from tests.faults.mutants import MUTANTS, verdict
from tests.faults.proxy import Upstream
from tests.faults.random_walks import walk
from tests.faults.reduction import explore_all
from tests.faults.scenarios import SCENARIOS, Scenario

SIDE_BY_SIDE = 4
WALKS = 40
PARTS = ("kills", "histories", "mutants", "model", "tests")


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
        return f"faults: points={self.points} violations={self.violations} mutants={self.caught}/{len(MUTANTS)}"


@dataclass
class Run:
    """One run of the bench against one control plane."""

    upstream: Upstream
    audit: AuditLog
    report: Report

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[Lane]:
        found = Lane(self.upstream, self.audit, plurals=("chains", "others", "things"))
        await found.open()
        yield found
        await found.close()

    async def kills(self, scenarios: Sequence[Scenario]) -> None:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(scenario: Scenario) -> None:
            async with limit, self.lane() as lane:
                bench, start, points, wrong = Bench(scenario, lane), time.monotonic(), 0, 0
                await bench.prepare()
                async for point in bench.points():
                    points, wrong = points + 1, wrong + len(point.violations)
                    self.report.violated(point, point.violations)
                self.report.points += points
                spent = time.monotonic() - start
                print(f"  {scenario.name:45}{points:4} points{wrong:4} violations  {spent:4.0f} s", flush=True)

        await asyncio.gather(*map(one, scenarios))

    async def walks(self, seeds: Sequence[int]) -> None:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(seed: int) -> None:
            async with limit, self.lane() as lane:
                self.report.violated(f"random history, seed {seed}", await walk(lane, seed))

        await asyncio.gather(*map(one, seeds))
        self.report.seeds += seeds

    async def mutants(self) -> None:
        """One after the other: a mutant changes the code of the whole process."""
        for mutant in MUTANTS:
            async with self.lane() as lane:
                self.report.violated(f"{mutant.name} is on", await mutant.probe(lane))
            async with self.lane() as lane:
                found = await verdict(mutant, lane)
            self.report.caught += bool(found)
            print(f"  {mutant.name:24}-> {mutant.probe.__name__:24}{found[0] if found else 'NOT CAUGHT'}", flush=True)


def model(report: Report) -> None:
    """All histories at once, the smaller ones first: what they breach has a shorter way."""
    gc.disable()  # no state leads back to itself, and millions of them would be looked at again and again
    for size, commits in [(3, 3), (4, 2), (4, 3)]:
        start = time.process_time()
        found = explore_all(size, commits, meddle=True)
        name = f"{size} objects, {commits} commits, second writer"
        if found.breach:
            report.violated(f"model, {name}", [f"{found.breach} after {', '.join(found.path)}"])
        print(f"  {name:40}{found.states:9} states{time.process_time() - start:6.0f} s of CPU", flush=True)
    gc.enable()


def tests(report: Report) -> None:
    """The tests of this directory in full; each that fails is a violation."""
    command = [sys.executable, "-m", "pytest", "tests/faults", "-rf", "--no-header"]
    done = subprocess.run(
        command, env={**os.environ, "LEVELGATE_FAULTS": "all"}, capture_output=True, text=True, check=False
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    print(done.stdout if done.returncode else done.stdout.splitlines()[-1], flush=True)
    report.violated("tests/faults", failed or (["pytest did not run"] if done.returncode else []))


async def on_cluster(report: Report, options: argparse.Namespace, directory: Path) -> None:
    with ControlPlane.start(directory) as control_plane:
        async with Upstream(control_plane) as upstream:
            run = Run(upstream, AuditLog(control_plane.audit_log), report)
            if "kills" in options.only:
                print("kills", flush=True)
                await run.kills([scenario for scenario in SCENARIOS if options.scenario in scenario.name])
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
        ["histories"] if options.seed is not None else ["kills"] if options.scenario else PARTS
    )
    report, start = Report(), time.monotonic()
    if {"kills", "histories", "mutants"} & set(options.only):
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(on_cluster(report, options, Path(directory)))
    if "model" in options.only:
        print("model", flush=True)
        model(report)
    if "tests" in options.only:
        print("tests", flush=True)
        tests(report)
    print(f"took {(time.monotonic() - start) / 60:.0f} minutes")
    if report.seeds:
        print(f"seeds: random histories {report.seeds[0]}-{report.seeds[-1]}")
    print(report)
    return 1 if report.violations or ("mutants" in options.only and report.caught < len(MUTANTS)) else 0


def _parts(text: str) -> list[str]:
    found = text.split(",")
    if unknown := set(found) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
