"""The sample repository and the demo do what they promise."""

from pathlib import Path

import pytest

from gitops import source_config
from gitops.source import locations
from renderer.kinds import CRD
from renderer.render.render import render
from tests import demo


def test_the_sample_repository_renders_without_a_problem() -> None:
    """Offline: definitions that build on one another, a node that waits for data, one that is left out, four levels."""
    bundle = render([source_config.load_catalog(locations.read_location(str(demo.SAMPLE)))])
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
