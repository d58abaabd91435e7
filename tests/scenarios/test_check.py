"""`levelgate check`: before the first run, before an upgrade, and after something went wrong by hand. It never writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitops.cli import invoke
from renderer import well_known
from tests.support.cluster.control_plane import ControlPlane
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link

APPLYSET = "applyset.kubernetes.io/"


WINDOW = """
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: elsewhere}
spec:
  kind: Deny
  timeZone: Europe/Berlin
  schedule: {cron: "0 9 * * 1-5"}
  duration: 2h
  selector: {namespaces: [nowhere]}
"""


@pytest.fixture
def applied(alone: CommandPlatform) -> CommandPlatform:
    """One instance with the members `one-a` and `one-b`, a plain object, and a window that governs none of them."""
    alone.repository.commit(
        {
            "chain.json": chain(alone.group, "ab"),
            "one.json": link(alone.group, alone.namespace),
            "plain.json": config_map(alone.namespace, "plain", a="b"),
            "window.yaml": WINDOW,
        }
    )
    alone.run_once()
    return alone


def check(platform: CommandPlatform, code: int = 0) -> list[dict[str, Any]]:
    """Findings that are not fine."""
    done = platform.levelgate("check", "-o", "json", check=code)
    report = json.loads(done.stdout)
    found: list[dict[str, Any]] = report["findings"]
    mine = [one for one in found if one["level"] != "ok" and _concerns(one, platform)]
    assert all(one["advice"] for one in mine), "each says what to do"
    return mine


def _concerns(finding: dict[str, Any], platform: CommandPlatform) -> bool:
    """Other tests of this module may have left something on the same server."""
    text = json.dumps(finding)
    return platform.namespace in text or platform.name in text


def names(finding: dict[str, Any]) -> list[str]:
    return [obj["name"] for obj in finding["objects"]]


def test_a_new_cluster_is_fine_and_so_is_one_at_work(applied: CommandPlatform) -> None:
    shown = applied.levelgate("check", check=0).stdout
    assert "0 problems, " in shown
    assert "permissions   all required permissions are granted" in shown
    assert "does not run here" in shown
    assert check(applied) == []


def test_inventory_that_was_changed_by_hand_is_a_problem(applied: CommandPlatform) -> None:
    """I1: what the inventory leaves out is not pruned; foreign tooling is nobody's to write."""
    one = (f"chains.{applied.group}", "one", "-n", applied.namespace, "--overwrite")
    applied.kubectl("annotate", *one, f"{APPLYSET}contains-group-kinds=Secret,configmaps")
    found = check(applied, 1)
    assert [(finding["level"], names(finding)) for finding in found] == [
        ("warning", ["one"]),
        ("problem", ["one-a", "one-b"]),
    ]
    assert "the inventory names configmaps, which the cluster does not serve" in found[0]["message"]
    applied.kubectl("annotate", *one, f"{APPLYSET}contains-group-kinds=ConfigMap", f"{APPLYSET}tooling=kubectl/v1")
    assert "managed by tooling 'kubectl'" in check(applied, 1)[0]["message"]
    applied.kubectl("annotate", *one, f"{APPLYSET}tooling=levelgate/v99.1.0")
    newer = check(applied, 1)[0]
    assert newer["message"] == "written by levelgate/v99.1.0"
    assert "use levelgate/v99.1.0 or a later version" in newer["advice"]
    applied.kubectl("annotate", *one, f"{APPLYSET}tooling=levelgate/v0.0.1")
    assert check(applied) == [], "an older version is what an upgrade finds"


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_members_that_are_not_what_they_seem_are_named(applied: CommandPlatform) -> None:
    """I2: a label that somebody copied; a tool that applies the same object; a record that is gone."""
    selector = f"jsonpath={{.metadata.labels.{APPLYSET.replace('.', chr(92) + '.')}part-of}}"
    part_of = applied.kubectl("get", "configmap", "one-a", "-n", applied.namespace, "-o", selector)
    forged = json.loads(config_map(applied.namespace, "forged", a="b"))
    forged["metadata"]["labels"] = {f"{APPLYSET}part-of": part_of}
    applied.kubectl("create", "-f", "-", stdin=json.dumps(forged))
    forged["metadata"]["name"] = "theirs"
    applied.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(forged))
    shared = config_map(applied.namespace, "plain", a="b")
    applied.kubectl("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-", stdin=shared)
    applied.kubectl("annotate", "configmap", "one-b", "-n", applied.namespace, "internal.levelgate.dev/self-")
    found = check(applied)
    assert [names(finding) for finding in found] == [["forged"], ["theirs"], ["one-b"], ["plain"]]
    assert "that Levelgate did not apply" in found[0]["message"]
    assert "while the set is being adopted, keep `levelgate run` running" in found[1]["advice"]
    assert "without a recorded level" in found[2]["message"]
    assert "another tool owns" in found[3]["message"]


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_what_an_installation_left_behind_is_named(applied: CommandPlatform) -> None:
    """The records are gone and no process runs: instances keep a finalizer that nobody serves."""
    own = ("-n", "levelgate-system")
    applied.kubectl("delete", "configmap", f"source-{applied.name}", *own)
    by_message = {finding["message"]: names(finding) for finding in check(applied)}
    lone = next(found for message, found in by_message.items() if "whose parent does not exist" in message)
    assert {"plain", f"chains.{applied.group}"} <= set(lone)
    assert [found for message, found in by_message.items() if "no source knows" in message] == [["one"]]


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_revisions_without_an_owner_are_named(applied: CommandPlatform) -> None:
    record = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"applied-{applied.namespace}",
            "namespace": "levelgate-system",
            "labels": {"internal.levelgate.dev/record": "applied"},
            "annotations": {
                "internal.levelgate.dev/index": json.dumps(
                    {f"{applied.group}/Chain/{applied.namespace}/gone": [1, 1, "", 2]}
                ),
                "internal.levelgate.dev/source": applied.name,
            },
        },
        "revision": 1,
        "data": {},
    }
    applied.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(record))
    [found] = check(applied)
    assert "objects that no longer exist" in found["message"]
    assert names(found) == [f"applied-{applied.namespace}"]
    stored = applied.kubectl("get", "controllerrevisions", "-n", "levelgate-system", "-o", "name").split()
    assert f"controllerrevision.apps/policies-{applied.name}-1" in stored, "of a source, and no leftover"
    applied.run_once()
    assert check(applied) == [], "the next pass drops it, as the advice says"


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_what_says_that_an_instance_is_gone_is_no_leftover(applied: CommandPlatform) -> None:
    """It stays as long as a pair of it lies beside others that count."""
    files = {f"{name}.json": link(applied.group, applied.namespace, name) for name in ("two", "three")}
    applied.repository.commit({**files})
    applied.run_once()
    applied.repository.commit({"two.json": None})
    applied.run_once()
    stored = json.loads(applied.kubectl("get", "controllerrevisions", "-n", "levelgate-system", "-o", "json"))["items"]
    assert sum("/two" in json.dumps(record["metadata"]["annotations"]) for record in stored) == 2
    assert check(applied) == []


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_kro_beside_us_is_a_problem_only_where_it_manages_the_same(applied: CommandPlatform) -> None:
    """Two programs must not write one set. That kro runs, and manages others, is fine."""
    kro: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kro", "namespace": applied.namespace, "labels": {"app.kubernetes.io/name": "kro"}},
        "spec": {
            "selector": {"matchLabels": {"app": "kro"}},
            "template": {
                "metadata": {"labels": {"app": "kro"}},
                "spec": {"containers": [{"name": "kro", "image": "example.com/kro:1"}]},
            },
        },
    }
    applied.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(kro))
    shown = applied.levelgate("check", check=0).stdout
    assert (
        f"runs (Deployment.apps/{applied.namespace}/kro has replicas); Levelgate does not change objects of kro"
        in shown
    )
    applied.kubectl("label", "crd", f"chains.{applied.group}", "kro.run/owned=true")
    [found] = check(applied, 1)
    assert names(found) == [f"chains.{applied.group}"]
    kro["spec"] |= {"replicas": 0}
    applied.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(kro))
    assert "does not run here" in applied.levelgate("check", check=0).stdout
    applied.kubectl("delete", "deployment", "kro", "-n", applied.namespace)


def definitions_left_on(server: ControlPlane) -> list[dict[str, Any]]:
    """CRDs of definitions, by whichever test."""
    found: list[dict[str, Any]] = server.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").body[
        "items"
    ]
    return [crd for crd in found if well_known.DEFINITION in crd["metadata"].get("annotations", {})]


@pytest.mark.cluster
def test_every_permission_that_lacks_is_named(
    lone_control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    """RBAC: who may do nothing is told what it takes; with exactly that granted, nothing lacks any more."""
    tenant = ["check", "--kubeconfig", str(lone_control_plane.kubeconfig("tenant"))]
    assert invoke([*tenant, "-o", "json"]) == 1
    found = [one["message"] for one in json.loads(capsys.readouterr().out)["findings"] if one["area"] == "permissions"]
    assert (
        "not allowed: create, delete, get, list, patch, watch controllerrevisions.apps in namespace levelgate-system"
        in found
    )
    assert "not allowed: create, get, patch namespaces" in found
    rules = [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "patch"]},
        {
            "apiGroups": ["apps", "apiextensions.k8s.io"],
            "resources": ["controllerrevisions", "customresourcedefinitions"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
    ]
    rules += [
        {
            "apiGroups": [crd["spec"]["group"]],
            "resources": [crd["spec"]["names"]["plural"], f"{crd['spec']['names']['plural']}/status"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }
        for crd in definitions_left_on(lone_control_plane)
    ]
    rbac = "rbac.authorization.k8s.io"
    lone_control_plane.request(
        "POST", f"/apis/{rbac}/v1/clusterroles", {"metadata": {"name": "levelgate"}, "rules": rules}
    )
    binding = {
        "metadata": {"name": "levelgate"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "levelgate"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "tenant"}],
    }
    lone_control_plane.request("POST", f"/apis/{rbac}/v1/clusterrolebindings", binding)
    assert invoke(tenant) == 0
    shown = capsys.readouterr().out
    assert "all required permissions are granted" in shown
    assert " kinds for its metadata" in shown
