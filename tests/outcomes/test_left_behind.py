"""A member whose label somebody took off while nobody looked, and that Git then drops, is told as left behind.

It is never deleted by itself. Each way out that is told is a command that works, and what is told ends with its cause.
"""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link

LABEL = "applyset.kubernetes.io/part-of"
SETTLED = "Everything matches Git."


def take_label(platform: CommandPlatform, name: str, kind: str = "configmap") -> None:
    platform.kubectl("label", kind, name, "-n", platform.namespace, f"{LABEL}-")


def left(platform: CommandPlatform) -> list[str]:
    """What `status` tells as left behind of this source, as kind and name."""
    document = json.loads(platform.levelgate("status", f"source/{platform.name}", "-o", "json").stdout)
    told = document["sources"][0]["leftBehind"]
    assert told["count"] == len(told["objects"])
    return [text.replace(f"/{platform.namespace}/", "/") for text in told["objects"]]


def ways(platform: CommandPlatform, *ref: str) -> list[list[str]]:
    """The commands of kubectl that `explain` tells, each as kubectl takes it."""
    told = platform.levelgate("explain", *ref, check=0).stdout
    commands = [line.partition("  kubectl ")[2] for line in told.splitlines() if "  kubectl " in line]
    return [shlex.split(command) for command in commands]


def follow_way(platform: CommandPlatform, verb: str, *ref: str) -> None:
    """Do what `explain` tells by the command of this verb."""
    (command,) = [command for command in ways(platform, *ref) if command[0] == verb]
    platform.kubectl(*command)


def names(platform: CommandPlatform) -> set[str]:
    found = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "name").split()
    return {name.removeprefix("configmap/") for name in found} - {"kube-root-ca.crt"}


def leave_behind(platform: CommandPlatform, *dropped: str) -> None:
    """A platform of plain objects, of which these have lost their label and are dropped."""
    space = platform.namespace
    files = {f"{name}.json": config_map(space, name) for name in ("a", *dropped)}
    platform.repository.commit(files)
    platform.run_once()
    for name in dropped:
        take_label(platform, name)
    platform.repository.commit(dict.fromkeys(f"{name}.json" for name in dropped))


@pytest.mark.both_servers
def test_a_plain_object_is_told_and_not_deleted(platform: CommandPlatform) -> None:
    """`run`, `status`, `explain` and the Event name it; also the runs after the inventory shrank say so."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": platform.namespace}}
    platform.repository.commit({"a.json": config_map(platform.namespace, "a"), "b.json": json.dumps(secret)})
    platform.run_once()
    take_label(platform, "b", "secret")
    platform.repository.commit({"b.json": None})
    done = platform.run_once()
    assert f"LeftBehind: 1 member is left behind: Secret/{platform.namespace}/b" in done.stdout
    for _ in range(2):
        assert left(platform) == ["Secret/b"]
        platform.run_once("--fail-on-held", check=3)
    status = platform.levelgate("status").stdout
    assert SETTLED not in status
    assert f"LeftBehind: source/{platform.name}: 1 member is left behind: Secret/{platform.namespace}/b" in status
    explained = platform.levelgate("explain", "secret/b", "-n", platform.namespace, check=0).stdout
    assert f"Secret {platform.namespace}/b is left behind since" in explained
    assert "a person must act" in explained
    assert ways(platform, "secret/b", "-n", platform.namespace) == ways(platform, f"source/{platform.name}")
    events = platform.kubectl("get", "events.v1.events.k8s.io", "-n", "levelgate-system", "-o", "json")
    told = [event for event in json.loads(events)["items"] if event["regarding"]["name"] == f"source-{platform.name}"]
    assert [event["type"] for event in told if event["reason"] == "LeftBehind"] == ["Warning"]


def test_deleted_by_the_command_that_is_told_it_is_forgotten(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    platform.run_once()
    follow_way(platform, "delete", "configmap/b", "-n", platform.namespace)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"a"})
    assert SETTLED in platform.levelgate("status", f"source/{platform.name}").stdout


@pytest.mark.both_servers
def test_given_back_by_the_command_that_is_told_it_is_pruned(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    platform.run_once()
    follow_way(platform, "label", "configmap/b", "-n", platform.namespace)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"a"})


def test_the_inventory_covers_the_last_one_of_its_kind_so_that_it_can_be_given_back(platform: CommandPlatform) -> None:
    """I1: also some runs after Git dropped it, and when nothing else of its kind is in the set."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": platform.namespace}}
    platform.repository.commit({"a.json": config_map(platform.namespace, "a"), "b.json": json.dumps(secret)})
    platform.run_once()
    take_label(platform, "b", "secret")
    platform.repository.commit({"b.json": None})
    for _ in range(2):
        platform.run_once()
    follow_way(platform, "label", "secret/b", "-n", platform.namespace)
    platform.run_once("--fail-on-held")
    assert left(platform) == []
    assert platform.kubectl("get", "secrets", "-n", platform.namespace, "-o", "name") == ""
    record = json.loads(
        platform.kubectl("get", "configmap", f"source-{platform.name}", "-n", "levelgate-system", "-o", "json")
    )
    assert record["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


def test_kept_by_the_command_that_is_told_it_is_nobodys(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    platform.run_once()
    follow_way(platform, "annotate", "configmap/b", "-n", platform.namespace)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"a", "b"})
    live = json.loads(platform.kubectl("get", "configmap", "b", "-n", platform.namespace, "-o", "json"))
    assert "levelgate.dev" not in json.dumps(live)


def test_wanted_by_git_again_it_is_a_member_again(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    platform.run_once()
    platform.repository.commit({"b.json": config_map(platform.namespace, "b", text="new")})
    platform.run_once("--fail-on-held")
    assert left(platform) == []
    live = json.loads(platform.kubectl("get", "configmap", "b", "-n", platform.namespace, "-o", "json"))
    assert (LABEL in live["metadata"]["labels"], live["data"]) == (True, {"text": "new"})
    platform.repository.commit({"b.json": None})
    platform.run_once("--fail-on-held")
    assert names(platform) == {"a"}


def test_of_several_each_is_explained(platform: CommandPlatform) -> None:
    leave_behind(platform, "b", "c")
    platform.run_once()
    told = platform.levelgate("explain", f"source/{platform.name}", check=0).stdout
    for name in ("b", "c"):
        assert f"levelgate explain configmap/{name} -n {platform.namespace}" in told
    follow_way(platform, "label", "configmap/b", "-n", platform.namespace)
    platform.run_once()
    assert (left(platform), names(platform)) == (["ConfigMap/c"], {"a", "c"})


def test_a_child_that_its_definition_dropped_is_told_and_pruned_once_given_back(platform: CommandPlatform) -> None:
    instance = link(platform.group, platform.namespace)
    platform.repository.commit({"chain.json": chain(platform.group, "ab"), "one.json": instance})
    platform.run_once()
    take_label(platform, "one-b")
    platform.repository.commit({"chain.json": chain(platform.group, "a")})
    platform.run_once()
    assert left(platform) == ["ConfigMap/one-b"]
    assert names(platform) == {"one-a", "one-b"}
    follow_way(platform, "label", "configmap/one-b", "-n", platform.namespace)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"one-a"})


def test_a_child_of_an_instance_that_is_gone_is_told(platform: CommandPlatform) -> None:
    """There is no set that could take it back, so only deleting and keeping it are told."""
    files = {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    platform.repository.commit({**files, "two.json": link(platform.group, platform.namespace, "two")})
    platform.run_once()
    take_label(platform, "one-b")
    platform.repository.commit({"one.json": None})
    platform.run_once(wait="20s")
    platform.run_once()
    assert left(platform) == ["ConfigMap/one-b"]
    assert names(platform) == {"one-b", "two-a", "two-b"}
    verbs = [command[0] for command in ways(platform, "configmap/one-b", "-n", platform.namespace)]
    assert verbs == ["delete", "annotate"]


def test_an_instance_given_back_goes_with_its_children(platform: CommandPlatform) -> None:
    kind, space = f"chain.{platform.group}", platform.namespace
    platform.repository.commit({"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, space)})
    platform.run_once()
    take_label(platform, "one", kind)
    platform.repository.commit({"one.json": None})
    platform.run_once()
    assert left(platform) == [f"Chain.{platform.group}/one"]
    assert names(platform) == {"one-a", "one-b"}
    assert [command[0] for command in ways(platform, f"{kind}/one", "-n", space)] == ["label", "annotate"]
    follow_way(platform, "label", f"{kind}/one", "-n", space)
    platform.run_once("--fail-on-held", wait="20s")
    assert (left(platform), names(platform)) == ([], set())


def test_an_instance_kept_by_the_command_that_is_told_stays_with_its_children(platform: CommandPlatform) -> None:
    kind, space = f"chain.{platform.group}", platform.namespace
    platform.repository.commit({"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, space)})
    platform.run_once()
    take_label(platform, "one", kind)
    platform.repository.commit({"one.json": None})
    platform.run_once()
    follow_way(platform, "annotate", f"{kind}/one", "-n", space)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"one-a", "one-b"})


def test_a_label_changed_to_a_set_that_does_not_exist_is_told(platform: CommandPlatform) -> None:
    """With the label of a set that exists, of whichever tool, the object is that set's matter."""
    space, other = platform.namespace, "applyset-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-v1"
    platform.repository.commit({f"{name}.json": config_map(space, name) for name in "abc"})
    platform.run_once()
    platform.kubectl("create", "secret", "generic", "theirs", "-n", space)
    platform.kubectl("label", "secret", "theirs", "-n", space, f"applyset.kubernetes.io/id={other}")
    platform.kubectl("label", "configmap", "b", "-n", space, f"{LABEL}={other}", "--overwrite")
    platform.kubectl("label", "configmap", "c", "-n", space, f"{LABEL}=nonsense", "--overwrite")
    platform.repository.commit({"b.json": None, "c.json": None})
    platform.run_once()
    assert (left(platform), names(platform)) == (["ConfigMap/c"], {"a", "b", "c"})
    follow_way(platform, "label", "configmap/c", "-n", space)
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"a", "b"})


def test_what_was_kept_or_never_ours_is_not_told(platform: CommandPlatform) -> None:
    """A person's `prune: disabled`, a released object, one with our manager alone, one with a copied record."""
    space = platform.namespace
    platform.repository.commit({f"{name}.json": config_map(space, name) for name in ("a", "kept", "copied")})
    platform.run_once()
    platform.kubectl("annotate", "configmap", "kept", "-n", space, "levelgate.dev/prune=disabled")
    take_label(platform, "kept")
    body = json.loads(platform.kubectl("get", "configmap", "copied", "-n", space, "-o", "json"))
    metadata = {"name": "copy", "namespace": space, "annotations": body["metadata"]["annotations"]}
    copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    platform.kubectl("apply", "--server-side", "--field-manager=levelgate", "-f", "-", stdin=json.dumps(copy))
    own = json.loads(config_map(space, "own"))
    platform.kubectl("apply", "--server-side", "--field-manager=levelgate", "-f", "-", stdin=json.dumps(own))
    platform.repository.commit({"kept.json": None})
    platform.run_once("--fail-on-held")
    assert (left(platform), names(platform)) == ([], {"a", "copied", "copy", "kept", "own"})


def test_children_that_were_released_are_not_told(platform: CommandPlatform) -> None:
    """`deletion-policy: orphan` takes the record off as well."""
    instance = json.loads(link(platform.group, platform.namespace))
    instance["metadata"]["annotations"] = {"levelgate.dev/deletion-policy": "orphan"}
    files = {"chain.json": chain(platform.group, "ab"), "one.json": json.dumps(instance)}
    platform.repository.commit({**files, "two.json": link(platform.group, platform.namespace, "two")})
    platform.run_once()
    platform.repository.commit({"one.json": None})
    platform.run_once("--fail-on-held", wait="20s")
    platform.run_once("--fail-on-held")
    assert left(platform) == []
    assert names(platform) == {"one-a", "one-b", "two-a", "two-b"}


def test_what_a_broken_file_may_still_want_is_not_told(platform: CommandPlatform) -> None:
    space = platform.namespace
    platform.repository.commit({"a.json": config_map(space, "a"), "b.json": config_map(space, "b")})
    platform.run_once()
    take_label(platform, "b")
    platform.repository.commit({"b.json": "apiVersion: [\n"})
    platform.run_once(check=1)
    assert left(platform) == []
    platform.repository.commit({"b.json": None})
    platform.run_once()
    assert left(platform) == ["ConfigMap/b"]


def test_the_plan_of_the_commit_says_that_it_stays(platform: CommandPlatform) -> None:
    space = platform.namespace
    platform.repository.commit({"a.json": config_map(space, "a"), "b.json": config_map(space, "b")})
    platform.run_once()
    take_label(platform, "b")
    platform.repository.commit({"b.json": None})
    planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name).stdout
    assert f"ConfigMap/b  in {space}   stays: left behind" in planned
    assert "0 to delete" in planned


def test_a_search_lists_metadata_of_the_places_of_the_inventory_once(platform: CommandPlatform) -> None:
    """The lists of the search name the namespaces of the sets, ask for no data, and are sent once by each process."""
    leave_behind(platform, "b")
    since = platform.audit.mark()
    platform.run_once(wait="2s")
    searches = [event for event in platform.requests(since) if event.verb == "list" and "%21applyset" in event.uri]
    assert {(event.resource, event.namespace) for event in searches} == {("configmaps", platform.namespace)}
    assert len(searches) == 1


def test_the_daemon_tells_it_at_its_start_and_forgets_it_with_a_resync(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    with platform.start("--resync", "1s"):
        eventually(lambda: left(platform) == ["ConfigMap/b"])
        follow_way(platform, "delete", "configmap/b", "-n", platform.namespace)
        eventually(lambda: left(platform) == [])


def test_a_label_put_back_while_the_daemon_runs_is_pruned_at_once(platform: CommandPlatform) -> None:
    leave_behind(platform, "b")
    with platform.start("--resync", "1h"):
        eventually(lambda: left(platform) == ["ConfigMap/b"])
        follow_way(platform, "label", "configmap/b", "-n", platform.namespace)
        eventually(lambda: names(platform) == {"a"})
        eventually(lambda: left(platform) == [])
