"""`levelgate run` as people leave it: it follows commits, heals drift, waits without holding anything up, and stops safely."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command import RunningCommand
from tests.support.command_platform import CommandPlatform, text
from tests.support.definitions import chain, config_map, link


@pytest.fixture
def daemon(platform: CommandPlatform) -> Iterator[RunningCommand]:
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    with platform.start("--interval", "1h") as process:
        yield process


@pytest.mark.both_servers
def test_a_commit_is_followed_and_drift_is_healed(platform: CommandPlatform, daemon: RunningCommand) -> None:
    eventually(lambda: text(platform, "one-b") == "one")
    platform.repository.commit({"one.json": link(platform.group, platform.namespace, text="two")})
    eventually(lambda: text(platform, "one-b") == "two")
    platform.kubectl("delete", "configmap", "one-b", "-n", platform.namespace)
    eventually(lambda: text(platform, "one-b") == "two")


@pytest.mark.both_servers
def test_the_last_instance_of_a_definition_leaves_and_the_next_commit_is_followed(
    platform: CommandPlatform, daemon: RunningCommand
) -> None:
    """A rollout without instances has no waves to tell of."""
    eventually(lambda: text(platform, "one-b") == "one")
    platform.repository.commit({"one.json": None, "plain.json": config_map(platform.namespace, "plain", text="here")})
    eventually(
        lambda: not platform.kubectl("get", "configmap", "one-a", "-n", platform.namespace, "--ignore-not-found")
    )
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", text="later")})
    eventually(lambda: text(platform, "plain") == "later", within=30)
    assert daemon.returncode is None


@pytest.mark.both_servers
def test_it_stops_at_a_signal_and_the_next_start_goes_on(platform: CommandPlatform, daemon: RunningCommand) -> None:
    eventually(lambda: text(platform, "one-b") == "one")
    daemon.send_signal(signal.SIGINT)
    output = daemon.communicate(timeout=60)
    assert daemon.returncode == 130
    assert "interrupted" in output
    assert "Traceback" not in output
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", text="later")})
    platform.run_once()
    assert text(platform, "plain") == "later"


@pytest.mark.both_servers
def test_a_source_that_cannot_be_read_removes_nothing(platform: CommandPlatform) -> None:
    """I12: "cannot fetch" is never "empty"."""
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", text="here")})
    platform.run_once()
    gone = platform.repository.path.rename(platform.repository.path.with_name("moved"))
    failed = platform.run_once(check=1)
    assert "cannot be read" in failed.stdout
    assert text(platform, "plain") == "here"
    gone.rename(platform.repository.path)
    platform.run_once()


def test_without_a_cluster_it_says_what_it_looked_at(platform: CommandPlatform) -> None:
    missing = platform.levelgate(
        "run", "--source", str(platform.repository.path), "--once", "--kubeconfig", "/nowhere/config", check=1
    )
    assert "/nowhere/config" in missing.stderr
    assert "Traceback" not in missing.stderr
