"""What others write again and again, and what admission makes of a write: bounded, named, and never an endless difference."""

from __future__ import annotations

import json

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import config_map
from tests.support.objects import builtins


def value(platform: CommandPlatform) -> str:
    return platform.kubectl(
        "get", "configmap", "plain", "-n", platform.namespace, "-o", "jsonpath={.data.a}", check=False
    )


def applies(platform: CommandPlatform, since: int) -> int:
    """How often the ConfigMap `plain` was applied; refusals of a first try without force are not counted."""
    return sum((event.verb, event.name, event.code // 100) == ("patch", "plain", 2) for event in platform.writes(since))


def test_a_field_that_is_changed_back_again_and_again_is_named_and_left_for_a_while(platform: CommandPlatform) -> None:
    """I11: three repairs at once, then the fight is reported with field and manager, and the rate of writes is bounded."""
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="ours")})
    with platform.start("--interval", "1h"):
        eventually(lambda: value(platform) == "ours")
        since = platform.audit.mark()
        patch = (
            "patch",
            "configmap",
            "plain",
            "-n",
            platform.namespace,
            "--type=merge",
            "-p",
            '{"data":{"a":"theirs"}}',
        )
        for _ in range(3):
            platform.kubectl(*patch, "--field-manager=kubectl-cron")
            eventually(lambda: value(platform) == "ours")
        platform.kubectl(*patch, "--field-manager=kubectl-cron")
        told = eventually(lambda: conflict(platform))
        assert (value(platform), applies(platform, since)) == ("theirs", 3)  # for a minute
    assert ".data.a is changed by kubectl-cron, repeatedly: healed 3 times" in told


def conflict(platform: CommandPlatform) -> str:
    """What the status tells of one; empty while it tells of none."""
    told = platform.levelgate("status", "-o", "json").stdout
    return told if "Conflict" in told else ""


MUTATIONS = {
    "changed": '[JSONPatch{op: "replace", path: "/data/a", value: "by policy"}]',
    "removed": '[JSONPatch{op: "remove", path: "/data/a"}, JSONPatch{op: "add", path: "/data/z", value: "by policy"}]',
}


def mutated(platform: CommandPlatform, expression: str) -> None:
    """An admission policy for ConfigMaps of the test's namespace that carry the label `mutate`; in force on return."""
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    constraints = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": platform.namespace}},
        "objectSelector": {"matchLabels": {"mutate": "please"}},
        "resourceRules": [rule],
    }
    spec = {
        "matchConstraints": constraints,
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    name = {"name": platform.namespace}
    policy = {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": name, "spec": spec}
    binding = {
        "apiVersion": api,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": name,
        "spec": {"policyName": platform.namespace},
    }
    for manifest in (policy, binding):
        platform.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    probe = labelled(platform, "probe", "x")
    eventually(
        lambda: "by policy" in platform.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=probe)
    )


def labelled(platform: CommandPlatform, name: str, text: str) -> str:
    manifest = json.loads(config_map(platform.namespace, name, a=text))
    manifest["metadata"]["labels"] = {"mutate": "please"}
    return json.dumps(manifest)


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_what_admission_makes_of_a_write_is_no_difference(platform: CommandPlatform, mutation: str) -> None:
    """Rule 5: a mutating policy changes what is applied; the field stays ours, so nothing is written again, after updates too."""
    mutated(platform, MUTATIONS[mutation])
    for text in ("one", "two"):
        platform.repository.commit({"plain.json": labelled(platform, "plain", text)})
        since = platform.audit.mark()
        platform.run_once()
        assert applies(platform, since) == 1
        assert "by policy" in platform.kubectl("get", "configmap", "plain", "-n", platform.namespace, "-o", "json")
        quiet = platform.audit.mark()
        platform.run_once()
        assert platform.writes(quiet) == []


def test_a_second_run_over_many_kinds_writes_nothing(platform: CommandPlatform) -> None:
    """Rule 5: defaults, quantities in another form, empty lists, list maps: none of them is a difference."""
    kinds = {name: manifest for name, manifest in builtins(platform.namespace).items() if name != "metadata"}
    files = {f"{name.replace(' ', '-')}.json": json.dumps(manifest) for name, manifest in kinds.items()}
    platform.repository.commit(files)
    try:
        platform.run_once("--wait", "0s", check=None)
        quiet = platform.audit.mark()
        again = platform.run_once(check=None)
        assert platform.writes(quiet) == []
        assert "failed 0" in again.stdout, again.stdout
        planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name)
        assert f"0 to create, 0 to update, 0 to replace, 0 to delete, {len(kinds)} unchanged" in planned.stdout
    finally:
        wide = [manifest for manifest in kinds.values() if "namespace" not in manifest["metadata"]]
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": wide})
        platform.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=listed, check=False)


def test_an_object_that_somebody_deletes_again_and_again_is_left_for_a_while(platform: CommandPlatform) -> None:
    """I11: also absence is repaired a few times, and then rarely."""
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="ours")})
    with platform.start("--interval", "1h"):
        for _ in range(3):
            eventually(lambda: value(platform) == "ours")
            platform.kubectl("delete", "configmap", "plain", "-n", platform.namespace)
        eventually(
            lambda: "another client deletes the object, repeatedly" in platform.levelgate("status", "-o", "json").stdout
        )
        assert platform.kubectl("get", "configmap", "plain", "-n", platform.namespace, "--ignore-not-found") == ""
