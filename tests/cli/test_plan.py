"""`levelgate plan --config`: what the daemon would do under what its configuration says of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Typed
from tests.gitops.fleet import Fleet

CONFIG = """\
apiVersion: levelgate.dev/v1alpha1
kind: Config
sources:
- {name: platform, url: /platform, adopt: IfUnowned}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "levelgate.yaml").write_text(CONFIG)
    platform = tmp_path / "platform"
    platform.mkdir()
    (platform / "old.yaml").write_text(MAP % "old")
    (platform / "new.yaml").write_text(MAP % "new")
    return tmp_path


def test_a_plan_with_a_configuration_adopts_as_the_daemon_would(typed: Typed, place: Path) -> None:
    with Fleet(names=()) as fleet:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}}
        fleet.request("POST", "/api/v1/namespaces/default/configmaps", manifest)
        plain = typed(fleet, "plan", str(place / "platform"), "--source", "platform")
        assert "or adopt it (--adopt)" in plain
        config = ("--config", str(place / "levelgate.yaml"))
        planned = typed(fleet, "plan", str(place / "platform"), "--source", "platform", *config)
    assert "or adopt it (--adopt)" not in planned
    assert "  0  < ConfigMap/old" in planned


def test_a_source_that_the_configuration_does_not_know_is_told(typed: Typed, place: Path) -> None:
    with Fleet(names=()) as fleet:
        config = ("--config", str(place / "levelgate.yaml"))
        told = typed(fleet, "plan", str(place / "platform"), "--source", "platfrm", *config, code=1)
    assert "platfrm: is no source of the configuration; did you mean 'platform'?; name it: --source" in told
