"""`levelgate run --config` as people type it, on the sandbox: several sources that depend on each other (docs/configuration.md)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from applier.sandbox.endpoints.http import write_kubeconfig
from applier.sandbox.server import Sandbox
from tests.support.cluster.http_api import ServedApi
from tests.support.command import RunningCommand
from tests.support.git.repository import Repository
from tests.support.scenarios.terminal import Terminal

CONFIG = """\
apiVersion: levelgate.dev/v1alpha1
kind: Config
cluster: {context: prod-eu}
sources:
- {name: shop, url: shop, dependsOn: [platform]}
- {name: platform, url: platform, path: clusters/prod, policies: All}
"""


def repository(path: Path, **files: str) -> None:
    path.mkdir()
    subprocess.run(("git", "init", "--quiet"), cwd=path, check=True)
    Repository(path).commit({name.replace("__", "/") + ".yaml": text for name, text in files.items()}, "first")


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n"


def test_sources_are_followed_in_the_order_that_the_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    terminal = Terminal(tmp_path / "home", tmp_path)
    repository(tmp_path / "platform", clusters__prod__p=config_map("p"), other=config_map("not-read"))
    repository(tmp_path / "shop", s=config_map("s"))
    (tmp_path / "levelgate.yaml").write_text(CONFIG)
    done = terminal.levelgate("run", "--sandbox", "-c", "levelgate.yaml", "--once", "--log-format", "json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["message"] == "settled 2, progressing 0, waiting 0, held 0, failed 0"
    told = [line.get("message") or line["object"] for line in lines if "source" in line or "object" in line]
    waits = told.index("source shop waits until platform has been applied once")
    platform, shop = (
        next(place for place, text in enumerate(told) if text.endswith(f"/default/{name}")) for name in "ps"
    )
    assert waits < shop
    assert platform < shop
    assert not any("not-read" in text for text in told)


def test_a_replica_that_stands_by_says_that_the_configuration_is_rejected(tmp_path: Path) -> None:
    """Surface 2.5: the next leader's word, not only that of the one that leads now."""
    repository(tmp_path / "shop", s=config_map("s"))
    file = tmp_path / "levelgate.yaml"
    file.write_text("apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{name: shop, url: shop}]\n")
    api = ServedApi(Sandbox())
    write_kubeconfig(tmp_path / "kubeconfig", api.url)
    own = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "XDG_CACHE_HOME": str(tmp_path), "LEVELGATE_LISTEN": "off"}
    following = ("run", "--config", str(file), "--log-format", "json")
    try:
        with RunningCommand(following, {**os.environ, **own}) as leads:
            assert any('"action":"created"' in line for line in leads.stdout)
            with RunningCommand(following, {**os.environ, **own}) as waits:
                assert any("waits for the lease" in line for line in waits.stdout)
                file.write_text(file.read_text().replace("url: shop", "url: shop, pth: x"))
                assert any("rejected" in line and "did you mean 'path'?" in line for line in waits.stdout)
    finally:
        api.close()
