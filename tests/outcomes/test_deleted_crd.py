"""Somebody deletes the CRD of a definition: what Git wants comes back with its children, what a window holds goes in order when that opens, and
every command says what waits for what.
"""

from __future__ import annotations

import json

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link

CLOSED = json.dumps(
    {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "freeze"},
        "spec": {
            "kind": "Deny",
            "timeZone": "UTC",
            "schedule": {"cron": "0 0 * * *"},
            "duration": "24h",
            "verbs": ["prune"],
        },
    }
)


def children(platform: CommandPlatform) -> dict[str, str]:
    """The uids of the ConfigMaps of instances, by name."""
    found = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "json")
    items = (one["metadata"] for one in json.loads(found)["items"])
    return {one["name"]: one["uid"] for one in items if one["name"] not in {"kube-root-ca.crt", "kept"}}


def instances(platform: CommandPlatform) -> set[str]:
    found = platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "name", check=False)
    return {line.rpartition("/")[2] for line in found.splitlines() if line.startswith("chain.")}


def crd_uid(platform: CommandPlatform) -> str:
    return platform.kubectl(
        "get", "crd", f"chains.{platform.group}", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"
    )


def delete_crd(platform: CommandPlatform, *options: str) -> None:
    platform.kubectl("delete", "crd", f"chains.{platform.group}", "--wait=false", *options)
    eventually(lambda: all(one in goes(platform) for one in instances(platform)))


def goes(platform: CommandPlatform) -> set[str]:
    """The instances that the API server deletes."""
    found = platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "json", check=False)
    items = json.loads(found)["items"] if found.startswith("{") else ()
    return {one["metadata"]["name"] for one in items if "deletionTimestamp" in one["metadata"]}


def told(platform: CommandPlatform, *arguments: str) -> str:
    return " ".join(platform.levelgate(*arguments).stdout.split())


def held_prune(platform: CommandPlatform, *, definition_goes: bool = False) -> None:
    """`one` has left Git while its window is closed; `two` stands in Git, unless the definition has left as well."""
    files: dict[str, str | None] = {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "window.json": CLOSED,
    }
    two = {"two.json": link(platform.group, platform.namespace, "two")}
    if definition_goes:
        two = {"kept.json": config_map(platform.namespace, "kept", text="stays")}
    platform.repository.commit({**files, **two})
    platform.run_once()
    platform.repository.commit({"one.json": None, **({"chain.json": None} if definition_goes else {})})
    platform.run_once()
    assert {"one-a", "one-b"} <= children(platform).keys()


def commit_approved(platform: CommandPlatform, files: dict[str, str | None]) -> str:
    """A commit that the brake stops until a person approves it; what it said."""
    commit = platform.repository.commit(files)
    said = platform.run_once(check=3).stdout
    platform.levelgate("approve", f"source/{platform.name}", "--commit", commit, check=0)
    return said


def assert_told(platform: CommandPlatform) -> None:
    """Every command names the instance, its window, its CRD and what ends it."""
    reason = "DeletionBlocked"
    status = told(platform, "status", "-o", "wide")
    assert f"{platform.namespace} chain/one {reason} window/freeze" in status
    explained = told(platform, "explain", f"chain.{platform.group}/one", "-n", platform.namespace)
    assert f"Chain {platform.namespace}/one is being deleted" in explained
    for word in (reason, f"chains.{platform.group}", "window freeze", "levelgate.dev/prune", "levelgate break-glass"):
        assert word in explained
    of_crd = told(platform, "explain", f"crd/chains.{platform.group}")
    for word in (reason, f"Chain {platform.namespace}/one", "window freeze", "levelgate break-glass chain/one"):
        assert word in of_crd
    planned = told(platform, "plan", str(platform.repository.path), "--source", platform.name)
    assert "Chain/one" in planned
    assert f"gate: freeze ({reason})" in planned, planned


@pytest.mark.both_servers
def test_a_crd_that_goes_while_a_prune_is_held_waits_for_its_window_and_says_so(platform: CommandPlatform) -> None:
    """The prune stays held. The instance that Git wants is let go, its children stay; all ends when the window opens."""
    held_prune(platform)
    before, uid = children(platform), crd_uid(platform)
    delete_crd(platform)
    for _ in range(2):  # a new process each time
        assert "DeletionBlocked" in platform.run_once(check=3).stdout
    assert children(platform) == before
    assert instances(platform) == {"one"}
    assert_told(platform)
    platform.repository.commit({"window.json": None})
    platform.run_once(wait="2m")
    assert instances(platform) == {"two"}
    assert children(platform) == {name: uid for name, uid in before.items() if name.startswith("two-")}
    assert crd_uid(platform) not in {"", uid}
    assert "Everything matches Git" in told(platform, "status")


def test_break_glass_ends_a_prune_that_holds_a_deleted_crd(platform: CommandPlatform) -> None:
    """The daemon notices the deletion and the break-glass; children go in order, and only then the instance and its CRD."""
    held_prune(platform)
    uid, since = crd_uid(platform), platform.audit.mark()
    with platform.start("--interval", "1h"):
        delete_crd(platform)
        eventually(lambda: "DeletionBlocked" in told(platform, "status", "-o", "wide"))
        assert "one-a" in children(platform)
        asked = ("--for", "1h", "--reason", "the CRD has to come back")
        platform.levelgate("break-glass", f"chain.{platform.group}/one", "-n", platform.namespace, *asked, check=0)
        eventually(lambda: crd_uid(platform) not in {"", uid})
        eventually(lambda: instances(platform) == {"two"})
    assert children(platform).keys() == {"two-a", "two-b"}
    deleted = [one.name for one in platform.writes(since) if one.verb == "delete" and one.resource == "configmaps"]
    assert deleted == ["one-b", "one-a"]


def test_a_definition_that_left_git_with_its_instance_goes_with_its_crd_when_the_window_opens(
    platform: CommandPlatform,
) -> None:
    """RGD and instance leave in one commit, the window is closed, and somebody deletes the CRD: it is not made again."""
    held_prune(platform, definition_goes=True)
    delete_crd(platform)
    assert "DeletionBlocked" in platform.run_once(check=3).stdout
    assert children(platform).keys() == {"one-a", "one-b"}
    assert_told(platform)
    platform.repository.commit({"window.json": None})
    platform.run_once(wait="2m")
    assert (children(platform), crd_uid(platform)) == ({}, "")


@pytest.mark.parametrize("options", [(), ("--cascade=orphan",)])
def test_a_crd_that_goes_alone_comes_back_with_its_instances_and_their_children(
    platform: CommandPlatform, options: tuple[str, ...]
) -> None:
    """Nothing is pruned, and nothing is told for ever; with an orphan finalizer, for which its controller has to come, that one is named."""
    files = {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "window.json": CLOSED,
    }
    platform.repository.commit(files)
    platform.run_once()
    before, uid = children(platform), crd_uid(platform)
    delete_crd(platform, *options)
    found = platform.run_once(check=None).stdout
    name = f"chains.{platform.group}"
    live = platform.kubectl("get", "crd", name, "--ignore-not-found", "-o", "jsonpath={.metadata.finalizers}")
    if "orphan" in live:  # no garbage collector runs here
        assert "orphan" in found
        kept = json.dumps({"metadata": {"finalizers": [one for one in json.loads(live) if one != "orphan"]}})
        platform.kubectl("patch", "crd", name, "--type=merge", "-p", kept)
    platform.run_once(wait="2m")
    assert instances(platform) == {"one"}
    assert children(platform) == before
    assert crd_uid(platform) not in {"", uid}


def test_children_whose_instance_left_git_while_its_crd_was_gone_are_pruned(platform: CommandPlatform) -> None:
    """The instance went with the CRD before a commit removed it: its children are found by the record of the source, and go in order."""
    held_prune(platform)
    delete_crd(platform)
    platform.run_once(check=3)
    assert instances(platform) == {"one"}
    braked = commit_approved(platform, {"two.json": None})
    assert "6 of " in braked
    held = platform.run_once(check=3)
    assert "window freeze" in held.stdout
    assert children(platform).keys() == {"one-a", "one-b", "two-a", "two-b"}
    assert "two-b" in told(platform, "status", "-o", "wide")
    commit_approved(platform, {"window.json": None})
    platform.run_once(wait="2m")
    assert (children(platform), instances(platform)) == ({}, set())
    assert platform.run_once(check=0).stdout.count("deleted") == 0


def test_children_of_an_instance_whose_finalizer_somebody_took_off_are_pruned(platform: CommandPlatform) -> None:
    """Who takes the finalizers off, as the usual advice for a stuck CRD says, leaves no children behind that Git does not want."""
    held_prune(platform)
    delete_crd(platform)
    platform.run_once(check=3)
    no_finalizers = json.dumps({"metadata": {"finalizers": None}})
    platform.kubectl(
        "patch", f"chains.{platform.group}", "one", "-n", platform.namespace, "--type=merge", "-p", no_finalizers
    )
    eventually(lambda: crd_uid(platform) == "")
    platform.run_once(check=None, wait="2m")
    assert "one-b" in told(platform, "status", "-o", "wide")
    assert {"one-a", "one-b"} <= children(platform).keys()
    platform.repository.commit({"window.json": None})
    platform.run_once(wait="2m")
    assert children(platform).keys() == {"two-a", "two-b"}


def test_a_suspended_instance_that_goes_with_its_crd_says_who_can_act(platform: CommandPlatform) -> None:
    """Nothing of it is written, not even its finalizer; its resumption lets the CRD come back, and the children stay."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    before, uid = children(platform), crd_uid(platform)
    name = (f"chain.{platform.group}/one", "-n", platform.namespace)
    platform.levelgate("suspend", *name, "--reason", "INC-7", check=0)
    delete_crd(platform)
    assert "DeletionBlocked" in platform.run_once(check=3).stdout
    assert "levelgate resume" in told(platform, "explain", f"crd/chains.{platform.group}")
    platform.levelgate("resume", *name, check=0)
    platform.run_once(wait="2m")
    assert children(platform) == before
    assert crd_uid(platform) not in {"", uid}
