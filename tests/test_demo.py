"""The sample repository and the demos do what they promise."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitops import source_config
from gitops.source import locations
from renderer.kinds import CRD
from renderer.render.render import render
from tests.support.demo import fleet as demo_fleet
from tests.support.demo import one_cluster as demo
from tests.support.demo.session import SAMPLE
from tests.support.documentation import ROOT, normalised, steps


def test_the_sample_repository_renders_without_a_problem() -> None:
    """Offline: definitions that build on one another, a node that waits for data, one that is left out, four levels."""
    bundle = render([source_config.load_catalog(locations.read_location(str(SAMPLE)))])
    assert bundle.problems == ()
    nodes = [node for rendered in bundle.sets for node in rendered.nodes]
    assert [node.error for node in nodes if node.error] == []
    assert sum(node.group_kind == CRD for node in nodes) == 3
    assert {node.id for node in nodes if node.waiting} == {"connection", "web"}
    assert {excluded.id for rendered in bundle.instances.values() for excluded in rendered.excluded} == {
        "budget",
        "ingress",
    }
    assert max(len(rendered.levels) for rendered in bundle.instances.values()) == 4
    assert {key.namespace for key in bundle.instances} == set(demo.NAMESPACES)


def test_whoever_breaks_the_demo_off_is_told_that_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[Path] = []

    def broken_off(directory: Path) -> None:
        shown.append(directory)
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "show", broken_off)
    assert demo.main() == 130
    assert "The daemon is stopped, the directory is removed." in capsys.readouterr().err
    assert not shown[0].exists()


def test_the_demo_runs_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo checks itself at every step; here it must come to its last one, and leave no process and no sandbox behind."""
    demo.show(tmp_path)
    assert "A colleague opens a pull request" in capsys.readouterr().out
    assert not (tmp_path / "state" / "levelgate" / "sandbox" / "kubeconfig").exists()


def test_the_fleet_demo_runs_to_its_end_and_the_docs_show_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S3-1, S3-7, S3-19, S3-22: a placement by labels, a cluster that hangs costs the others nothing, one is emptied and leaves."""
    demo_fleet.show(tmp_path)
    printed = printed_sections(capsys.readouterr().out)
    shown = list(steps("docs/fleet.md"))
    assert len(shown) > 5
    for typed, expected in shown:
        wanted = {normalised(line) for line in expected}
        missing = [wanted - lines for command, lines in printed if command == typed]
        assert set() in missing, [typed, *missing]
    assert not (tmp_path / "state" / "levelgate" / "sandbox" / "kubeconfig").exists()


def printed_sections(out: str) -> list[tuple[str, set[str]]]:
    """Return each command of a demo, the daemon first, with the lines that it printed."""
    start, *lines = out.splitlines()
    daemon: set[str] = set()
    sections: list[tuple[str, set[str]]] = [(start.removeprefix("$ "), daemon)]
    for line in lines:
        if line.startswith("  | "):
            daemon.add(normalised(line.removeprefix("  | ")))
        elif line.startswith("$ "):
            sections.append((line.removeprefix("$ "), set()))
        else:
            sections[-1][1].add(normalised(line))
    return sections


def test_ctrl_c_ends_the_fleet_demo_and_leaves_nothing(tmp_path: Path) -> None:
    """As a terminal does it, the signal reaches all of its processes."""
    with subprocess.Popen(
        (sys.executable, "-m", "tests.support.demo.fleet"),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout
        for line in running.stdout:
            if "Engaged" in line:
                break
        os.killpg(running.pid, signal.SIGINT)
        rest = running.stdout.read()
    assert running.returncode == 130
    assert "The daemon is stopped, the directory is removed." in rest
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
