"""What reads by `externalRef` goes before what is read, where both go: in one set, between instances and sources, by name and by selector.

A finalizer on the reader shows the order: while it is there, nothing that it reads is asked to go. Readers that stay hold nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from renderer import well_known
from tests.support import command as process
from tests.support.command_killed import arm
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import config_map
from tests.support.git.repository import Repository
from tests.support.readers import BY_NAME, base, definition, instance, reader, reference, template

FINALIZER = "example.com/hold"
BY_SELECTOR = {"selector": {"matchLabels": {"team": "blue"}}}


def hold(platform: CommandPlatform, name: str) -> None:
    """Put a finalizer on a ConfigMap."""
    patch = json.dumps({"metadata": {"finalizers": [FINALIZER]}})
    platform.kubectl("patch", "configmap", name, "-n", platform.namespace, "--type", "merge", "-p", patch)


def let_go(platform: CommandPlatform, name: str) -> None:
    """Take it off again."""
    patch = json.dumps({"metadata": {"finalizers": None}})
    platform.kubectl("patch", "configmap", name, "-n", platform.namespace, "--type", "merge", "-p", patch)


def left(platform: CommandPlatform, *kinds: str) -> dict[str, bool]:
    """Members of the test's namespace, each with whether it is being deleted."""
    resources = ",".join(["configmaps", *(f"{kind.lower()}s.{platform.group}" for kind in kinds)])
    found = json.loads(
        platform.kubectl(
            "get", resources, "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of", "-o", "json"
        )
    )
    return {
        f"{item['kind']}/{item['metadata']['name']}": "deletionTimestamp" in item["metadata"] for item in found["items"]
    }


def deleted(platform: CommandPlatform, since: int) -> list[str]:
    """What was asked to be deleted, in the order of the requests."""
    return [
        f"{event.resource}/{event.name}"
        for event in platform.writes(since)
        if event.verb == "delete" and event.code == 200
    ]


def assert_reader_goes_first(platform: CommandPlatform, since: int, reader: str, *read: str) -> None:
    """The reader, which has a finalizer, is deleted; nothing that it reads is until it is gone."""
    wanted = deleted(platform, since)
    assert f"configmaps/{reader}" in wanted, wanted
    assert not set(wanted) & set(read), wanted
    let_go(platform, reader)
    platform.run_once(check=None)
    platform.run_once()
    wanted = deleted(platform, since)
    assert set(read) <= set(wanted), wanted
    assert all(wanted.index(f"configmaps/{reader}") < wanted.index(name) for name in read)
    assert left(platform) == {}


@pytest.mark.parametrize("target", [BY_NAME, BY_SELECTOR], ids=["name", "selector"])
def test_an_instance_that_reads_goes_before_the_instance_whose_object_it_reads(
    platform: CommandPlatform, target: Mapping[str, Any]
) -> None:
    """S0-11: also by a selector; of both the record is on the reader's child before it is needed."""
    group, namespace = platform.group, platform.namespace
    files = {
        "base.json": base(group),
        "reader.json": reader(group, target),
        "b.json": instance(group, "Base", namespace, "base"),
        "a.json": instance(group, "Reader", namespace, "a"),
    }
    platform.repository.commit(files)
    platform.run_once(check=None)
    platform.run_once()
    assert record(platform, "a-child")
    hold(platform, "a-child")
    platform.repository.commit({"a.json": None, "b.json": None})
    since = platform.audit.mark()
    platform.run_once(check=None)
    assert left(platform)["ConfigMap/base-shared"] is False
    assert_reader_goes_first(platform, since, "a-child", "configmaps/base-shared", "bases/base")


def record(platform: CommandPlatform, name: str) -> str:
    """What a member records to depend on."""
    found = json.loads(platform.kubectl("get", "configmap", name, "-n", platform.namespace, "-o", "json"))
    return str(found["metadata"].get("annotations", {}).get(well_known.DEPS, ""))


def test_a_plain_object_goes_after_its_reader(platform: CommandPlatform) -> None:
    """The target may be a plain object of the same source."""
    group, namespace = platform.group, platform.namespace
    platform.repository.commit(
        {
            "shared.json": config_map(namespace, "base-shared", key="value"),
            "reader.json": reader(group),
            "a.json": instance(group, "Reader", namespace, "a"),
        }
    )
    platform.run_once()
    hold(platform, "a-child")
    platform.repository.commit({"a.json": None, "shared.json": None})
    plan = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name, check=0).stdout
    assert f"used by ConfigMap/{namespace}/a-child" in plan
    assert f"after {namespace}/a" in plan
    since = platform.audit.mark()
    platform.run_once(check=None)
    assert_reader_goes_first(platform, since, "a-child", "configmaps/base-shared")


def test_readers_in_one_set_go_before_what_they_read(platform: CommandPlatform) -> None:
    """Both are nested in one instance, and no expression of that connects them."""
    group, namespace = platform.group, platform.namespace
    nested = [
        {
            "id": kind.lower(),
            "template": {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": {}},
        }
        for kind, name in (("Base", "base"), ("Reader", "a"))
    ]
    platform.repository.commit(
        {
            "base.json": base(group),
            "reader.json": reader(group),
            "both.json": definition(group, "Both", *nested),
            "one.json": instance(group, "Both", namespace, "one"),
        }
    )
    platform.run_once()
    hold(platform, "a-child")
    platform.repository.commit({"one.json": None})
    since = platform.audit.mark()
    platform.run_once(check=None)
    assert_reader_goes_first(platform, since, "a-child", "configmaps/base-shared", "bases/base")


def test_a_reader_of_another_source_goes_before_what_it_reads(platform: CommandPlatform, tmp_path: Path) -> None:
    """Both sources lose their part at the same time; the order does not depend on their names."""
    group, namespace = platform.group, platform.namespace
    other = Repository.create(tmp_path / "other")
    sources = ("--source", f"a-{platform.name}={other.path}")
    platform.repository.commit(
        {
            "base.json": base(group),
            "b.json": instance(group, "Base", namespace, "base"),
            "left.json": config_map(namespace, "left"),
        }
    )
    other.commit(
        {
            "reader.json": reader(group),
            "a.json": instance(group, "Reader", namespace, "a"),
            "right.json": config_map(namespace, "right"),
        }
    )
    platform.run_once(*sources)
    hold(platform, "a-child")
    platform.repository.commit({"b.json": None})
    other.commit({"a.json": None})
    since = platform.audit.mark()
    platform.run_once(*sources, check=None)
    wanted = deleted(platform, since)
    assert "configmaps/a-child" in wanted
    assert not {"configmaps/base-shared", "bases/base"} & set(wanted)
    let_go(platform, "a-child")
    platform.run_once(*sources)
    wanted = deleted(platform, since)
    assert wanted.index("configmaps/a-child") < wanted.index("configmaps/base-shared")


@pytest.mark.parametrize("restored", [False, True], ids=["unseen", "seen"])
def test_members_from_before_the_record_keep_the_order_too(platform: CommandPlatform, restored: bool) -> None:
    """What they read is known from the applied snapshot; a pass in between records it, and a plan shows no update for that."""
    group, namespace = platform.group, platform.namespace
    files = {
        "base.json": base(group),
        "reader.json": reader(group),
        "b.json": instance(group, "Base", namespace, "base"),
        "a.json": instance(group, "Reader", namespace, "a"),
    }
    platform.repository.commit(files)
    platform.run_once()
    platform.kubectl("annotate", "configmap", "a-child", "-n", namespace, f"{well_known.DEPS}-")
    if restored:
        plan = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name, check=0).stdout
        assert "0 to create, 0 to update" in plan
        platform.run_once()
        assert record(platform, "a-child")
    hold(platform, "a-child")
    platform.repository.commit({"a.json": None, "b.json": None})
    since = platform.audit.mark()
    platform.run_once(check=None)
    assert_reader_goes_first(platform, since, "a-child", "configmaps/base-shared", "bases/base")


def test_readers_that_stay_hold_nothing_and_are_told(platform: CommandPlatform) -> None:
    """`StillRead`: in the plan before, in the status while the object is there."""
    group, namespace = platform.group, platform.namespace
    files = {
        "base.json": base(group),
        "reader.json": reader(group),
        "b.json": instance(group, "Base", namespace, "base"),
        "a.json": instance(group, "Reader", namespace, "a"),
    }
    platform.repository.commit(files)
    platform.run_once()
    hold(platform, "base-shared")
    platform.repository.commit({"b.json": None})
    plan = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name, check=0).stdout
    assert "still read by" in plan
    assert f"ConfigMap/{namespace}/a-child" in plan
    since = platform.audit.mark()
    platform.run_once(check=None)
    assert {"configmaps/base-shared", "bases/base"} <= set(deleted(platform, since))
    told = platform.levelgate("explain", f"base.{group}/base", "-n", namespace, check=None).stdout
    assert "StillRead" in told
    let_go(platform, "base-shared")
    platform.run_once(check=None)
    assert "ConfigMap/base-shared" not in left(platform)
    assert left(platform)["ConfigMap/a-child"] is False


def test_readers_in_a_circle_are_deleted_all_the_same(platform: CommandPlatform) -> None:
    """Each reads what the other one made: no order holds, and nothing waits for ever."""
    group, namespace = platform.group, platform.namespace
    first = template(
        "child", "${schema.metadata.name}-child", {"read": "${found.?data.?key.orValue('')}", "key": "one"}
    )
    files = {
        "one.json": definition(group, "Left", reference("found", {"name": "r-child"}), first),
        "two.json": definition(group, "Right", reference("found", {"name": "l-child"}), first),
        "r-child.json": config_map(namespace, "r-child", key="made by hand"),
        "l.json": instance(group, "Left", namespace, "l"),
    }
    platform.repository.commit(files)
    platform.run_once()
    platform.repository.commit({"r-child.json": None, "r.json": instance(group, "Right", namespace, "r")})
    platform.run_once(check=None)
    platform.run_once(check=None)
    assert record(platform, "l-child")
    assert record(platform, "r-child")
    platform.repository.commit({"l.json": None, "r.json": None})
    platform.run_once(check=None)
    platform.run_once()
    assert left(platform) == {}


def test_killed_at_every_write_of_the_deletion_the_reader_goes_first(platform: CommandPlatform) -> None:
    """I4: what remains in the cluster alone knows the order, also when the process dies between any two writes."""
    group, namespace = platform.group, platform.namespace
    files = {
        "base.json": base(group),
        "reader.json": reader(group),
        "b.json": instance(group, "Base", namespace, "base"),
        "a.json": instance(group, "Reader", namespace, "a"),
    }
    platform.repository.commit(files)
    platform.run_once()
    platform.repository.commit({"a.json": None, "b.json": None})
    since, killed = platform.audit.mark(), 0
    arguments = ("run", "--source", f"{platform.name}={platform.repository.path}", "--once", "--wait", "0s")
    while process.run(arguments, platform.environment, before=arm, given=(1 + killed % 2, "after")).returncode == -9:
        killed += 1
        assert killed < 60, "it never gets to the end"
    assert killed >= 4
    assert left(platform) == {}
    wanted = deleted(platform, since)
    assert wanted.index("configmaps/a-child") < wanted.index("configmaps/base-shared")
