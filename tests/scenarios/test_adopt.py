"""Objects that were there before: adopted only by word, shown in the plan, and with their old owner's fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.objects import deployment

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def live(platform: CommandPlatform, kind: str = "configmap", name: str = "plain") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        platform.kubectl("get", kind, name, "-n", platform.namespace, "-o", "json", "--show-managed-fields")
    )
    return found


def managers(obj: dict[str, Any]) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


def plan(platform: CommandPlatform, adopt: str) -> str:
    done = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name, "--adopt", adopt)
    return done.stdout


def by_hand(platform: CommandPlatform, *how: str, **data: str) -> None:
    """Somebody applies a ConfigMap."""
    platform.kubectl("apply", *how, "-f", "-", stdin=config_map(platform.namespace, "plain", **data))


def test_what_exists_is_not_touched_without_a_word(platform: CommandPlatform) -> None:
    """I2: the default is Never; the report says how to go on."""
    by_hand(platform, a="theirs")
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="theirs")})
    before = live(platform)
    refused = platform.run_once(check=1)
    assert "exists and is not managed by Levelgate" in refused.stdout
    assert "--adopt" in refused.stdout
    assert live(platform) == before


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_what_kubectl_applied_is_adopted_with_its_fields(platform: CommandPlatform, how: tuple[str, ...]) -> None:
    """One change of the managed fields, one apply; afterwards a field removed from Git really goes away."""
    by_hand(platform, *how, a="one", b="two")
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="one", b="two")})
    shown = plan(platform, "IfEqual")
    assert f"< ConfigMap/plain  in {platform.namespace}\n" in shown
    assert "0 to create, 0 to update, 0 to replace, 0 to delete, 0 unchanged, 1 to adopt." in shown
    since = platform.audit.mark()
    adopted = platform.run_once("--adopt", "IfEqual")
    assert "ConfigMap/" in adopted.stdout
    assert "plain adopted" in adopted.stdout
    sent = [event for event in platform.writes(since) if event.name == "plain"]
    assert [(event.verb, event.code) for event in sent] == [("patch", 200), ("patch", 200)]
    assert set(sent[0].request["metadata"]) == {"uid", "resourceVersion", "managedFields"}
    assert managers(live(platform)) == {("levelgate", "Apply")}
    assert LAST_APPLIED not in live(platform)["metadata"]["annotations"]
    quiet = platform.audit.mark()
    platform.run_once("--adopt", "IfEqual")
    assert platform.writes(quiet) == []
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="one")})
    platform.run_once()
    assert live(platform)["data"] == {"a": "one"}


@pytest.mark.parametrize(
    ("git", "field"), [({"a": "two", "b": "two"}, ".data.a"), ({"a": "one"}, ".data.b")], ids=["changed", "removed"]
)
def test_what_would_change_is_not_adopted_as_equal(platform: CommandPlatform, git: dict[str, str], field: str) -> None:
    """IfEqual: a value that differs, and a field that Git does not say; plan and run name it, nothing is written."""
    by_hand(platform, a="one", b="two")
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", **git)})
    before = live(platform)
    shown = plan(platform, "IfEqual")
    assert "! ConfigMap/plain" in shown
    assert f"differs from Git in {field};" in shown
    refused = platform.run_once("--adopt", "IfEqual", check=1)
    assert f"differs from Git in {field};" in refused.stdout
    assert live(platform) == before


def test_what_belongs_to_nobody_is_brought_to_what_git_says(platform: CommandPlatform) -> None:
    """IfUnowned: changed fields are changed, fields that Git does not say are removed."""
    by_hand(platform, a="one", b="two")
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="ours")})
    shown = plan(platform, "IfUnowned")
    assert f"< ConfigMap/plain  in {platform.namespace}\n" in shown
    assert "data.a\n         - one\n         + ours\n" in shown
    assert "data.b\n         - " in shown
    platform.run_once("--adopt", "IfUnowned")
    assert live(platform)["data"] == {"a": "ours"}
    platform.repository.commit({"plain.json": None, "other.json": config_map(platform.namespace, "other", a="b")})
    platform.run_once()
    assert platform.kubectl("get", "configmap", "plain", "-n", platform.namespace, "--ignore-not-found") == ""


def test_another_tools_object_is_adopted_only_if_the_tool_is_named(platform: CommandPlatform) -> None:
    """The tool's mark is recognised; its field manager's fields become ours."""
    manifest = json.loads(config_map(platform.namespace, "plain", a="one", b="two"))
    manifest["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "apps"}
    platform.kubectl(
        "apply", "--server-side", "--field-manager=kustomize-controller", "-f", "-", stdin=json.dumps(manifest)
    )
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="ours")})
    refused = platform.run_once("--adopt", "IfUnowned", check=1)
    assert "managed by flux; suspend the object in Flux, and add --adopt IfUnowned:flux" in refused.stdout
    platform.run_once("--adopt", "IfUnowned:flux")
    adopted = live(platform)
    assert adopted["data"] == {"a": "ours"}
    assert managers(adopted) == {("levelgate", "Apply")}
    assert "kustomize.toolkit.fluxcd.io/name" not in adopted["metadata"]["labels"]


def test_what_a_controller_owns_is_never_adopted(platform: CommandPlatform) -> None:
    by_hand(platform, a="one")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "plain", "uid": live(platform)["metadata"]["uid"]}
    child = json.loads(config_map(platform.namespace, "child", a="one"))
    child["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    platform.kubectl("create", "-f", "-", stdin=json.dumps(child))
    platform.repository.commit({"child.json": config_map(platform.namespace, "child", a="ours")})
    refused = platform.run_once("--adopt", "IfUnowned", check=1)
    assert "ConfigMap plain controls" in refused.stdout
    assert live(platform, name="child")["data"] == {"a": "one"}


def test_defaults_of_an_adopted_deployment_stay(platform: CommandPlatform) -> None:
    """A client-side apply owns the defaults as well; giving them up changes nothing, and starts no new pods."""
    manifest = deployment({"name": "plain", "namespace": platform.namespace})
    platform.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    before = live(platform, "deployment")
    platform.repository.commit({"plain.json": json.dumps(manifest)})
    platform.run_once("--adopt", "IfEqual", check=None)
    after = live(platform, "deployment")
    assert after["spec"] == before["spec"]
    assert managers(after) == {("levelgate", "Apply")}
    quiet = platform.audit.mark()
    platform.run_once(check=None)
    assert platform.writes(quiet) == []


def test_a_wrong_rule_is_a_mistake_of_usage(platform: CommandPlatform) -> None:
    wrong = platform.levelgate("plan", ".", "--adopt", "Always", check=64)
    assert "'Always' is not an adoption policy; write one of Never, IfEqual, IfUnowned" in wrong.stderr
    wrong = platform.levelgate("plan", ".", "--adopt", "IfEqual:terraform", check=64)
    assert "cannot adopt from terraform; name one or more of kubectl, flux, argocd, helm, kro" in wrong.stderr


def test_many_objects_and_their_namespace_are_adopted_together(platform: CommandPlatform) -> None:
    """More than are read one by one; the Namespace is taken like everything else, and never deleted for it."""
    space = f"{platform.namespace}-old"
    files = {f"{number}.json": config_map(space, f"cm-{number}", a="b") for number in range(12)}
    files["space.json"] = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    platform.kubectl("create", "namespace", space)
    for text in list(files.values())[:12]:
        platform.kubectl("apply", "-f", "-", stdin=text)
    platform.repository.commit(files)
    assert "13 to adopt" in plan(platform, "IfEqual")
    platform.run_once("--adopt", "IfEqual")
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []
    commit = platform.repository.commit(
        {**dict.fromkeys(files), "keep.json": config_map(platform.namespace, "k", a="b")}
    )
    source = ("configmap", f"source-{platform.name}", "-n", "levelgate-system")
    platform.kubectl("annotate", *source, f"levelgate.dev/approved-commit={commit}")
    platform.run_once()
    assert platform.kubectl("get", "configmaps", "-n", space, "-o", "name") == ""
    assert platform.kubectl("get", "namespace", space, "-o", "name") == f"namespace/{space}\n"
    platform.kubectl("delete", "namespace", space, "--wait=false")


def test_an_instance_that_somebody_made_is_adopted_with_its_children(platform: CommandPlatform) -> None:
    """One catalog: what is not in Git is not reconciled; in Git and adopted, it is an instance like any other."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    stray = link(platform.group, platform.namespace, "stray")
    platform.kubectl("apply", "-f", "-", stdin=stray)
    platform.repository.commit({"stray.json": stray})
    assert "Conflict" in platform.run_once(check=1).stdout
    platform.run_once("--adopt", "IfUnowned")
    names = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "name")
    assert {"configmap/stray-a", "configmap/stray-b"} <= set(names.split())
    platform.repository.commit({"stray.json": None})
    platform.run_once(wait="2m")
    assert "stray" not in platform.kubectl("get", f"configmaps,chains.{platform.group}", "-n", platform.namespace)
