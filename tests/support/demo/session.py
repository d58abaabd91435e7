"""What the demos share: a repository, a daemon whose lines are shown as they come, commands that are shown as a person types them.

Invariants: the daemon is the real one, and every line shown comes from a running program. Nothing is left behind: no process, no file outside a
directory that is removed.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from gitops.cli import EXIT_INTERRUPTED
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually
from tests.support.git.repository import Repository

SAMPLE = Path(__file__).parents[3] / "sample-repo"
SOURCE = "platform"
LONGEST_STEP = 300.0
"""Seconds after which a step that does not come to its end has failed."""


def present(show: Callable[[Path], None]) -> int:
    """Show everything in a directory that is removed. Return the exit code."""
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="levelgate-demo-") as name:
            show(Path(name))
    except KeyboardInterrupt:
        print("\nInterrupted. The daemon is stopped, the directory is removed.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\nDone in {time.monotonic() - begin:.0f} seconds. The daemon is stopped, the directory is removed.")
    return 0


def own_environment(directory: Path) -> dict[str, str]:
    """Return the environment of commands whose cache and sandbox lie in `directory`."""
    own = {"XDG_CACHE_HOME": str(directory / "cache"), "XDG_STATE_HOME": str(directory / "state"), "NO_COLOR": "1"}
    return {**os.environ, **own}


@dataclass
class DemoDaemon:
    """`levelgate run`, its lines shown as they come and kept in `lines`."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Self:
        print(f"$ levelgate {shlex.join(arguments)}", flush=True)
        process = subprocess.Popen(
            command(*arguments),
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return cls(process)

    def __enter__(self) -> Self:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=60)
            finally:
                self.process.kill()
                self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            print(f"  | {line.rstrip()}", flush=True)

    def position(self, since: int, *words: str) -> int:
        """Where the daemon first said all of these words. Raises AssertionError."""
        for index, line in enumerate(self.lines[since:], since):
            if all(word in line for word in words):
                return index
        raise AssertionError(f"the daemon never said {' '.join(words)}")


@dataclass
class Demo:
    """One repository, one daemon, one sandbox. Commands are typed in `directory`."""

    repository: Repository
    environment: Mapping[str, str]
    daemon: DemoDaemon
    directory: Path
    step: int = 0

    def levelgate(self, *arguments: str, code: int = 0) -> str:
        """Run the command, show it and what it prints. Raises AssertionError where its exit code is another one."""
        print(f"$ levelgate {shlex.join(arguments)}", flush=True)
        done = subprocess.run(
            command(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST_STEP,
        )
        print(done.stdout, end="", flush=True)
        assert done.returncode == code, f"levelgate {shlex.join(arguments)} ended with exit code {done.returncode}"
        return done.stdout

    def kubectl(self, *arguments: str, into: str = "") -> None:
        """Run kubectl on the sandbox, and show it and what it prints; with `into`, that goes into a file of this path instead."""
        line = f"kubectl --kubeconfig {self.kubeconfig} {shlex.join(arguments)}"
        print(f"$ {line} > {into}" if into else f"$ {line}", flush=True)
        printed = Kubectl(self.kubeconfig, Path(self.environment["XDG_CACHE_HOME"]) / "kubectl")(*arguments)
        if into:
            (self.directory / into).write_text(printed)
        else:
            print(printed, end="", flush=True)

    def commit(self, files: Mapping[str, str | None], message: str) -> int:
        """Commit, and give how many lines the daemon had said before."""
        said = len(self.daemon.lines)
        print(f'$ git commit --all --message "{message}"', flush=True)
        self.repository.commit(files, message)
        return said

    def explain(self, text: str) -> None:
        self.step += 1
        print(f"\n--- {self.step}. {text}", flush=True)

    def until(self, reached: Callable[[], bool]) -> None:
        def probe() -> bool:
            assert self.daemon.process.poll() is None, "the daemon ended"
            return self.kubeconfig.exists() and reached()

        eventually(probe, within=LONGEST_STEP, every=0.1)

    def object(self, path: str, cluster: int = 0) -> dict[str, Any]:
        """What the sandbox answers, or one of its further clusters. Raises AssertionError while it does not."""
        server = json.loads(self.kubeconfig.read_text())["clusters"][cluster]["cluster"]["server"]
        try:
            with urlopen(f"{server}/{path}", timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
        except OSError as error:
            raise AssertionError(f"{path}: {error}") from None
        return found

    @property
    def head(self) -> str:
        return self.repository.git("rev-parse", "HEAD").strip()

    @property
    def kubeconfig(self) -> Path:
        return Path(self.environment["XDG_STATE_HOME"]) / "levelgate" / "sandbox" / "kubeconfig"


def command(*arguments: str) -> tuple[str, ...]:
    """Return the command line of `levelgate` with this Python."""
    return (sys.executable, "-c", "from gitops.cli import main; main()", *arguments)
