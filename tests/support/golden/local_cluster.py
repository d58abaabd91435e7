"""The outside of `levelgate run` with and without `fleet` in its configuration, where the one cluster of the fleet is `local`.

Both follow the same commits of the same sources. Another source, `clusters`, declares the cluster where there is a fleet, and does not where there
is none. What the fleet writes and prints of its own is left out, and so is what depends on how many of a wave settle at one moment: steps in between
of a rollout. In its place what is in the cluster at the end is part of the record.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from renderer.identity import OWN_NAMESPACE
from tests.support import command as process
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.demo.session import SAMPLE
from tests.support.faults.lane import Lane
from tests.support.faults.proxy import Upstream
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.golden.commands import Command
from tests.support.golden.normal import normal, normal_text, set_of, write_of
from tests.support.golden.record import (
    SAME_COMMITS,
    GoldenBench,
    Record,
    Recorder,
    commit_to,
    read_output,
    served_sandbox,
)
from tests.support.platform import OWN

CLUSTERS = "clusters"
DECLARED = """\
apiVersion: levelgate.dev/v1alpha1
kind: Cluster
metadata: {name: local}
"""
HARMLESS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: of-clusters, namespace: default}
"""
SHARED = (
    *(f"{OWN}/{name}" for name in ("source-clusters", "fleet-clusters", "cluster-local", "levelgate")),
    f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases/levelgate",
    "/api/v1/namespaces/default/configmaps/of-clusters",
)
"""What a play leaves outside of its lane."""

PLAYED = frozenset({"create", "update", "prune a diamond", "move between instances", "move between sources"})
"""Scenarios of the fault bench."""

STORY = {
    "change an image": ("apps/prod/docs.yaml", "docs:1.4.2", "docs:1.5.0"),
    "change a definition": ("definitions/web-app.yaml", "{path: /, port: http}", "{path: /ready, port: http}"),
    "remove an instance": ("apps/prod/shop.yaml", "", ""),
}
"""By step: a file, and what in it is replaced by what; by nothing: the file goes."""

SETTLED_SECONDS = 120.0
"""Seconds within which a commit is settled, however slow the machine is."""

COMMANDS = (
    Command("plan . --source platform -o json", "json"),
    Command("status --cluster local -o json", "json"),
    Command("tree webapp/docs -n prod -o json", "json"),
    Command("explain webapp/docs -n prod -o json", "json"),
    Command("explain source/platform -o json", "json"),
    Command("explain rollout/webapps.platform.example.com -o json", "json"),
    Command("history --source platform", "text"),
    Command("check", "text"),
    Command("wait --timeout 10s", "text"),
)
"""What is asked once all is settled. `--cluster` is left out where there is no fleet."""


@dataclass(frozen=True)
class Following:
    """One way of following: the sources beside `clusters`, and whether there is a fleet."""

    bench: GoldenBench
    sources: Sequence[str]
    is_fleet: bool

    def prepare(self) -> None:
        """Make the source `clusters`, and the configuration."""
        self.bench.repository(CLUSTERS).commit(
            {"harmless.yaml": HARMLESS, "cluster.yaml": DECLARED if self.is_fleet else "# Nothing is declared.\n"}
        )
        urls = {name: str(self.bench.repository(name).path) for name in (*self.sources, CLUSTERS)}
        config = {
            "apiVersion": "levelgate.dev/v1alpha1",
            "kind": "Config",
            **({"fleet": {"source": CLUSTERS, "directory": "."}} if self.is_fleet else {}),
            "sources": [{"name": name, "url": url, "interval": "1h"} for name, url in urls.items()],
        }
        self._config.write_text(json.dumps(config))

    async def run(self) -> Record:
        """Follow until all heads are settled, and end in good order; what was written and printed, each as a set."""
        self.bench.recorder.done.clear()
        heads = {name: self._head(name) for name in (*self.sources, CLUSTERS)}
        with process.RunningCommand(("run", "--config", str(self._config)), self.bench.environment) as running:
            printed = asyncio.create_task(asyncio.to_thread(running.stdout.read))
            async with asyncio.timeout(SETTLED_SECONDS):
                for name, head in heads.items():
                    while not await self._is_settled(name, head):
                        assert running.returncode is None, await printed
                        await asyncio.sleep(0.05)
            running.send_signal(signal.SIGTERM)
            text = await printed
            code = await asyncio.to_thread(running.wait, 60.0)
        return {"exit": code, "writes": self._writes(), "printed": dict.fromkeys(self._normal_lines(text), True)}

    async def answer(self, command: Command) -> Record:
        """Exit code and output of a command."""
        arguments = command.arguments(self._head(self.sources[0]))
        if not self.is_fleet and "--cluster" in arguments:
            where = arguments.index("--cluster")
            del arguments[where : where + 2]
        done = await self.bench.levelgate(*arguments, directory=self.bench.repository(self.sources[0]).path)
        return {"exit": done.returncode, "output": read_output(command.reads, done.stdout, self._names)}

    @property
    def _config(self) -> Path:
        return self.bench.directory / "levelgate.yaml"

    @property
    def _names(self) -> Mapping[str, str]:
        head = self._head(CLUSTERS)
        return {**self.bench.names, head: "<clusters>", head[:12]: "<clusters>", head[:7]: "<clusters>"}

    def _head(self, name: str) -> str:
        return self.bench.repository(name).git("rev-parse", "HEAD").strip()

    async def _is_settled(self, name: str, head: str) -> bool:
        answer = await self.bench.recorder.upstream.ask("GET", f"{OWN}/source-{name}")
        data = answer.json.get("data") or {} if answer.status == 200 else {}
        return bool(data.get("state") == "Settled" and data.get("applied") == head)

    def _writes(self) -> list[Any]:
        writes = [write_of(*request, self._names) for request in self.bench.recorder.done]
        return set_of(_settled_write(write) for write in writes if not _OWN_OR_TRANSIENT.search(write["path"]))

    def _normal_lines(self, text: str) -> list[str]:
        return [line for line in normal_text(text, self._names).splitlines() if line and not _GRADUAL.search(line)]


_OWN_OR_TRANSIENT = re.compile(r"/configmaps/(fleet|cluster)-|/controllerrevisions/applied-")
_GRADUAL = re.compile(r" wave \S+ |the event loop stood still|has not answered yet")


def _settled_write(write: Any) -> Any:
    """Return a write without the steps that led a rollout to where it is."""
    if "/configmaps/rollout-" not in write["path"] or not write["body"]:
        return write
    data = {name: value for name, value in write["body"]["data"].items() if name not in {"decisions", "waves"}}
    return {**write, "body": {**write["body"], "data": data}}


async def record_both() -> tuple[Record, Record]:
    """Play `sample-repo` and some scenarios of the fault bench; the records without a fleet and with one."""
    os.environ |= {**SAME_COMMITS, "GOMAXPROCS": "1"}
    records: tuple[Record, Record] = ({}, {})
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        directory = Path(name)
        samples = (
            record_sample(_made(directory / f"sample-{kind}"), is_fleet=kind == "fleet", steps=STORY)
            for kind in ("alone", "fleet")
        )
        for found, sample in zip(records, await asyncio.gather(*samples), strict=True):
            found["sample-repo"] = sample
        with ControlPlane.start(_made(directory / "server")) as plane:
            async with Upstream(plane) as upstream:
                for scenario in filter(lambda one: one.name in PLAYED, SCENARIOS):
                    lane = Lane(upstream, AuditLog(plane.audit_log), plurals=scenario.plurals)
                    await lane.open()
                    for found, is_fleet in zip(records, (False, True), strict=True):
                        place = _made(directory / f"{lane.token}-{is_fleet}")
                        found[scenario.name] = await record_scenario(place, lane, scenario, is_fleet=is_fleet)
    return records


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


async def record_sample(directory: Path, *, is_fleet: bool, steps: Collection[str]) -> Record:
    """Play steps of the story of `sample-repo` on a sandbox, and ask the commands at the end."""
    async with served_sandbox(directory) as bench:
        following = Following(bench, ("platform",), is_fleet)
        repository = bench.repository("platform")
        shutil.copytree(SAMPLE, repository.path, dirs_exist_ok=True)
        repository.commit({}, "deploy")
        following.prepare()
        played: Record = {"deploy": await following.run()}
        for step in steps:
            file, old, new = STORY[step]
            text = (repository.path / file).read_text()
            assert old in text, f"{file} does not say {old}"
            repository.commit({file: text.replace(old, new) if new else None}, step)
            played[step] = await following.run()
        played["commands"] = {command.line: await following.answer(command) for command in COMMANDS}
    return played


async def record_scenario(directory: Path, lane: Lane, scenario: Scenario, *, is_fleet: bool) -> Record:
    """Play a scenario of the fault bench, and end with an empty lane."""
    await lane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
    for path in SHARED:
        await lane.ask("DELETE", path)
    sources = sorted({lane.source(short) for commit in scenario.commits(lane) for short in commit})
    async with Recorder(lane.upstream) as recorder:
        following = Following(GoldenBench(directory, recorder, {str(directory): "/golden"}), sources, is_fleet)
        played: Record = {}
        for number, commit in enumerate(scenario.commits(lane)):
            await commit_to(following.bench, lane, commit)
            if not number:
                following.prepare()
            played[str(number)] = await following.run()
        left = {key: content for key, content in (await lane.objects()).items() if "/fleet-" not in str(key)}
        played["left"] = normal({str(key): content for key, content in left.items()}, {str(directory): "/golden"})
    await lane.wipe()
    for path in SHARED:
        await lane.ask("DELETE", path)
    return played
