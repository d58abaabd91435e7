"""`levelgate run --config` as people type it, on the sandbox: several sources that depend on each other (docs/configuration.md)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.scenarios.platform import Repository
from tests.scenarios.test_first_minutes import Terminal

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
    assert lines[-1]["message"] == "settled 2, held 0, waiting 0, failed 0"
    told = [line.get("message") or line["object"] for line in lines if "source" in line or "object" in line]
    waits = told.index("source shop waits until platform has been applied once")
    platform, shop = (
        next(place for place, text in enumerate(told) if text.endswith(f"/default/{name}")) for name in "ps"
    )
    assert waits < shop
    assert platform < shop
    assert not any("not-read" in text for text in told)
