"""`levelgate run`: a flag counts more than the environment, and that more than the file (surface 1.1, rule 8); it ends in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gitops.cli import invoke
from gitops.notifications import delivery
from tests.support.git.repository import WorkTree

MINUTE = timedelta(minutes=1)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command hands to the process that it would start."""
    found: dict[str, Any] = {}

    class Started:
        def __init__(self, **given: Any) -> None:
            found.update(given, json=given["progress"]._json)

        async def run(self, _: object) -> int:
            return 0

    monkeypatch.setattr(import_module("gitops.cli.run"), "Process", Started)
    return found


@pytest.mark.parametrize(
    ("key", "name", "said", "values"),
    [
        ("applyConcurrency", "concurrency", ("8", "9", "10"), (16, 8, 9, 10)),
        ("maxConcurrentReconciles", "max_concurrent", ("2", "3", "4"), (1, 2, 3, 4)),
        ("listen", "listen", ("'off'", ":9", ":10"), ("", "off", ":9", ":10")),
        ("resync", "resync", ("1m", "2m", "3m"), (10 * MINUTE, MINUTE, 2 * MINUTE, 3 * MINUTE)),
        ("logFormat", "json", ("json", "text", "json"), (False, True, False, True)),
    ],
)
def test_a_flag_beats_the_environment_and_that_the_file(
    given: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    name: str,
    said: tuple[str, str, str],
    values: tuple[object, ...],
) -> None:
    """S2-1, S0-5: `--max-concurrent-reconciles` and `--apply-concurrency` among them."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in key)
    file, in_file = tmp_path / "levelgate.yaml", said[0]
    head = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{name: a, url: /a}]\n"
    found = []
    for line, environment, flag in (("", "", ""), (in_file, "", ""), (in_file, said[1], ""), said):
        file.write_text(f"{head}{key}: {line}\n" if line else head)
        monkeypatch.setenv(f"LEVELGATE_{words.upper().replace('-', '_')}", environment)
        assert invoke(["run", "--config", str(file), *([f"--{words}", flag] if flag else [])]) == 0
        found.append(given[name])
    assert tuple(found) == values


def test_a_value_of_the_environment_that_means_nothing_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEVELGATE_RESYNC", "often")
    assert invoke(["run", "--source", "."]) == 64
    assert "'often' is not a duration; write for example 90s, 30m, 1h30m or 2d" in capsys.readouterr().err


def test_it_ends_in_order(tmp_path: Path) -> None:
    """SIGTERM, as Kubernetes sends it: no traceback, and the page and all watches are let go."""
    work = WorkTree.create(tmp_path / "platform")
    work.commit(one="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n")
    begin = "from gitops.cli import main; main()"
    program = (sys.executable, "-c", begin, "run", "--sandbox", "--source", str(work.path), "--listen", "127.0.0.1:0")
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    with subprocess.Popen(
        program, env={**os.environ, **home}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "ConfigMap/default/one created" in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=120)[0]
    assert "Traceback" not in "".join(lines) + rest
    assert process.returncode == 130, "".join(lines) + rest


class Heard(BaseHTTPRequestHandler):
    """Takes what it is told the second time only."""

    bodies: ClassVar[list[dict[str, str]]] = []

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(503 if len(self.bodies) == 1 else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_once_tells_receivers_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(delivery, "MIN_RETRY_DELAY_SECONDS", 0.05)
    work = WorkTree.create(tmp_path / "platform")
    work.commit(one="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n")
    (tmp_path / "secret").write_text("s3cret\n")
    Heard.bodies.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Heard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "levelgate.yaml"
        file.write_text(
            "apiVersion: levelgate.dev/v1alpha1\nkind: Config\n"
            f"sources: [{{name: platform, url: {work.path}}}]\n"
            f"notifications: [{{name: team, webhook: {{url: 'http://127.0.0.1:{server.server_port}/', secretFile: secret}}}}]\n"
        )
        assert invoke(["run", "--once", "--sandbox", "-c", str(file)]) == 0
        server.shutdown()
    assert [(one["word"], one["object"]) for one in Heard.bodies] == [("Settled", "source/platform")] * 2
