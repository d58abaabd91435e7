"""A day with Levelgate: a script waits for its commit, somebody looks what it did, rolls back by a pin, and lets go (docs/people.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform, text
from tests.support.definitions import chain, link


def events(platform: CommandPlatform) -> list[dict[str, Any]]:
    found = platform.kubectl("get", "events.v1.events.k8s.io", "-n", platform.namespace, "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return [one for one in items if one["reportingController"] == "levelgate"]


@pytest.mark.both_servers
def test_a_day_with_levelgate(platform: CommandPlatform) -> None:
    """surface 1.2, 5.2: wait, reconcile, history, events, logs, pin and unpin, on what the daemon writes down."""
    source = f"source/{platform.name}"
    first = platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    with platform.start("--interval", "1h"):
        eventually(lambda: text(platform, "one-b") == "one")
        platform.levelgate("wait", source, "--revision", first, "--timeout", "2m")
        second = platform.repository.commit({"one.json": link(platform.group, platform.namespace, text="two")})
        platform.levelgate("reconcile", source, "--wait", "--timeout", "2m")
        platform.levelgate("wait", source, "--revision", second[:9], "--timeout", "2m")
        assert text(platform, "one-b") == "two"

        told = platform.levelgate("history", source, "--commit", second[:9]).stdout
        assert f"ConfigMap/{platform.namespace}/one-b updated" in told
        assert {"Updated", "Settled"} <= {one["reason"] for one in events(platform)}
        assert "moves to commit" in platform.levelgate("events", source).stdout
        assert "one-b updated" in platform.levelgate("logs", "-n", platform.namespace).stdout

        platform.levelgate("pin", source, "--revision", first, "--reason", "INC-7")
        eventually(lambda: text(platform, "one-b") == "one")
        # The record of the source follows its objects.
        eventually(lambda: "pinned to" in platform.levelgate("status", source, "-o", "wide").stdout)
        platform.levelgate("unpin", source)
        eventually(lambda: text(platform, "one-b") == "two")
        platform.levelgate("wait", source, "--revision", second, "--timeout", "2m")
