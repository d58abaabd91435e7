"""Ratios of Levelgate to other programs, all measured in one run on this machine: `make bench`.

A ratio below 1 means that Levelgate took less. Times are seconds of wall clock; for the start-up, times are seconds of
CPU. Each time is the least of several runs, so that other work of the machine counts little. If a figure of the daemon
exceeds its limit, the bench ends with exit code 1.

`python -m bench.beside_kro`, which builds kro, and `python -m bench.fleet` take long, so this bench leaves them out.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import (
    applying,
    cel,
    gates,
    isolation,
    operation,
    planning,
    rendering,
    rollout,
    sandbox,
    simulation,
    standing,
    windows,
)
from bench._wanted import end

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    startup()
    rendering.main()
    cel.main()
    windows.main()
    rollout.main()
    gates.main()
    sandbox.main()
    simulation.main()
    planning.main()
    applying.main()
    end([*operation.main(), *isolation.main(), *standing.main()])


def startup() -> None:
    """Print the CPU of whole processes, as ratios to an interpreter that only starts and ends."""
    bare = min(cpu((sys.executable, "-c", "pass")) for _ in range(5))
    print(f"{'start-up':<44} {'seconds of CPU':>14}  {'x bare python':>13}")
    for label, arguments in (
        ("levelgate --help", ("--help",)),
        ("levelgate render sample-repo", ("render", str(ROOT / "sample-repo"))),
    ):
        taken = min(cpu(levelgate(*arguments)) for _ in range(5))
        print(f"{label:<44} {taken:>14.3f}  {taken / bare:>13.1f}")


def levelgate(*arguments: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name("levelgate")), *arguments)


def cpu(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
