"""A record of the outside of the program: its writes in every scenario of the fault bench and on `sample-repo`, and the answers of its commands.

Invariants: only the command, HTTP requests and files are looked at, nothing inside the program; names, commits and dates are fixed, so that the
same program makes the same record.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from aiohttp import web

from tests.support import command as process
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.demo.session import SAMPLE
from tests.support.faults.lane import Commit, Lane
from tests.support.faults.proxy import WRITES, Proxy, ProxyResponse, Request, Upstream
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.git.repository import Repository
from tests.support.golden.commands import AFTERWARDS, COMMANDS, OFFLINE, Command
from tests.support.golden.normal import normal, normal_text, set_of, write_of

Record = dict[str, Any]
_DATE = "2026-03-04T05:06:07+00:00"
SAME_COMMITS = {
    "GIT_AUTHOR_DATE": _DATE,
    "GIT_COMMITTER_DATE": _DATE,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""The environment in which the same files in the same order are the same commits."""

_SUCCESS = 300


@dataclass
class Recorder(Proxy):
    """A proxy without faults that keeps the writes which the server carried out."""

    done: list[Request] = field(default_factory=list)

    async def _forward(self, request: Request, http: web.BaseRequest) -> ProxyResponse:
        answer = await super()._forward(request, http)
        if request.method in WRITES and answer.status < _SUCCESS:
            self.done.append(request)
        return answer


@dataclass(frozen=True)
class Loopback:
    """A server without TLS and without users, where `Upstream` expects a control plane."""

    url: str
    ca_file: None = None

    def token(self, _user: str) -> str:
        return "none"


@dataclass
class GoldenBench:
    """A directory, a server behind a recorder, and the command."""

    directory: Path
    recorder: Recorder
    names: Mapping[str, str]
    repositories: dict[str, Repository] = field(default_factory=dict)

    def repository(self, name: str) -> Repository:
        """The repository of that source, made at first use."""
        if name not in self.repositories:
            self.repositories[name] = Repository.create(self.directory / name)
        return self.repositories[name]

    @property
    def environment(self) -> dict[str, str]:
        """Of commands, which go through the recorder."""
        kubeconfig = self.directory / "kubeconfig"
        kubeconfig.write_text(self.recorder.kubeconfig())
        places = {"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "HOME": "home"}
        return {
            **os.environ,
            **{name: str(self.directory / place) for name, place in places.items()},
            "KUBECONFIG": str(kubeconfig),
            "NO_COLOR": "1",
            "LEVELGATE_LISTEN": "off",
            "TZ": "UTC",
            "COLUMNS": "120",
            "USER": "ada",
        }

    async def levelgate(self, *arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(process.run, arguments, self.environment, directory=directory or self.directory)

    async def run(self, sources: Sequence[str], wait: str = "60s") -> Record:
        """Reconcile until settled; the exit code and the writes."""
        self.recorder.done.clear()
        named = [word for name in sources for word in ("--source", f"{name}={self.repositories[name].path}")]
        done = await self.levelgate("run", *named, "--once", "--wait", wait)
        return {"exit": done.returncode, "writes": self.writes()}

    def writes(self) -> list[Any]:
        return set_of(write_of(*request, self.names) for request in self.recorder.done)


async def record(only: Sequence[str] = ()) -> Record:
    """Play everything, or the scenarios `only`, and return the record."""
    os.environ |= {**SAME_COMMITS, "GOMAXPROCS": "1"}
    scenarios = [scenario for scenario in SCENARIOS if not only or scenario.name in only]
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        directory = Path(name)
        result: Record = {"scenarios": await _scenarios(directory, scenarios)}
        if not only or "sample-repo" in only:
            result |= await _sample(directory)
    return result


async def _scenarios(directory: Path, scenarios: Sequence[Scenario]) -> Record:
    if not scenarios:
        return {}
    (directory / "server").mkdir()
    with ControlPlane.start(directory / "server") as plane:
        async with Upstream(plane) as upstream:
            return {
                scenario.name: await _scenario(directory, upstream, AuditLog(plane.audit_log), scenario)
                for scenario in scenarios
            }


async def _scenario(directory: Path, upstream: Upstream, audit: AuditLog, scenario: Scenario) -> Record:
    """Every commit, then the way back; the steps by their number."""
    lane = Lane(upstream, audit, f"g{SCENARIOS.index(scenario):02d}", scenario.plurals)
    place = directory / lane.token
    place.mkdir()
    await lane.open()
    commits = list(scenario.commits(lane))
    back = [] if scenario.fresh or len(commits) > 2 else [commits[0]]
    steps: Record = {}
    async with Recorder(upstream) as recorder:
        bench = GoldenBench(place, recorder, {str(place): "/golden"})
        for number, commit in enumerate([*commits, *back]):
            await commit_to(bench, lane, commit)
            if number == 1 and scenario.meddle:
                await scenario.meddle(lane)
            step = f"{number} back" if number >= len(commits) else str(number)
            steps[step] = await bench.run([lane.source(short) for short in commit])
    await lane.close()
    return steps


async def commit_to(bench: GoldenBench, lane: Lane, commit: Commit) -> None:
    """New heads of the sources, with their deletions approved."""
    for short, files in commit.items():
        repository = bench.repository(lane.source(short))
        old = {file.name: file.read_text() for file in repository.path.glob("*.json")}
        if not old or old != files:  # As for a lane: the same files are no new commit.
            repository.commit({**{name: None for name in old if name not in files}, **files})
        head = repository.git("rev-parse", "HEAD").strip()
        annotation = {"levelgate.dev/approved-commit": head}
        await lane.patch(lane.record(short), {"metadata": {"annotations": annotation}})


@asynccontextmanager
async def served_sandbox(directory: Path) -> AsyncIterator[GoldenBench]:
    """The sandbox, served by the command, behind a recorder."""
    data = directory / "data"
    environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state")}
    with process.RunningCommand(("sandbox", "--data", str(data)), environment, directory=directory) as running:
        await asyncio.to_thread(eventually, (data / "kubeconfig").exists, within=60.0)
        config = yaml.safe_load((data / "kubeconfig").read_text())
        plane = cast(ControlPlane, Loopback(config["clusters"][0]["cluster"]["server"]))
        async with Upstream(plane) as upstream, Recorder(upstream) as recorder:
            yield GoldenBench(directory, recorder, {str(directory): "/golden"})
        assert running.returncode is None, "the sandbox ended"


async def _sample(directory: Path) -> Record:
    """The story of the demo, and commands at its beginning and end."""
    place = directory / "sample"
    place.mkdir()
    async with served_sandbox(place) as bench:
        repository = bench.repository("platform")
        path = repository.path
        shutil.copytree(SAMPLE, path, dirs_exist_ok=True)
        commands: Record = {}
        steps: Record = {}

        async def run(step: str, files: Mapping[str, str | None]) -> None:
            repository.commit(files, step)
            steps[step] = await bench.run(["platform"])

        async def answers(when: str, wanted: Sequence[Command]) -> None:
            for command in wanted:
                commands[f"{when}: {command.line}"] = await _answer(bench, command)

        def replaced(file: str, old: str, new: str) -> Mapping[str, str]:
            text = (path / file).read_text()
            assert old in text, f"{file} does not say {old}"
            return {file: text.replace(old, new)}

        await run("1 deploy", {})
        await run("2 change an image", replaced("apps/prod/docs.yaml", "docs:1.4.2", "docs:1.5.0"))
        probe = replaced("definitions/web-app.yaml", "{path: /, port: http}", "{path: /ready, port: http}")
        await run("3 change a definition", probe)
        await run("4 remove an instance", {"apps/prod/shop.yaml": None})
        await answers("settled", [*OFFLINE, *COMMANDS])
        healthy = (path / "apps/prod/docs.yaml").read_text()
        await run("5 break a file", {"apps/prod/docs.yaml": healthy + "  unclosed: [\n"})
        await answers("broken", AFTERWARDS)
        await run("6 mend it", {"apps/prod/docs.yaml": healthy})
        await answers("mended", [Command("uninstall --with-workloads --yes")])
    return {"sample-repo": steps, "commands": commands}


async def _answer(bench: GoldenBench, command: Command) -> Record:
    """Exit code, writes, and what a machine would read."""
    bench.recorder.done.clear()
    repository = bench.repositories["platform"]
    arguments = command.arguments(repository.git("rev-parse", "HEAD").strip())
    done = await bench.levelgate(*arguments, directory=repository.path)
    answer: Record = {"exit": done.returncode, "writes": bench.writes()}
    if command.reads:
        answer["output"] = read_output(command.reads, done.stdout, bench.names)
    return answer


def read_output(kind: str, text: str, names: Mapping[str, str]) -> Any:
    """Return an output of this kind in its normal form."""
    try:
        if kind == "json":
            return normal(json.loads(text), names)
        if kind == "virtual":
            return json.loads(text)
        if kind == "yaml":
            return normal(json.loads(json.dumps(list(yaml.safe_load_all(text)), default=str)), names)
    except (ValueError, yaml.YAMLError):
        return {"unreadable": normal_text(text, names)}
    return normal_text(text, names).splitlines()
