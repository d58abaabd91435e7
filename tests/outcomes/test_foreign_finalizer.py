"""What is being deleted behind a finalizer of another program is told as Terminating with that finalizer, whatever else breaks."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.scenarios.gates import window

HOLD = "example.com/hold"
BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [unclosed\n"
CLOSED = {"kind": "Deny", "timeZone": "UTC", "schedule": {"cron": "0 0 * * *"}, "duration": "24h", "verbs": ["prune"]}

Breaks = Callable[[CommandPlatform], dict[str, str | None]]


def unparsable(platform: CommandPlatform) -> dict[str, str | None]:
    return {"other.json": BROKEN}


def does_not_compile(platform: CommandPlatform) -> dict[str, str | None]:
    definition = chain(platform.group, "xy", kind="Other").replace("string | default", "strin | default")
    return {"other.json": definition}


def own_definition_breaks(platform: CommandPlatform) -> dict[str, str | None]:
    return {"chain.json": chain(platform.group, "ab").replace("string | default", "strin | default")}


def own_definition_goes(platform: CommandPlatform) -> dict[str, str | None]:
    return {"chain.json": None}


def own_file_breaks(platform: CommandPlatform) -> dict[str, str | None]:
    return {"one.json": BROKEN}


def hold(platform: CommandPlatform, kind: str, name: str) -> None:
    """A program of its own puts its finalizer on it."""
    patch = json.dumps([{"op": "add", "path": "/metadata/finalizers/-", "value": HOLD}])
    whole = json.dumps({"metadata": {"finalizers": [HOLD]}})
    if kind.startswith("chain"):
        platform.kubectl("patch", kind, name, "-n", platform.namespace, "--type=json", "-p", patch)
    else:
        platform.kubectl("patch", kind, name, "-n", platform.namespace, "--type=merge", "-p", whole)


def told(platform: CommandPlatform, *arguments: str) -> str:
    return " ".join(platform.levelgate(*arguments).stdout.split())


def explained(platform: CommandPlatform, ref: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        platform.levelgate("explain", ref, "-n", platform.namespace, "-o", "json").stdout
    )
    return found


def assert_instance_told(platform: CommandPlatform) -> None:
    """`status`, `explain` and `plan` say that it is Terminating, and name the finalizer."""
    ref = f"chain.{platform.group}/one"
    status = json.loads(platform.levelgate("status", "-o", "json").stdout)
    assert {one["state"] for one in status["blocked"] if one["name"] == "one"} == {"Terminating"}, status
    assert f"Terminating: {platform.namespace} chain/one: is being deleted" in told(platform, "status")
    text = told(platform, "status", "-o", "wide")
    assert f"{platform.namespace} chain/one DeletionBlocked" in text
    assert HOLD in text
    found = explained(platform, ref)
    assert found["state"] == "Terminating"
    assert HOLD in json.dumps(found["chain"])
    assert "RenderFailed" not in json.dumps(found["chain"])
    assert HOLD in told(platform, "plan", str(platform.repository.path), "--source", platform.name)


def deploy(platform: CommandPlatform) -> None:
    files = {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "two.json": link(platform.group, platform.namespace, "two"),
    }
    platform.repository.commit({**files, "other.json": config_map(platform.namespace, "other", text="one")})
    platform.run_once()


@pytest.mark.parametrize("breaks", [unparsable, does_not_compile])
def test_an_instance_that_left_git_stays_terminating_when_another_file_breaks(
    platform: CommandPlatform, breaks: Breaks
) -> None:
    """Before and after: only the finalizer is told of it; the broken file is told of its source."""
    deploy(platform)
    hold(platform, f"chains.{platform.group}", "one")
    platform.repository.commit({"one.json": None})
    platform.run_once(check=3)
    assert_instance_told(platform)
    platform.repository.commit(breaks(platform))
    broken = platform.run_once(check=1)
    assert "other.json" in broken.stdout
    assert_instance_told(platform)


@pytest.mark.parametrize("breaks", [unparsable, own_definition_breaks, own_definition_goes, own_file_breaks])
def test_an_instance_that_somebody_deleted_stays_terminating_whatever_breaks(
    platform: CommandPlatform, breaks: Breaks
) -> None:
    """Git wants it: it is made again once the finalizer is gone, and its children stay."""
    deploy(platform)
    hold(platform, f"chains.{platform.group}", "one")
    platform.kubectl("delete", f"chains.{platform.group}", "one", "-n", platform.namespace, "--wait=false")
    platform.run_once(check=3)
    assert_instance_told(platform)
    platform.repository.commit(breaks(platform))
    platform.run_once(check=1)
    assert_instance_told(platform)
    assert platform.kubectl("get", "configmap", "one-a", "-n", platform.namespace, "-o", "name")


def test_a_plain_object_that_left_git_names_its_finalizer_when_another_file_breaks(platform: CommandPlatform) -> None:
    deploy(platform)
    hold(platform, "configmap", "other")
    platform.repository.commit({"other.json": None, "kept.json": config_map(platform.namespace, "kept", text="one")})
    platform.run_once(check=3)
    for files in ({}, {"kept.json": BROKEN}):
        if files:
            platform.repository.commit(files)
            platform.run_once(check=1)
        assert HOLD in told(platform, "status", "-o", "wide")
        found = explained(platform, "configmap/other")
        assert found["state"] == "Terminating"
        assert HOLD in json.dumps(found["chain"])
        assert HOLD in told(platform, "plan", str(platform.repository.path), "--source", platform.name)


def test_a_child_names_its_finalizer_when_its_instance_cannot_be_rendered(platform: CommandPlatform) -> None:
    """The instance has failed, and its child is told beside that."""
    deploy(platform)
    hold(platform, "configmap", "one-b")
    platform.kubectl("delete", "configmap", "one-b", "-n", platform.namespace, "--wait=false")
    platform.run_once(check=3)
    assert HOLD in told(platform, "status", "-o", "wide")
    platform.repository.commit({"one.json": BROKEN})
    platform.run_once(check=1)
    assert HOLD in told(platform, "status", "-o", "wide")
    found = explained(platform, "configmap/one-b")
    assert found["state"] == "Terminating"
    assert HOLD in json.dumps(found["chain"])


def test_an_instance_behind_a_closed_window_and_a_finalizer_names_both(platform: CommandPlatform) -> None:
    """It left Git while its window was closed, and somebody deletes it: children stay until the window opens, also when a file breaks."""
    deploy(platform)
    platform.repository.commit({"window.json": window("freeze", CLOSED)})
    platform.run_once()
    hold(platform, f"chains.{platform.group}", "one")
    platform.repository.commit({"one.json": None})
    platform.run_once()
    platform.kubectl("delete", f"chains.{platform.group}", "one", "-n", platform.namespace, "--wait=false")
    platform.run_once(check=3)
    assert_instance_told(platform)
    assert "window freeze" in told(platform, "explain", f"chain.{platform.group}/one", "-n", platform.namespace)
    platform.repository.commit({"other.json": BROKEN})
    platform.run_once(check=1)
    assert_instance_told(platform)
    assert platform.kubectl("get", "configmap", "one-a", "-n", platform.namespace, "-o", "name")


@pytest.mark.both_servers
def test_a_namespace_that_terminates_names_what_it_still_holds(platform: CommandPlatform) -> None:
    """An instance with a finalizer keeps its Namespace; both are told, also when another file breaks."""
    space = f"{platform.namespace}-z"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    files = {
        "space.json": json.dumps(namespace),
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, space),
        "other.json": config_map(platform.namespace, "other", text="one"),
    }
    platform.repository.commit(files)
    platform.run_once()
    patch = json.dumps([{"op": "add", "path": "/metadata/finalizers/-", "value": HOLD}])
    platform.kubectl("patch", f"chains.{platform.group}", "one", "-n", space, "--type=json", "-p", patch)
    platform.kubectl("delete", "namespace", space, "--wait=false")
    platform.kubectl("delete", f"chains.{platform.group}", "one", "-n", space, "--wait=false", check=False)
    eventually(lambda: "deletionTimestamp" in platform.kubectl("get", "namespace", space, "-o", "json"))
    for files in ({}, {"other.json": BROKEN}):
        platform.repository.commit(
            {**files, "more.json": config_map(platform.namespace, f"more-{len(files)}", text="one")}
        )
        platform.run_once(check=None)
        found = told(platform, "explain", f"namespace/{space}")
        assert f"Chain {space}/one" in found, found
        assert HOLD in found
