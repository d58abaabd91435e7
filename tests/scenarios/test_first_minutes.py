"""The first ten minutes of a newcomer, as the README tells them: no cluster, no control plane, the real commands, a second terminal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually
from tests.support.git.repository import Repository
from tests.support.scenarios.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    platform = tmp_path / "platform"
    home = tmp_path / "home"
    home.mkdir()
    Terminal(home, tmp_path).levelgate("init", str(platform))
    subprocess.run(("git", "init", "--quiet"), cwd=platform, check=True)
    return Terminal(home, platform)


def is_settled(terminal: Terminal) -> bool:
    status = terminal.levelgate("status", "--sandbox", check=None)
    return "Settled" in status.stdout and "Everything matches Git." in status.stdout


def test_the_first_ten_minutes(terminal: Terminal, tmp_path: Path) -> None:
    """Everything that the README tells a newcomer to type works as written, on the sandbox."""
    terminal.levelgate("lint", ".")
    terminal.levelgate("render", ".")
    repository = Repository(terminal.directory)
    repository.commit({}, "first")
    with terminal.start("run", "--sandbox", "--source", ".") as daemon:
        try:
            assert eventually(lambda: is_settled(terminal))
            tree = terminal.levelgate("tree", "webapp/hello", "--sandbox").stdout
            assert [line.split()[-1] for line in tree.splitlines()[3:]] == ["Current"] * 4
            hello = (terminal.directory / "apps/hello.yaml").read_text()
            repository.commit({"apps/hello.yaml": hello.replace("1.0.0", "2.0.0")})
            kubectl = Kubectl(terminal.home / ".local/state/levelgate/sandbox/kubeconfig", tmp_path / "kubectl")
            image = "jsonpath={.spec.template.spec.containers[0].image}"
            assert eventually(
                lambda: kubectl("get", "deployment", "hello", "-o", image) == "ghcr.io/example/hello:2.0.0"
            )
            assert eventually(lambda: is_settled(terminal))
            assert "0 problems, 0 warnings." in terminal.levelgate("check", "--sandbox").stdout
            assert ", 0 to delete, " in terminal.levelgate("plan", ".", "--sandbox", "--exit-code").stdout
        finally:
            daemon.send_signal(signal.SIGINT)
            shown = daemon.communicate(timeout=60)
    assert shown.startswith("A sandbox, not a cluster"), "it never looks like a real cluster"
    assert daemon.returncode == 130
    gone = terminal.levelgate("status", "--sandbox", check=1)
    assert "no sandbox is running" in gone.stderr


def test_without_a_kubeconfig_a_command_says_so_and_takes_no_sandbox(terminal: Terminal) -> None:
    """Never a silent switch between a cluster and the sandbox."""
    Repository(terminal.directory).commit({}, "first")
    with terminal.start("run", "--sandbox", "--source", "."):
        assert eventually(lambda: is_settled(terminal))
        refused = terminal.levelgate("status", check=1)
    assert "give --kubeconfig, set KUBECONFIG, or try the command with --sandbox" in refused.stderr


def test_the_sandbox_and_a_cluster_cannot_be_named_together(terminal: Terminal) -> None:
    both = terminal.levelgate("status", "--sandbox", "--context", "prod", check=64)
    assert "leave out --kubeconfig and --context" in both.stderr
