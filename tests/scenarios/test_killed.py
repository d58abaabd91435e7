"""SIGKILL in the middle of an apply and of a prune, then a restart: the same end, the same order (fault table, "intermediate state")."""

from __future__ import annotations

import json

import pytest

from tests.support.command_killed import KILLED, run_killed
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, link


def kill_at(moment: str, killed: int) -> int:
    """After one write or two: the first may be the term of leadership, which each process puts on a parent anew; or before a later and later one,
    since writes of one round are sent side by side.
    """
    return 1 + killed % 2 if moment == "after" else killed + 2


def content(platform: CommandPlatform) -> dict[str, object]:
    """Everything of the test's namespace that Levelgate decides: data, labels, annotations but for uids and times."""
    found = json.loads(
        platform.kubectl("get", f"configmaps,chains.{platform.group}", "-n", platform.namespace, "-o", "json")
    )
    result = dict[str, object]()
    for item in found["items"]:
        annotations = {
            key: value
            for key, value in item["metadata"].get("annotations", {}).items()
            if not key.endswith("/parent-uid")
        }
        spec = item.get("data") or item.get("spec")
        result[f"{item['kind']}/{item['metadata']['name']}"] = (spec, item["metadata"].get("labels"), annotations)
    return result


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_write_of_an_apply_it_ends_as_if_it_had_not_been(
    platform: CommandPlatform, moment: str
) -> None:
    """I1, I3: at every crash point the parent's scope covers what is live, and no level is left out."""
    platform.repository.commit(
        {"chain.json": chain(platform.group), "one.json": link(platform.group, platform.namespace)}
    )
    since = platform.audit.mark()
    killed = 0
    while run_killed(platform, kill_at(moment, killed), moment) == KILLED:
        killed += 1
        assert killed < 60, "it never gets to the end"
        assert_scope_covers_members(platform)
    assert killed >= {"before": 3, "after": 8}[moment]
    created = [event.name for event in platform.writes(since) if event.resource == "configmaps" and event.code == 201]
    assert [name for name in created if name.startswith("one-")] == ["one-a", "one-b", "one-c", "one-d"]
    crashed = content(platform)
    platform.run_once()
    assert content(platform) == crashed
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_write_of_a_prune_it_keeps_the_order(platform: CommandPlatform, moment: str) -> None:
    """I4, S0-13: D, C, B, A also with a crash between any two; what remains in the cluster alone knows the order."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "abcde"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    platform.repository.commit({"chain.json": chain(platform.group, "e")})
    since = platform.audit.mark()
    killed = 0
    while run_killed(platform, kill_at(moment, killed), moment) == KILLED:
        killed += 1
        assert killed < 60, "it never gets to the end"
        assert_scope_covers_members(platform)
    assert killed >= {"before": 2, "after": 4}[moment]
    deleted = [
        event.name for event in platform.writes(since) if event.verb == "delete" and event.resource == "configmaps"
    ]
    assert list(dict.fromkeys(deleted)) == ["one-d", "one-c", "one-b", "one-a"]
    assert [name for name in content(platform) if "/one-" in name] == ["ConfigMap/one-e"]


def assert_scope_covers_members(platform: CommandPlatform) -> None:
    """I1: whatever carries the set's label lives in a kind that the parent names."""
    listed = platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "json", check=False)
    if not listed.startswith("{"):
        return  # the kind does not exist yet, so no parent and no member does
    members = platform.kubectl(
        "get", "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of", "-o", "name"
    ).split()
    for parent in json.loads(listed)["items"]:
        kinds = (
            parent["metadata"].get("annotations", {}).get("applyset.kubernetes.io/contains-group-kinds", "").split(",")
        )
        assert not members or "ConfigMap" in kinds
