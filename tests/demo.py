"""The main job, on screen, without a cluster: `sample-repo` is deployed, changed, rolled out, pruned and broken on the sandbox, and a pull request to
it planned. `-m tests.demo`.

Invariants: the daemon is the real one, every line shown comes from a running program, and each step checks what it did in the sandbox itself; the
first thing that is not as it should be ends the demo with exit code 1. Nothing is left behind: no process, no file outside a directory that is
removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from gitops.cli import EXIT_INTERRUPTED
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.waiting import eventually
from tests.scenarios.platform import Repository

SAMPLE = Path(__file__).parent.parent / "sample-repo"
NAMESPACES = ("staging", "prod")
SOURCE = "platform"
_WINDOW = """\
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {{name: soon}}
spec:
  kind: Allow
  timeZone: Etc/UTC
  selector: {{rgds: [webapps.platform.example.com]}}
  schedule:
    once:
    - {{start: '{opens:%Y-%m-%dT%H:%M:%S}', end: '{closes:%Y-%m-%dT%H:%M:%S}'}}
"""
LONGEST_STEP = 300.0
"""Seconds after which a step that does not come to its end has failed."""

# What must be gone before what: the graph of prod/shop, from its leaves to its roots, as the daemon names nodes.
_REVERSE = (
    ("WebApp prod/shop", "ingress", "service"),
    ("WebApp prod/shop", "service", "deployment"),
    ("WebApp prod/shop", "budget", "deployment"),
    ("WebApp prod/shop", "deployment", "settings"),
    ("Database prod/shop-db", "connection", "server"),
    ("Database prod/shop-db", "server", "service"),
    ("Product prod/shop", "web", "database"),
)


def _window(opens: datetime) -> str:
    """Open for two hours, once."""
    return _WINDOW.format(opens=opens, closes=opens + timedelta(hours=2))


def main() -> int:
    """Show everything in a directory that is removed. Answers the exit code."""
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


def show(directory: Path) -> None:
    """Go through all steps. Raises AssertionError where one is not as it should be."""
    repository = Repository(directory / SOURCE)
    shutil.copytree(SAMPLE, repository.path)
    subprocess.run(("git", "init", "--quiet", "--initial-branch=main"), cwd=repository.path, check=True)
    repository.commit({}, "A platform: three definitions, five instances")
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(directory / "cache"),
        "XDG_STATE_HOME": str(directory / "state"),
        "NO_COLOR": "1",
    }
    with Daemon.start(repository, environment) as daemon:
        demo = Demo(repository, environment, daemon, directory)
        for step in (demo.deploy, demo.change, demo.roll_out, demo.remove, demo.damage, demo.propose):
            step()


@dataclass
class Daemon:
    """`levelgate run --sandbox`, its lines shown as they come and kept in `lines`."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, repository: Repository, environment: Mapping[str, str]) -> Self:
        arguments = ("run", "--sandbox", "--source", f"{SOURCE}=.", "--interval", "5s")
        print(f"$ levelgate {' '.join(arguments)}", flush=True)
        process = subprocess.Popen(
            _command(*arguments),
            cwd=repository.path,
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
    """One repository, one daemon, one sandbox."""

    repository: Repository
    environment: Mapping[str, str]
    daemon: Daemon
    directory: Path
    step: int = 0

    def deploy(self) -> None:
        self._explain("The daemon reads the repository and opens level after level, as far as what is below is ready.")
        self._until_settled()
        applied = [
            self.daemon.position(0, "Database prod/shop-db", f"{node} created") for node in ("server", "connection")
        ]
        assert applied == sorted(applied), "a level opened too early"
        self._explain("All matches Git. See for yourself, in a second terminal:")
        assert "Everything matches Git." in self.levelgate("status", "--sandbox")
        assert "Deployment prod/shop" in self.levelgate("tree", "product/shop", "-n", "prod", "--sandbox")
        self._instances()

    def change(self) -> None:
        file = "apps/prod/docs.yaml"
        old = (self.repository.path / file).read_text()
        self._explain(
            "A commit changes an image. The daemon notices it at once; nothing but the Deployment is written."
        )
        since = self.commit({file: old.replace("docs:1.4.2", "docs:1.5.0")}, "docs 1.5.0 in production")
        self._until_settled()
        assert self._object("apis/apps/v1/namespaces/prod/deployments/docs")["spec"]["template"]["spec"]["containers"][
            0
        ]["image"].endswith("docs:1.5.0")
        written = [line for line in self.daemon.lines[since:] if line.endswith(("created", "updated", "deleted"))]
        assert len(written) == 2, f"more was written than the instance and its Deployment: {written}"

    def roll_out(self) -> None:
        """A changed definition waits for a window, then goes through its instances wave by wave."""
        file = "definitions/web-app.yaml"
        changed = (
            (self.repository.path / file).read_text().replace("{path: /, port: http}", "{path: /ready, port: http}")
        )
        self._explain(
            "A commit changes the definition of all web applications, and says that they change only in a window, tomorrow."
        )
        tomorrow = _window(datetime.now(UTC) + timedelta(days=1))
        since = self.commit({file: changed, "rules/soon.yaml": tomorrow}, "Ask /ready whether an application works")
        path = "apis/platform.example.com/v1alpha1/namespaces/prod/webapps/docs"
        self._until(lambda: self._propagated(path) == "WindowClosed")
        assert "window/soon" in self.levelgate("status", "--sandbox"), "the status does not name the window"
        why = self.levelgate("explain", "webapp/docs", "-n", "prod", "--sandbox")
        assert "window soon, Allow, closed" in why, "it is not explained what everything waits for"
        opens = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
        self._explain(
            f"Another commit moves the window: it opens at {opens:%H:%M:%S}Z. Staging goes first then, and production when staging is healthy"
            " (rules/web-apps.yaml)."
        )
        self.commit({"rules/soon.yaml": _window(opens)}, "Not tomorrow, now")
        self._until_settled()
        moved = [line for line in self.daemon.lines[since:] if "deployment updated" in line]
        assert min(moved) >= f"{opens:%Y-%m-%dT%H:%M:%SZ}", "moved before the window opened"
        staging, prod = (
            [self.daemon.position(since, f"WebApp {stage}/{name}", "deployment updated") for name in ("docs", "shop")]
            for stage in NAMESPACES
        )
        assert max(staging) < min(prod), "production went before staging"

    def remove(self) -> None:
        self._explain("A commit removes a product: an application, its database, and all that they are made of.")
        since = self.commit({"apps/prod/shop.yaml": None}, "The shop is closed")
        self._until_settled()
        self._explain("Each went only when nothing that needed it was left. Compare with the first deploy.")
        for owner, first, then in _REVERSE:
            gone = [self.daemon.position(since, owner, f"{node} deleted") for node in (first, then)]
            assert gone == sorted(gone), f"{owner}: {then} went before {first}"
        left = self._object("api/v1/namespaces/prod/configmaps")["items"]
        assert not [item for item in left if item["metadata"]["name"].startswith("shop")], "something was left over"

    def damage(self) -> None:
        docs, reports = "apps/prod/docs.yaml", "apps/prod/reports.yaml"
        old = {file: (self.repository.path / file).read_text() for file in (docs, reports)}
        self._explain(
            "A commit breaks one file and changes another. The broken one keeps what it has, the other goes on."
        )
        self.commit({docs: old[docs] + "  unclosed: [\n", reports: old[reports].replace("40", "80")}, "Two changes")
        self._until(lambda: self._record()["state"] == "Failed" and self._connections() == 80)
        assert "docs.yaml" in self.levelgate("status", "--sandbox")
        assert self._object("apis/apps/v1/namespaces/prod/deployments/docs")["metadata"]["name"] == "docs"
        self._explain("The next commit mends it.")
        self.commit({docs: old[docs]}, "Mend the docs")
        self._until_settled()
        self._instances()

    def propose(self) -> None:
        """The branch lies beside the working tree, whose HEAD the daemon follows."""
        self._explain(
            "A colleague opens a pull request: docs 1.6.0, and the reports go. This is the comment that its reviewers find."
        )
        self.repository.git("worktree", "add", "--quiet", "-b", "docs-1.6", "../proposal")
        proposal = Repository(self.directory / "proposal")
        file = "apps/prod/docs.yaml"
        text = (proposal.path / file).read_text().replace("docs:1.5.0", "docs:1.6.0")
        proposal.commit({file: text, "apps/prod/reports.yaml": None}, "docs 1.6.0, no reports any more")
        plan = self.levelgate("plan", ".", "--source", SOURCE, "--base", "main", "--head", "docs-1.6", "-o", "markdown")
        assert plan.startswith(f"<!-- levelgate:plan source={SOURCE} -->"), "it would not be found again"
        assert "docs:1.6.0" in plan, "the plan does not show the new image"
        assert "5 **delete**" in plan, "the plan does not show all that goes"
        timeline = self.levelgate("simulate", ".", "--base", "main", "--head", "docs-1.6", "--assume", "ready=2m")
        assert "all matches Git." in timeline, "the simulation did not come to its end"

    def levelgate(self, *arguments: str) -> str:
        """Run the command and show it."""
        print(f"$ levelgate {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            _command(*arguments),
            cwd=self.repository.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=LONGEST_STEP,
        )
        print(done.stdout, end="", flush=True)
        return done.stdout

    def commit(self, files: Mapping[str, str | None], message: str) -> int:
        """Commit, and give how many lines the daemon had said before."""
        said = len(self.daemon.lines)
        print(f'$ git commit --all --message "{message}"', flush=True)
        self.repository.commit(files, message)
        return said

    def _instances(self) -> None:
        print(f"$ kubectl --kubeconfig {self._kubeconfig} get platform -A")
        print(Kubectl(self._kubeconfig, self.directory / "kubectl")("get", "platform", "-A"), end="", flush=True)

    def _explain(self, text: str) -> None:
        self.step += 1
        print(f"\n--- {self.step}. {text}", flush=True)

    def _until(self, reached: Callable[[], bool]) -> None:
        def probe() -> bool:
            assert self.daemon.process.poll() is None, "the daemon ended"
            return self._kubeconfig.exists() and reached()

        eventually(probe, within=LONGEST_STEP, every=0.1)

    def _until_settled(self) -> None:
        head = self.repository.git("rev-parse", "HEAD").strip()
        self._until(lambda: (self._record()["state"], self._record()["applied"]) == ("Settled", head))

    def _record(self) -> dict[str, str]:
        found = self._object(f"api/v1/namespaces/levelgate-system/configmaps/source-{SOURCE}")
        return {"state": "", "applied": "", **found.get("data", {})}

    def _propagated(self, path: str) -> str:
        """The reason of an instance's condition `Propagated`."""
        conditions = self._object(path).get("status", {}).get("conditions", [])
        return next((str(one["reason"]) for one in conditions if one["type"] == "Propagated"), "")

    def _connections(self) -> int:
        path = "apis/platform.example.com/v1alpha1/namespaces/prod/databases/reports"
        connections: int = self._object(path)["spec"]["maxConnections"]
        return connections

    def _object(self, path: str) -> dict[str, Any]:
        """What the sandbox answers. Raises AssertionError while it does not."""
        server = json.loads(self._kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        try:
            with urlopen(f"{server}/{path}", timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
        except OSError as error:
            raise AssertionError(f"{path}: {error}") from None
        return found

    @property
    def _kubeconfig(self) -> Path:
        return Path(self.environment["XDG_STATE_HOME"]) / "levelgate" / "sandbox" / "kubeconfig"


def _command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", "from gitops.cli import main; main()", *arguments)


if __name__ == "__main__":
    sys.exit(main())
