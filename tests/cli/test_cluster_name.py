"""The name by which windows select a cluster: `cluster.name` of the configuration, else `local` (docs/configuration.md)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from applier.sandbox.endpoints.http import serve, write_kubeconfig
from applier.sandbox.server import Sandbox
from gitops.cli import invoke
from tests.gitops.source.real_git import Work

WINDOW = """apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {{name: freeze}}
spec: {{kind: Deny, timeZone: UTC, schedule: {{once: [{{start: 2020-01-01T00:00, end: {end}}}]}}, selector: {{clusters: ["{cluster}"]}}}}
"""
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n"


@contextmanager
def serving(kubeconfig: Path) -> Iterator[None]:
    """An empty sandbox in a thread of its own: commands want the main one."""
    begun, loop, ended = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with serve(Sandbox().answer) as url:
            write_kubeconfig(kubeconfig, url)
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize(
    ("named", "selected", "is_held"),
    [
        ("", "*", True),
        ("", "local", True),
        ("prod-eu", "*", True),
        ("prod-eu", "prod-eu", True),
        ("prod-eu", "prod-*", True),
        ("prod-eu", "other", False),
        ("prod-eu", "local", False),
    ],
)
def test_a_deny_window_holds_the_clusters_that_it_selects(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    named: str,
    selected: str,
    is_held: bool,
) -> None:
    """Of a whole repository, carried out and looked at by the commands; who reads the cluster without the configuration sees the same."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    work = Work(tmp_path / "platform")
    work.path.mkdir()
    work.git("init", "--quiet", "--initial-branch=main")
    window = WINDOW.format(cluster=selected, end=f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M}")
    work.commit(window=window, one=OBJECT)
    config = tmp_path / "levelgate.yaml"
    said = f"cluster: {{name: {named}}}\n" if named else ""
    head = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\n"
    config.write_text(f"{head}{said}sources: [{{name: platform, url: {work.path}}}]\n")
    kubeconfig = tmp_path / "kubeconfig"
    place, cluster = str(work.path), ["--kubeconfig", str(kubeconfig)]

    def printed(*arguments: str) -> str:
        assert invoke(list(arguments)) == 0
        return capsys.readouterr().out

    with serving(kubeconfig):
        printed("run", "--once", "-c", str(config), *cluster)
        status = printed("status", *cluster)
        plan = printed("plan", place, "--source", "platform", *cluster)
        windows = printed("windows", "-o", "json", *cluster)
    assert ("WindowClosed" in status) == is_held
    assert ("1 to create" in plan, "window freeze" in plan) == (is_held, is_held)
    (shown,) = json.loads(windows)
    assert shown["name"] == "freeze"
