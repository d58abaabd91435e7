"""Figures of plans, offline, and against a server beside `kubectl diff` in the same run: `python -m bench.planning`.

Offline, one of many instances changes, without a server. The first run is cold, because it compiles the program.
Between runs, only the bytecode stays, as in an installation, and no data of the repository.

Against a server, the bench plans three pull requests: they change all objects, one in ten, and one object.
`kubectl diff` reads each object, and sends a dry run for each, with eight in flight. Levelgate sends dry runs for
changed objects, with 16 in flight. `bare` is the time of the server for the dry runs of Levelgate, sent by aiohttp
alone. A plan with a dry run for each changed object cannot take less.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from bench import applying, rendering
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.git.repository import Repository

OBJECTS, SERVED = 5_000, 1_000
CHANGED = (SERVED, SERVED // 10, 1)
RUNS = 5
FEW = 3
IN_FLIGHT = 16


def main() -> None:
    offline()
    served()


def offline() -> None:
    """Measure whole commands: the least wall clock of several runs, and their CPU."""
    print(f"\n{f'plan of one change among {OBJECTS:,} objects':<44} {'wall':>10} {'CPU':>10} {'cold':>10}")
    instances = OBJECTS // rendering.NODES
    for label, files, name in (
        (f"{instances} instances of {rendering.NODES} resources", rendering.repository(instances), "apps/00007.yaml"),
        (f"{OBJECTS:,} objects in files of their own", _plain(OBJECTS), "00007.yaml"),
    ):
        with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as folder:
            path = Path(folder)
            _write(path, files)
            for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "one")):
                _git(path, *arguments)
            _write(path, {name: files[name].replace(b"text-", b"next-")})
            command = (*_levelgate("plan", folder), "--source", "bench", "--base", "main", "--exit-code")
            with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as compiled:
                where = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
                (cold, _), *taken = [_run(command, where, code=2) for _ in range(1 + RUNS)]
        wall, cpu = (min(column) for column in zip(*taken, strict=True))
        print(f"{label:<44} {wall:>9.2f}s {cpu:>9.2f}s {cold:>9.2f}s")


def served() -> None:
    """Measure the same pull requests with Levelgate and kubectl."""
    print(
        f"\n{f'plan against a server of {SERVED:,} objects':<44} {'levelgate':>10} {'kubectl':>10} {'ratio':>8} {'bare':>10}"
    )
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as folder:
        path = Path(folder)
        with ControlPlane.start(path / "server") as server:
            repository = Repository(path / "repository")
            repository.path.mkdir()
            repository.git("init", "--quiet", "--initial-branch=main")
            files = {
                "namespace.json": _namespace(),
                **{f"{number}.json": _map(number, "one") for number in range(SERVED)},
            }
            repository.commit(files)
            where = {
                "KUBECONFIG": str(server.kubeconfig("levelgate")),
                "XDG_CACHE_HOME": str(path / "cache"),
                "PYTHONPYCACHEPREFIX": str(path / "compiled"),
                "PYTHONDONTWRITEBYTECODE": "",
            }
            _run(_levelgate("run", "--source", f"plans={repository.path}", "--once"), where)
            ours = _levelgate("plan", str(repository.path), "--source", "plans", "--exit-code")
            diff = (str(Path(sys.executable).with_name("kubectl")), "diff", "--server-side", "--concurrency=8")
            theirs = (*diff, "--force-conflicts", "-f", str(repository.path))
            log = AuditLog(server.audit_log)
            for changed in CHANGED:
                every = SERVED // changed
                values = {number: "one" if number % every else "two" for number in range(SERVED)}
                repository.commit({f"{number}.json": _map(number, value) for number, value in values.items()})
                begun = log.mark()
                _run(ours, where, code=2)
                dry_runs = [event for event in log.events(user="levelgate", since=begun) if event.is_dry_run]
                assert len(dry_runs) == changed, len(dry_runs)
                asked = [(event.uri, orjson.dumps(event.request)) for event in dry_runs]
                taken = [
                    (_run(ours, where, code=2), _run(theirs, where, code=1), _bare(server, asked)) for _ in range(FEW)
                ]
                for label, column in ((f"{changed:,} changed", 0), ("  CPU beside the server's", 1)):
                    mine, other, floor = (min(one[column] for one in runs) for runs in zip(*taken, strict=True))
                    print(f"{label:<44} {mine:>9.2f}s {other:>9.2f}s {mine / other:>8.2f} {floor:>9.2f}s")


def _bare(server: ControlPlane, requests: Sequence[tuple[str, bytes]]) -> tuple[float, float]:
    """Return the wall clock and CPU of bare requests, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(applying.send(server, "PATCH", requests, in_flight=IN_FLIGHT))
    return time.perf_counter() - wall, time.process_time() - cpu


def _plain(count: int) -> dict[str, bytes]:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{0}, namespace: default}}\ndata:\n  text: text-{0}\n"
    return {f"{number:05}.yaml": text.format(number).encode() for number in range(count)}


def _map(number: int, value: str) -> str:
    metadata = {"name": f"map-{number}", "namespace": "plans"}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})


def _namespace() -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plans"}})


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


def _git(path: Path, *arguments: str) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    subprocess.run(("git", *who, *arguments), cwd=path, check=True, stdout=subprocess.DEVNULL)


def _levelgate(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", "from gitops.cli import main; main()", *arguments)


def _run(command: Sequence[str], where: Mapping[str, str], *, code: int = 0) -> tuple[float, float]:
    """Run a command, check its exit code, and return its wall clock and CPU in seconds."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **where}
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, timeout=600, check=False)
    wall, after = time.perf_counter() - begin, os.times()
    assert done.returncode == code, done.stderr.decode() + done.stdout.decode()[-1000:]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


if __name__ == "__main__":
    main()
