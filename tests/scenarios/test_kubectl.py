"""The real kubectl against our sets (KEP-3659): what it refuses, how it takes a set over, and how a set comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from renderer.identity import ObjectKey, applyset_id
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link

PREFIX = "applyset.kubernetes.io/"
TOOLING, KINDS, NAMESPACES, ID = (
    PREFIX + name for name in ("tooling", "contains-group-kinds", "additional-namespaces", "id")
)


@pytest.fixture
def person(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    """kubectl with its alpha support for sets."""
    monkeypatch.setenv("KUBECTL_APPLYSET", "true")
    return Kubectl(control_plane.kubeconfig("person"), tmp_path / "kubectl")


@pytest.fixture
def applied(platform: CommandPlatform) -> CommandPlatform:
    """One instance with the members `one-a` and `one-b`."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    return platform


def apply(platform: CommandPlatform, person: Kubectl, *, check: bool = True) -> str:
    """kubectl applies `one-a` alone to the instance's set, so that `one-b` is to be pruned."""
    return person(
        *("apply", "--server-side", "--force-conflicts", "--prune", f"--applyset=chains.{platform.group}/one"),
        *("-n", platform.namespace, "-f", "-"),
        stdin=config_map(platform.namespace, "one-a", reads="nothing", text="kubectl"),
        check=check,
    )


def edit(platform: CommandPlatform, what: str, change: str) -> None:
    platform.kubectl(what, f"chains.{platform.group}", "one", "-n", platform.namespace, "--overwrite", change)


def parent(platform: CommandPlatform) -> dict[str, dict[str, str]]:
    found = platform.kubectl("get", f"chains.{platform.group}", "one", "-n", platform.namespace, "-o", "json")
    metadata: dict[str, dict[str, str]] = json.loads(found)["metadata"]
    return metadata


def members(platform: CommandPlatform) -> dict[str, str]:
    """ConfigMaps of the set by name, with their text."""
    selector = f"{PREFIX}part-of={parent(platform)['labels'][ID]}"
    found = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-l", selector, "-o", "json")
    return {item["metadata"]["name"]: item["data"]["text"] for item in json.loads(found)["items"]}


REFUSALS = [
    ("annotate", TOOLING, None, 'managed by tooling "levelgate" instead of "kubectl"'),
    ("annotate", TOOLING, "", "is missing required annotation"),
    ("label", ID, "", "does not have required label"),
    ("label", ID, "applyset-wrong-v1", "has incorrect value for label"),
    ("annotate", KINDS, "", "kubectl requires the"),
    ("annotate", KINDS, "configmaps", "could not find mapping for kind"),
    ("annotate", KINDS, "ConfigMap, Secret", "could not find mapping for kind"),
]


def test_kubectl_refuses_a_set_that_is_not_its_own_or_damaged(applied: CommandPlatform, person: Kubectl) -> None:
    """KEP-3659: every refusal of kubectl, in its words, and without a write."""
    before = parent(applied)
    for what, key, value, told in REFUSALS:
        if value is not None:
            edit(applied, "annotate", f"{TOOLING}=kubectl/v1.36.0")
            edit(applied, what, f"{key}={value}" if value else f"{key}-")
        since = applied.audit.mark()
        answer = apply(applied, person, check=False)
        assert told in answer, (key, value, answer)
        written = applied.audit.events(since=since, user="person", namespace=applied.namespace)
        assert [event for event in written if event.is_write] == []
        kept = before["annotations" if what == "annotate" else "labels"][key]
        edit(applied, what, f"{key}={kept}")
    assert members(applied) == {"one-a": "one", "one-b": "one"}


def test_kubectl_takes_a_set_over_and_hands_it_back(applied: CommandPlatform, person: Kubectl) -> None:
    """KEP-3659: the tooling annotation is a person's word. kubectl prunes from our records; while the set is kubectl's nothing of it is
    written by us; handed back, it is brought to what Git says.
    """
    edit(applied, "annotate", f"{TOOLING}=kubectl/v1.36.0")
    printed = apply(applied, person)
    assert "configmap/one-b pruned" in printed
    assert members(applied) == {"one-a": "kubectl"}
    assert parent(applied)["annotations"][TOOLING].startswith("kubectl/")
    since = applied.audit.mark()
    foreign = applied.run_once(check=1)
    assert f"to hand the set over, set the annotation {TOOLING} to levelgate/v0" in foreign.stdout
    touched = [event for event in applied.writes(since) if event.namespace == applied.namespace]
    assert [event for event in touched if event.subresource != "status"] == []
    assert members(applied) == {"one-a": "kubectl"}
    edit(applied, "annotate", f"{TOOLING}=levelgate/v0")
    applied.run_once()
    assert members(applied) == {"one-a": "one", "one-b": "one"}
    assert parent(applied)["annotations"][KINDS] == "ConfigMap"
    assert parent(applied)["annotations"][TOOLING].startswith("levelgate/v")
    quiet = applied.audit.mark()
    applied.run_once()
    assert applied.writes(quiet) == []


def test_a_set_that_kubectl_made_is_taken_over_with_what_it_applied(platform: CommandPlatform, person: Kubectl) -> None:
    """KEP-3659: the other direction. The tooling annotation is the word for it; until then nothing of the set is written, and adopting the
    instance leaves its keys alone. What kubectl had applied and Git does not say goes away.
    """
    platform.repository.commit({"chain.json": chain(platform.group, "ab")})
    platform.run_once()
    one = link(platform.group, platform.namespace)
    person("apply", "--server-side", "-f", "-", stdin=one)
    edit(platform, "label", f"{ID}={applyset_id(ObjectKey(platform.group, 'Chain', platform.namespace, 'one'))}")
    edit(platform, "annotate", f"{TOOLING}=kubectl/v1.36.0")
    edit(platform, "annotate", f"{KINDS}=")
    person(
        *("apply", "--server-side", "--prune", f"--applyset=chains.{platform.group}/one"),
        *("-n", platform.namespace, "-f", "-"),
        stdin=config_map(platform.namespace, "one-a", reads="nothing", text="one", more="kubectl's"),
    )
    platform.repository.commit({"one.json": one})
    refused = platform.run_once("--adopt", "IfUnowned", check=1)
    assert f"to hand the set over, set the annotation {TOOLING} to levelgate/v0" in refused.stdout
    assert parent(platform)["annotations"][KINDS] == "ConfigMap"
    assert parent(platform)["annotations"][TOOLING].startswith("kubectl/")
    edit(platform, "annotate", f"{TOOLING}=levelgate/v0")
    platform.run_once()
    found = platform.kubectl(
        "get", "configmap", "one-a", "-n", platform.namespace, "-o", "json", "--show-managed-fields"
    )
    assert json.loads(found)["data"] == {"reads": "nothing", "text": "one"}
    assert [entry["manager"] for entry in json.loads(found)["metadata"]["managedFields"]] == ["levelgate"]
    assert members(platform) == {"one-a": "one", "one-b": "one"}
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


def test_kubectl_reads_the_additional_namespaces_that_we_write(applied: CommandPlatform, person: Kubectl) -> None:
    """KEP-3659: the scope on the parent is what kubectl lists, other namespaces too; it drops what is not used."""
    edit(applied, "annotate", f"{NAMESPACES}=default")
    edit(applied, "annotate", f"{TOOLING}=kubectl/v1.36.0")
    since = applied.audit.mark()
    apply(applied, person)
    listed = {
        event.namespace
        for event in applied.audit.events(since=since, user="person", verbs={"list"})
        if event.resource == "configmaps"
    }
    assert listed == {"default", applied.namespace}
    assert parent(applied)["annotations"][NAMESPACES] == ""


def test_a_set_of_kubectl_is_not_taken_without_a_word(platform: CommandPlatform, person: Kubectl) -> None:
    """Members of a set that we do not know are never taken, adoption or not; once kubectl lets them go, they may be adopted."""
    person(
        *("apply", "--server-side", "--prune", "--applyset=configmaps/theirs", "-n", platform.namespace, "-f", "-"),
        stdin=config_map(platform.namespace, "plain", a="theirs"),
    )
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", a="ours")})
    refused = platform.run_once("--adopt", "IfUnowned", check=1)
    assert "OwnedElsewhere" in refused.stdout
    found = refused.stdout.partition("(find its parent with kubectl ")[2].partition(")")[0].split()
    assert platform.kubectl(*found, "-o", "name").split() == ["configmap/theirs"]
    assert f"remove the label {PREFIX}part-of" in refused.stdout
    plain = ("configmap", "plain", "-n", platform.namespace)
    assert platform.kubectl("get", *plain, "-o", "jsonpath={.data.a}") == "theirs"
    platform.kubectl("label", *plain, f"{PREFIX}part-of-")
    platform.run_once("--adopt", "IfUnowned")
    assert platform.kubectl("get", *plain, "-o", "jsonpath={.data.a}") == "ours"
