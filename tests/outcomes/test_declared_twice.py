"""One object that two places of a source declare: both are refused, what is applied stays and is healed, and everything says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link

pytestmark = pytest.mark.both_servers


def text_of(platform: CommandPlatform, name: str, field: str = ".data.text") -> str:
    """A field of a ConfigMap; empty where it does not exist."""
    return platform.kubectl(
        "get", "configmap", name, "-n", platform.namespace, "--ignore-not-found", "-o", f"jsonpath={{{field}}}"
    )


def told_everywhere(platform: CommandPlatform, *expected: str, plan: bool = True) -> None:
    """The run, `status`, `lint` and `plan` name the object and all places."""
    ran = platform.run_once(check=1)
    status = platform.levelgate("status", check=0)
    said = {"run": ran.stdout + ran.stderr, "status": status.stdout}
    lint = platform.levelgate("lint", str(platform.repository.path), check=1)
    said |= {"lint": lint.stdout}
    if plan:
        planned = platform.levelgate("plan", str(platform.repository.path))
        said |= {"plan": planned.stdout + planned.stderr}
    for where, text in said.items():
        for word in expected:
            assert word in text, f"{where} does not say {word!r}:\n{text}"


def test_a_stray_file_does_not_win(platform: CommandPlatform) -> None:
    """Neither file is obeyed; the object stays as it was applied, until one of them goes."""
    here = platform.namespace
    platform.repository.commit(
        {"z.json": config_map(here, "one", text="good"), "other.json": config_map(here, "o", text="a")}
    )
    platform.run_once()
    platform.repository.commit(
        {"a.json": config_map(here, "one", text="stray"), "other.json": config_map(here, "o", text="b")}
    )
    told_everywhere(platform, f"ConfigMap/{here}/one", "a.json:1", "z.json:1")
    assert (text_of(platform, "one"), text_of(platform, "o")) == ("good", "b")
    platform.repository.commit(
        {"a.json": config_map(here, "one", text="another"), "z.json": config_map(here, "one", text="changed")}
    )
    told_everywhere(platform, f"ConfigMap/{here}/one", "a.json:1", "z.json:1")
    assert text_of(platform, "one") == "good"
    platform.repository.commit({"z.json": None})
    platform.run_once()
    assert text_of(platform, "one") == "another"
    assert "RenderFailed" not in platform.levelgate("status", check=0).stdout


def test_what_is_applied_is_not_pruned_and_a_new_object_is_not_created(platform: CommandPlatform) -> None:
    """At the first deployment there is nothing to keep, so there is nothing; all else is applied, and dependents outside go on."""
    here = platform.namespace
    files: dict[str, str | None] = {
        "a.json": config_map(here, "one", text="a"),
        "b.json": config_map(here, "one", text="b"),
    }
    platform.repository.commit({**files, "c.json": config_map(here, "other", text="c")})
    told_everywhere(platform, f"ConfigMap/{here}/one", "a.json:1", "b.json:1")
    assert (text_of(platform, "one"), text_of(platform, "other")) == ("", "c")
    platform.repository.commit({"a.json": None})
    platform.run_once()
    assert text_of(platform, "one") == "b"


def test_two_documents_of_one_file(platform: CommandPlatform) -> None:
    here = platform.namespace
    platform.repository.commit({"a.yaml": config_map(here, "one", text="good")})
    platform.run_once()
    both = f"{config_map(here, 'one', text='good')}\n---\n{config_map(here, 'one', text='stray')}\n"
    platform.repository.commit({"a.yaml": both})
    told_everywhere(platform, f"ConfigMap/{here}/one", "a.yaml:1", "a.yaml:3")
    assert text_of(platform, "one") == "good"


def test_with_and_without_the_namespace_that_is_the_default(platform: CommandPlatform) -> None:
    """An object without a namespace goes to `default`, so it may be the same as one that says so."""
    name = f"one-{platform.namespace}"
    bare: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"text": "bare"},
    }
    platform.repository.commit({"a.json": json.dumps(bare)})
    platform.run_once()
    platform.repository.commit({"b.json": config_map("default", name, text="named")})
    told_everywhere(platform, f"ConfigMap/default/{name}", "a.json:1", "b.json:1")
    path = ("get", "configmap", name, "-n", "default", "-o", "jsonpath={.data.text}")
    assert platform.kubectl(*path) == "bare"
    platform.repository.commit({"a.json": None, "b.json": None})
    platform.run_once("--adopt", "Never")


def test_one_object_in_two_versions(platform: CommandPlatform) -> None:
    """The same object whatever the version that it is written in."""
    metadata = {"name": "one", "namespace": platform.namespace}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 3}
    first = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
    other = {**first, "apiVersion": "autoscaling/v1", "spec": {**spec, "maxReplicas": 9}}
    platform.repository.commit({"z.json": json.dumps(first)})
    platform.run_once(check=None)
    platform.repository.commit({"a.json": json.dumps(other)})
    told_everywhere(platform, "HorizontalPodAutoscaler", "a.json:1", "z.json:1")
    path = ("get", "hpa", "one", "-n", platform.namespace, "-o", "jsonpath={.spec.maxReplicas}")
    assert platform.kubectl(*path) == "3"


def test_an_instance_is_held_and_healed(platform: CommandPlatform) -> None:
    """What both files say is not followed; what somebody changes by hand is put back."""
    group, here = platform.group, platform.namespace
    platform.repository.commit({"chain.json": chain(group, "ab"), "z.json": link(group, here, text="good")})
    platform.run_once()
    assert text_of(platform, "one-a") == "good"
    platform.repository.commit({"a.json": link(group, here, text="stray")})
    told_everywhere(platform, "a.json:1", "z.json:1", "one")
    assert text_of(platform, "one-a") == "good"
    platform.kubectl("patch", "configmap", "one-a", "-n", here, "--type=merge", "-p", '{"data": {"text": "by hand"}}')
    platform.kubectl("delete", "configmap", "one-b", "-n", here)
    platform.run_once(check=1)
    assert (text_of(platform, "one-a"), text_of(platform, "one-b")) == ("good", "good")
    explained = platform.levelgate("explain", f"chains.{group}/one", "-n", here).stdout
    assert "a.json:1" in explained
    assert "z.json:1" in explained
    platform.repository.commit({"a.json": None, "z.json": link(group, here, text="new")})
    platform.run_once()
    assert text_of(platform, "one-a") == "new"


def test_two_definitions_of_one_kind(platform: CommandPlatform) -> None:
    """The last revision serves on: instances follow Git as before, the definition does not change."""
    group, here = platform.group, platform.namespace
    platform.repository.commit({"z.json": chain(group, "ab"), "one.json": link(group, here, text="good")})
    platform.run_once()
    platform.repository.commit({"a.json": chain(group, "abc"), "one.json": link(group, here, text="new")})
    told_everywhere(platform, f"chains.{group}", "a.json:1", "z.json:1")
    assert (text_of(platform, "one-a"), text_of(platform, "one-c")) == ("new", "")
    platform.repository.commit({"z.json": None})
    platform.run_once()
    assert text_of(platform, "one-c") == "new"


def test_two_definitions_at_the_first_deployment(platform: CommandPlatform) -> None:
    group, here = platform.group, platform.namespace
    files = {"a.json": chain(group, "ab"), "b.json": chain(group, "a"), "one.json": link(group, here)}
    platform.repository.commit(files)
    told_everywhere(platform, f"chains.{group}", "a.json:1", "b.json:1")
    assert platform.kubectl("get", "crd", f"chains.{group}", "--ignore-not-found") == ""
    assert text_of(platform, "one-a") == ""
    platform.repository.commit({"b.json": None})
    platform.run_once()
    assert text_of(platform, "one-a") == "one"


def plain_crd(group: str, kind: str = "Chain") -> str:
    open_schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": open_schema}
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.lower()}s.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )


def test_a_definition_and_a_plain_crd(platform: CommandPlatform) -> None:
    """The CRD stays that of the definition, which is applied."""
    group, here = platform.group, platform.namespace
    platform.repository.commit({"chain.json": chain(group, "ab"), "one.json": link(group, here, text="good")})
    platform.run_once()
    platform.repository.commit({"a.json": plain_crd(group)})
    told_everywhere(platform, f"chains.{group}", "a.json:1", "chain.json:1")
    path = "jsonpath={.metadata.annotations.levelgate\\.dev/definition}"
    assert platform.kubectl("get", "crd", f"chains.{group}", "-o", path) == f"chains.{group}"
    assert text_of(platform, "one-a") == "good"


def test_a_plain_crd_and_a_definition(platform: CommandPlatform) -> None:
    """The CRD stays as the file has it, and so do its objects."""
    group, here = platform.group, platform.namespace
    platform.repository.commit({"crd.json": plain_crd(group), "one.json": link(group, here, text="good")})
    platform.run_once(check=None)
    platform.run_once(wait="20s")
    platform.repository.commit({"a.json": chain(group, "ab")})
    told_everywhere(platform, f"chains.{group}", "a.json:1", "crd.json:1")
    path = "jsonpath={.metadata.annotations.levelgate\\.dev/definition}"
    assert platform.kubectl("get", "crd", f"chains.{group}", "-o", path) == ""
    assert (
        platform.kubectl("get", f"chains.{group}", "one", "-n", here, "-o", "jsonpath={.spec.text}{.status}") == "good"
    )
    assert text_of(platform, "one-a") == ""


def test_an_object_that_an_instance_makes_as_well(platform: CommandPlatform) -> None:
    """Whoever applied it keeps it, as it was applied."""
    group, here = platform.group, platform.namespace
    platform.repository.commit({"chain.json": chain(group, "ab"), "one.json": link(group, here, text="good")})
    platform.run_once()
    platform.repository.commit({"a.json": config_map(here, "one-b", text="stray")})
    told_everywhere(platform, "one-b", "a.json:1", "chain.json:1")
    assert text_of(platform, "one-b") == "good"
    platform.repository.commit({"a.json": None})
    platform.run_once()
    assert text_of(platform, "one-b") == "good"


def test_an_instance_that_makes_an_object_of_a_file(platform: CommandPlatform) -> None:
    group, here = platform.group, platform.namespace
    platform.repository.commit({"a.json": config_map(here, "one-b", text="plain")})
    platform.run_once()
    platform.repository.commit({"chain.json": chain(group, "ab"), "one.json": link(group, here, text="made")})
    told_everywhere(platform, "one-b", "a.json:1", "chain.json:1")
    assert (text_of(platform, "one-b"), text_of(platform, "one-a")) == ("plain", "made")
    platform.repository.commit({"a.json": None})
    platform.run_once()
    assert text_of(platform, "one-b") == "made"


def test_an_instance_and_a_file_at_the_first_deployment(platform: CommandPlatform) -> None:
    """Neither creates it, and the instance is made of all else."""
    group, here = platform.group, platform.namespace
    files = {
        "chain.json": chain(group, "ab"),
        "one.json": link(group, here),
        "a.json": config_map(here, "one-b", text="x"),
    }
    platform.repository.commit(files)
    told_everywhere(platform, "one-b", "a.json:1", "chain.json:1")
    assert (text_of(platform, "one-a"), text_of(platform, "one-b")) == ("one", "")


def outer(group: str) -> str:
    """A definition that makes a Chain of the name of its instance."""
    inner = {
        "apiVersion": f"{group}/v1",
        "kind": "Chain",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"text": "${schema.spec.text}"},
    }
    schema = {"group": group, "apiVersion": "v1", "kind": "Outer", "spec": {"text": "string | default=one"}}
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"outers.{group}"},
            "spec": {"schema": schema, "resources": [{"id": "inner", "template": inner}]},
        }
    )


def test_an_instance_that_another_one_makes_as_well(platform: CommandPlatform) -> None:
    """It is held, and its objects do not become those of the file."""
    group, here = platform.group, platform.namespace
    files = {"chain.json": chain(group, "ab"), "outer.json": outer(group)}
    platform.repository.commit({**files, "one.json": link(group, here, kind="Outer", text="good")})
    platform.run_once()
    assert text_of(platform, "one-a") == "good"
    platform.repository.commit({"a.json": link(group, here, text="stray")})
    told_everywhere(platform, "a.json:1", "outer.json:1")
    assert text_of(platform, "one-a") == "good"
    platform.kubectl("delete", "configmap", "one-b", "-n", here)
    platform.run_once(check=1)
    assert text_of(platform, "one-b") == "good"
    platform.repository.commit({"a.json": None, "one.json": link(group, here, kind="Outer", text="new")})
    platform.run_once()
    assert text_of(platform, "one-a") == "new"


def freeze(schedule: dict[str, Any], **more: str) -> str:
    """A window that is closed while its schedule is on."""
    spec = {"kind": "Deny", "timeZone": "UTC", "schedule": schedule, **more}
    return json.dumps({**HEAD, "kind": "PropagationWindow", "metadata": {"name": "freeze"}, "spec": spec})


HEAD = {"apiVersion": "levelgate.dev/v1alpha1"}
ON = freeze({"cron": "0 0 * * *"}, duration="24h")
OVER = freeze({"once": [{"start": "2020-01-01T00:00", "end": "2020-01-02T00:00"}]})


def test_a_stray_window_does_not_open_a_freeze(platform: CommandPlatform) -> None:
    """What was accepted of the window stays in force, whichever file comes first; also where one of them is changed."""
    here = platform.namespace
    platform.repository.commit({"one.json": config_map(here, "one", text="a")})
    platform.run_once()
    platform.repository.commit({"freeze.json": ON})
    platform.run_once()
    platform.repository.commit({"a.json": OVER, "one.json": config_map(here, "one", text="b")})
    told_everywhere(platform, "window 'freeze' is declared at a.json:1", "and freeze.json:1;")
    platform.repository.commit({"freeze.json": OVER})
    platform.run_once(check=None)
    assert text_of(platform, "one") == "a"
    platform.repository.commit({"freeze.json": None})
    platform.run_once()
    assert text_of(platform, "one") == "b"


def test_two_windows_at_the_first_deployment_start_nothing(platform: CommandPlatform) -> None:
    """Nobody knows which of them is meant, so neither opens anything."""
    here = platform.namespace
    files = {"a.json": OVER, "b.json": ON, "one.json": config_map(here, "one", text="a")}
    platform.repository.commit(files)
    ran = platform.run_once(check=None)
    assert "freeze (a.json:1) is declared more than once, so no change starts in this source" in ran.stdout + ran.stderr
    assert "window 'freeze' is declared at a.json:1 and b.json:1" in platform.levelgate("status").stdout
    assert text_of(platform, "one") == ""
    platform.repository.commit({"b.json": None})
    platform.run_once()
    assert text_of(platform, "one") == "a"
