"""Figures of Levelgate as ratios against others, measured in one run on this machine: `make bench`.

A ratio below 1 means that Levelgate took less. Times are seconds of wall clock, for start-up seconds of CPU; each is the least of several runs, so
that what else the machine does counts little.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import cel, rendering, rollout, sandbox, windows
from tests.controlplane.server import ControlPlane

ROOT = Path(__file__).resolve().parents[1]
OBJECTS = 1000


def main() -> None:
    startup()
    rendering.main()
    cel.main()
    windows.main()
    rollout.main()
    sandbox.main()
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name, ControlPlane.start(Path(name)) as server:
        throughput(Path(name), server.kubeconfig("levelgate"))


def startup() -> None:
    """CPU of a whole process, against the interpreter that only starts and ends."""
    bare = min(cpu((sys.executable, "-c", "pass")) for _ in range(5))
    print(f"{'start-up':<44} {'seconds of CPU':>14}  {'x bare python':>13}")
    for label, arguments in (
        ("levelgate --help", ("--help",)),
        ("levelgate render sample-repo", ("render", str(ROOT / "sample-repo"))),
    ):
        taken = min(cpu(levelgate(*arguments)) for _ in range(5))
        print(f"{label:<44} {taken:>14.3f}  {taken / bare:>13.1f}")


def throughput(directory: Path, kubeconfig: Path) -> None:
    """Create 1,000 small ConfigMaps, then apply the same again, against `kubectl apply --server-side`."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "XDG_CACHE_HOME": str(directory / "cache")}
    repository = directory / "repository"
    repository.mkdir()
    (repository / "all.yaml").write_text(manifests("ours"))
    (directory / "kubectl.yaml").write_text(manifests("theirs"))
    git = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "bench")):
        subprocess.run((*git, *arguments), cwd=repository, check=True)
    kubectl = (
        str(Path(sys.executable).with_name("kubectl")),
        "apply",
        "--server-side",
        "-f",
        str(directory / "kubectl.yaml"),
    )
    ours = levelgate("run", "--source", f"bench={repository}", "--once")
    print(f"\n{f'{OBJECTS} ConfigMaps':<44} {'levelgate':>10} {'kubectl':>10} {'ratio':>8}")
    for label in ("created", "unchanged"):
        mine, theirs = wall(ours, environment), wall(kubectl, environment)
        print(f"{label:<44} {mine:>9.2f}s {theirs:>9.2f}s {mine / theirs:>8.2f}")


def manifests(namespace: str) -> str:
    """A namespace and the ConfigMaps in it, as one YAML file of JSON documents."""
    items: list[dict[str, object]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]
    for number in range(OBJECTS):
        metadata = {"name": f"item-{number:04}", "namespace": namespace}
        items.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"number": str(number), "text": "x" * 200},
            }
        )
    return "\n---\n".join(map(json.dumps, items))


def levelgate(*arguments: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name("levelgate")), *arguments)


def cpu(command: Sequence[str]) -> float:
    return _measured(command, None, lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]))


def wall(command: Sequence[str], environment: dict[str, str]) -> float:
    return _measured(command, environment, time.perf_counter)


def _measured(command: Sequence[str], environment: dict[str, str] | None, clock: Callable[[], float]) -> float:
    before = clock()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return clock() - before


if __name__ == "__main__":
    main()
