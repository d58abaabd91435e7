"""The real command in a process of its own, ended by SIGKILL at a write; Git is real too."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.faults.extent import first
from tests.support.faults.kills import KillBench, differences
from tests.support.faults.lane import Commit, Lane, essence
from tests.support.faults.observer import ObservedHistory, unplaced, violations
from tests.support.faults.proxy import Kill, Moment, Proxy, Rule
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.git.repository import Repository

KILLED = -signal.SIGKILL


class Repositories:
    """One Git repository for each source of a lane."""

    def __init__(self, directory: Path, lane: Lane) -> None:
        self._directory, self._lane = directory, lane
        self._found: dict[str, Repository] = {}
        self._files: dict[str, set[str]] = {}

    def commit(self, commit: Commit) -> dict[str, str]:
        """The commit's id by source; without those that it leaves alone."""
        return {short: self._commit(short, dict(files)) for short, files in commit.items()}

    def _commit(self, short: str, files: dict[str, str]) -> str:
        if short not in self._found:
            self._found[short] = Repository.create(self._directory / self._lane.source(short))
        gone = dict.fromkeys(self._files.get(short, set()) - files.keys())
        self._files[short] = set(files)
        return self._found[short].commit({**files, **gone})

    @property
    def arguments(self) -> list[str]:
        found = [(self._lane.source(short), repository.path) for short, repository in sorted(self._found.items())]
        return [word for name, path in found for word in ("--source", f"{name}={path}")]


async def run(lane: Lane, repositories: Repositories, cache: Path, *rules: Rule) -> tuple[int, str]:
    """`levelgate run --once` through a proxy: exit code and output."""
    async with Proxy(lane.upstream, rules) as proxy:
        kubeconfig = cache / "kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(
                "-c",
                "from gitops.cli import main; main()",
                "run",
                "--once",
                "--wait",
                "2m",
                *repositories.arguments,
            ),
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "XDG_CACHE_HOME": str(cache), "NO_COLOR": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        proxy.kill = process.kill
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


CHOSEN = sorted(SCENARIOS, key=lambda scenario: scenario.name not in {"update", "prune A-D"})


@pytest.mark.parametrize("scenario", first(1, CHOSEN), ids=lambda scenario: scenario.name.replace(" ", "-"))
async def test_a_process_that_gets_sigkill_leaves_what_the_next_one_finishes(
    lane: Lane, scenario: Scenario, tmp_path: Path
) -> None:
    """Row "SIGKILL before/after each API write" (I1 to I4, I7): at the third write, which the server has carried out."""
    bench = KillBench(scenario, lane)
    await bench.prepare()
    await bench.to_the_first()
    repositories = Repositories(tmp_path / "git", lane)
    (cache := tmp_path / "cache").mkdir()
    repositories.commit(bench.commits[0])
    start = await lane.objects()
    approved = repositories.commit(bench.commits[1])
    await lane.approve(approved)
    since = lane.audit.mark()
    if scenario.meddle:
        await scenario.meddle(lane)
    code, output = await run(lane, repositories, cache, Rule(Kill(Moment.FORWARDED), nth=3))
    assert code == KILLED, output
    if len(bench.commits) > 2:
        await lane.approve(repositories.commit(bench.commits[2]))
    code, output = await run(lane, repositories, cache)
    assert code == 0, output
    end, events = await lane.objects(), lane.events(since)
    assert essence(end) == essence(bench.targets[-1]), differences(essence(end), essence(bench.targets[-1]))
    assert unplaced(start, end, recreated=scenario.recreated) == []
    target = bench.targets[-1] if len(bench.commits) == 2 else {}
    assert (
        violations(
            ObservedHistory.of(start, events), events, target=target, parents_may_vanish=scenario.parents_may_vanish
        )
        == []
    )
