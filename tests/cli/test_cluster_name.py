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
from gitops.cli import EXIT_USAGE, invoke
from tests.support.git.forge import TOKEN, FakeForge, Pull
from tests.support.git.repository import WorkTree

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


each_selection = pytest.mark.parametrize(
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


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkTree:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return WorkTree.create(tmp_path / "platform")


def freeze(cluster: str) -> str:
    return WINDOW.format(cluster=cluster, end=f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M}")


def configuration(work: WorkTree, cluster: str) -> str:
    """Return the path of a configuration that gives the cluster this name, if any."""
    named = f"cluster: {{name: {cluster}}}\n" if cluster else ""
    file = work.path.parent / "levelgate.yaml"
    head = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\n"
    file.write_text(f"{head}{named}sources: [{{name: platform, url: {work.path}}}]\n")
    return str(file)


@each_selection
def test_a_deny_window_holds_the_clusters_that_it_selects(
    work: WorkTree, capsys: pytest.CaptureFixture[str], named: str, selected: str, is_held: bool
) -> None:
    """Of a whole repository, carried out and looked at by the commands; who reads the cluster without the configuration sees the same."""
    work.commit(window=freeze(selected), one=OBJECT)
    config, kubeconfig = configuration(work, named), work.path.parent / "kubeconfig"
    place, cluster = str(work.path), ["--kubeconfig", str(kubeconfig)]

    def printed(*arguments: str) -> str:
        assert invoke(list(arguments)) == 0
        return capsys.readouterr().out

    with serving(kubeconfig):
        printed("run", "--once", "-c", config, *cluster)
        status = printed("status", *cluster)
        plan = printed("plan", place, "--source", "platform", *cluster)
        windows = printed("windows", "-o", "json", *cluster)
    assert ("WindowClosed" in status) == is_held
    assert ("1 to create" in plan, "window freeze" in plan) == (is_held, is_held)
    (shown,) = json.loads(windows)
    assert shown["name"] == "freeze"


@each_selection
def test_a_simulation_judges_windows_for_the_cluster_of_the_configuration(
    work: WorkTree, capsys: pytest.CaptureFixture[str], named: str, selected: str, is_held: bool
) -> None:
    """A plain object that a commit adds is created by the end, or not."""
    work.commit(window=freeze(selected))
    work.commit(one=OBJECT)
    until = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M}"
    period = ("--base", "main~1", "--head", "main", "--until", until, "--utc")
    config = ["--config", configuration(work, named)] if named else []
    assert invoke(["simulate", str(work.path), *period, "-o", "json", *config]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["kind"] for event in events if event["kind"] == "write"] == ["write"] * (not is_held)


@each_selection
def test_a_review_judges_windows_for_the_cluster_of_the_configuration(
    work: WorkTree, named: str, selected: str, is_held: bool
) -> None:
    forge, token = FakeForge("github"), work.path.parent / "token"
    token.write_text(TOKEN)
    work.commit(window=freeze(selected))
    work.git("checkout", "--quiet", "--detach", "main")
    head = work.commit(one=OBJECT)
    work.git("update-ref", "refs/pull/1/head", head)
    forge.pulls[1] = Pull(1, head)
    config = ["--config", configuration(work, named)] if named else []

    async def call() -> int:
        async with forge.serving():
            place = [str(work.path), "--forge", "github", "--api", forge.url, "--project", "acme/platform"]
            arguments = ["review", *place, "--token-file", str(token), "--once", *config]
            return await asyncio.to_thread(invoke, arguments)

    assert asyncio.run(call()) == 0
    assert ("1 create" in forge.bodies(1)[0], "freeze" in forge.bodies(1)[0]) == (True, is_held)


@each_selection
def test_the_windows_of_a_repository_govern_the_cluster_of_the_configuration(
    work: WorkTree, capsys: pytest.CaptureFixture[str], named: str, selected: str, is_held: bool
) -> None:
    work.commit(window=freeze(selected), one=OBJECT)
    config = ["--config", configuration(work, named)] if named else []
    assert invoke(["windows", str(work.path), "-o", "json", *config]) == 0
    (window,) = json.loads(capsys.readouterr().out)
    assert bool(window["targets"]) == is_held


def test_a_configuration_names_no_cluster_that_is_asked(work: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["windows", "--config", configuration(work, "prod-eu")]) == EXIT_USAGE
    assert "because a cluster records its name" in capsys.readouterr().err
