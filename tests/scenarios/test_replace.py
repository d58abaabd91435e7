"""Objects that cannot be changed, and fields that others claim: what a person may allow, per object."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import config_map

REPLACE, CONFLICTS = "levelgate.dev/replace", "levelgate.dev/conflicts"


def frozen(platform: CommandPlatform, name: str, value: str, **annotations: str) -> str:
    """A ConfigMap whose data the server never changes."""
    metadata = {"name": name, "namespace": platform.namespace, "annotations": annotations}
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": {"a": value}}
    )


def live(platform: CommandPlatform, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        platform.kubectl("get", "configmap", name, "-n", platform.namespace, "-o", "json")
    )
    return found


def changes(platform: CommandPlatform, since: int, name: str) -> list[tuple[str, int]]:
    """Verbs and answers of the writes to one ConfigMap."""
    return [(event.verb, event.code) for event in platform.writes(since) if event.name == name]


def test_an_object_that_cannot_be_changed_fails_and_stays(platform: CommandPlatform) -> None:
    """Immutable fields: by default the node fails, what depends on it waits, and the report names the way out."""
    follower = json.loads(config_map(platform.namespace, "follower", a="one"))
    follower["metadata"]["annotations"] = {
        "config.kubernetes.io/depends-on": f"/namespaces/{platform.namespace}/ConfigMap/fixed"
    }
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "one"), "follower.json": json.dumps(follower)})
    platform.run_once()
    before = live(platform, "fixed")["metadata"]["uid"]
    follower["data"]["a"] = "two"
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "two"), "follower.json": json.dumps(follower)})
    since = platform.audit.mark()
    failed = platform.run_once(check=1)
    assert "field is immutable when `immutable` is set" in failed.stdout
    assert f"{REPLACE}: allowed" in failed.stdout
    assert live(platform, "fixed")["metadata"]["uid"] == before
    assert set(changes(platform, since, "fixed")) == {("patch", 422)}
    assert changes(platform, since, "follower") == []


def test_an_object_that_may_be_replaced_is_deleted_proven_and_created_again(platform: CommandPlatform) -> None:
    """Immutable fields: delete with uid and resourceVersion, absence, create; then nothing more is written."""
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "one")})
    platform.run_once()
    before = live(platform, "fixed")["metadata"]
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "two", **{REPLACE: "allowed"})})
    planned = platform.levelgate(
        "plan", str(platform.repository.path), "--source", platform.name, "--exit-code", check=2
    )
    assert f"-/+ ConfigMap/fixed  in {platform.namespace}" in planned.stdout
    assert "0 to create, 0 to update, 1 to replace, 0 to delete" in planned.stdout
    assert live(platform, "fixed")["metadata"]["uid"] == before["uid"]
    since = platform.audit.mark()
    platform.run_once()
    assert changes(platform, since, "fixed") == [("patch", 422), ("delete", 200), ("patch", 201)]
    deleted = next(event for event in platform.writes(since) if event.verb == "delete")
    assert deleted.request["preconditions"] == {"uid": before["uid"], "resourceVersion": before["resourceVersion"]}
    assert live(platform, "fixed")["data"] == {"a": "two"}
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


def test_a_replaced_object_with_a_finalizer_is_waited_for(platform: CommandPlatform) -> None:
    """Immutable fields: created again only when the old one is really gone, also after a restart; the annotation may be set with kubectl."""
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "one")})
    platform.run_once()
    fixed = ("configmap", "fixed", "-n", platform.namespace)
    platform.kubectl("patch", *fixed, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    platform.kubectl("annotate", *fixed, f"{REPLACE}=allowed")
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "two")})
    since = platform.audit.mark()
    platform.run_once(check=3)
    platform.run_once(check=3)
    assert [verb for verb, _ in changes(platform, since, "fixed")] == ["patch", "delete"]
    assert live(platform, "fixed")["data"] == {"a": "one"}
    platform.kubectl("patch", *fixed, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    platform.run_once()
    assert live(platform, "fixed")["data"] == {"a": "two"}
    assert REPLACE not in live(platform, "fixed")["metadata"]["annotations"]


def test_an_object_that_must_not_be_deleted_is_not_replaced(platform: CommandPlatform) -> None:
    """`prune: disabled` on the live object stands above `replace: allowed`."""
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "one")})
    platform.run_once()
    platform.kubectl("annotate", "configmap", "fixed", "-n", platform.namespace, "levelgate.dev/prune=disabled")
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "two", **{REPLACE: "allowed"})})
    since = platform.audit.mark()
    platform.run_once(check=1)
    assert set(changes(platform, since, "fixed")) == {("patch", 422)}


def test_a_plan_shows_what_the_server_would_refuse(platform: CommandPlatform) -> None:
    """The plan asks the server by a dry run: it shows the same refusal that the run would meet, and writes nothing."""
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "one")})
    platform.run_once()
    platform.repository.commit({"fixed.json": frozen(platform, "fixed", "two")})
    since = platform.audit.mark()
    planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name)
    assert "! ConfigMap/fixed" in planned.stdout
    assert f"{REPLACE}: allowed" in planned.stdout
    assert platform.writes(since) == []


def taken(platform: CommandPlatform, manager: str) -> None:
    """Somebody sets the field to another value in the name of `manager`."""
    patch = '{"data":{"a":"theirs"}}'
    platform.kubectl(
        "patch",
        "configmap",
        "plain",
        "-n",
        platform.namespace,
        "--type=merge",
        "-p",
        patch,
        f"--field-manager={manager}",
    )


def plain(platform: CommandPlatform, **annotations: str) -> str:
    manifest = json.loads(config_map(platform.namespace, "plain", a="ours"))
    manifest["metadata"]["annotations"] = annotations
    return json.dumps(manifest)


def test_a_field_of_another_manager_is_taken_only_by_word(platform: CommandPlatform) -> None:
    """Conflicts: reported with manager, field and the way out; `force` on the object takes the field, once."""
    platform.repository.commit({"plain.json": plain(platform)})
    platform.run_once()
    theirs = config_map(platform.namespace, "plain", a="theirs")
    platform.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=operator", "-f", "-", stdin=theirs)
    refused = platform.run_once(check=1)
    assert 'conflict with "operator": .data.a' in refused.stdout
    assert f"{CONFLICTS}: force" in refused.stdout
    assert live(platform, "plain")["data"] == {"a": "theirs"}
    platform.repository.commit({"plain.json": plain(platform, **{CONFLICTS: "force"})})
    platform.run_once()
    assert live(platform, "plain")["data"] == {"a": "ours"}
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


def test_a_plan_names_what_was_changed_by_hand_and_by_whom(platform: CommandPlatform) -> None:
    platform.repository.commit({"plain.json": plain(platform)})
    platform.run_once()
    taken(platform, "kubectl-patch")
    planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name)
    assert f"~ ConfigMap/plain  in {platform.namespace}   .data.a is changed by kubectl-patch" in planned.stdout


def test_a_change_by_hand_is_only_reported_where_that_was_asked_for(platform: CommandPlatform) -> None:
    """Conflicts: `report` leaves also kubectl's changes alone, and says so."""
    platform.repository.commit({"plain.json": plain(platform, **{CONFLICTS: "report"})})
    platform.run_once()
    taken(platform, "kubectl-patch")
    refused = platform.run_once(check=1)
    assert 'conflict with "kubectl-patch" using v1: .data.a' in refused.stdout
    assert live(platform, "plain")["data"] == {"a": "theirs"}
