"""A platform that kro managed is taken over: the same sets with the same ids, and no workload notices.

What kro leaves is made here as it writes it: CRD, instance with finalizer and ApplySet keys, children with its labels, each under its own field
manager. kro itself does not run in these tests.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.identity import ObjectKey, applyset_id
from tests.support.command_platform import CommandPlatform, make_available
from tests.support.definitions import shop, web

Json = dict[str, Any]
KRO = "IfUnowned:kro"
OWNED = {"kro.run/owned": "true", "kro.run/kro-version": "v0.9.0"}


def set_id(platform: CommandPlatform) -> str:
    return applyset_id(ObjectKey(platform.group, "Shop", platform.namespace, "shop"))


def apply(platform: CommandPlatform, manifest: Json, manager: str) -> None:
    platform.kubectl(
        *("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-"),
        stdin=json.dumps(manifest),
    )


def live(platform: CommandPlatform, kind: str, name: str = "shop") -> Json:
    text = platform.kubectl("get", kind, name, "-n", platform.namespace, "-o", "json", "--show-managed-fields")
    found: Json = json.loads(text)
    return found


def managers(obj: Json) -> set[str]:
    return {entry["manager"] for entry in obj["metadata"]["managedFields"] if not entry.get("subresource")}


def crd(platform: CommandPlatform) -> Json:
    """As kro writes it: the same names and schema, without what is ours."""
    file = platform.repository.path / "shops.yaml"
    made: Json = json.loads(platform.levelgate("generate", "crd", str(file), "-o", "json", check=0).stdout)
    found: Json = made["items"][0] if "items" in made else made
    found["metadata"] = {"name": f"shops.{platform.group}", "labels": OWNED}
    for version in found["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("levelgate", None)
        version["additionalPrinterColumns"] = []
    return found


def child(platform: CommandPlatform, node: str, manifest: Json, order: int) -> Json:
    labels = {
        **OWNED,
        "app.kubernetes.io/managed-by": "kro",
        "kro.run/instance-name": "shop",
        "kro.run/node-id": node,
        "applyset.kubernetes.io/part-of": set_id(platform),
    }
    metadata = {
        "name": "shop",
        "namespace": platform.namespace,
        "labels": labels,
        "annotations": {"internal.kro.run/apply-order": str(order)},
    }
    return {**manifest, "metadata": metadata}


def take_over(platform: CommandPlatform) -> str:
    """Until everything is as Git says."""
    first = platform.run_once("--adopt", KRO, check=3).stdout
    make_available(platform, "shop", 1)
    return first + platform.run_once("--adopt", KRO, wait="2m").stdout


@pytest.fixture
def left_by_kro(platform: CommandPlatform) -> CommandPlatform:
    platform.repository.commit(
        {"shops.yaml": web(platform.group), "shop.yaml": shop(platform.group, platform.namespace)}
    )
    platform.kubectl("create", "--field-manager=controller", "-f", "-", stdin=json.dumps(crd(platform)))
    platform.kubectl("wait", f"crd/shops.{platform.group}", "--for=condition=Established", "--timeout=2m")
    platform.kubectl("apply", "-f", "-", stdin=shop(platform.group, platform.namespace))
    name = {"name": "shop", "namespace": platform.namespace}
    base = {"apiVersion": f"{platform.group}/v1alpha1", "kind": "Shop"}
    apply(
        platform,
        {**base, "metadata": {**name, "labels": OWNED, "finalizers": ["kro.run/finalizer"]}},
        "kro.run/labeller",
    )
    annotations = {
        "applyset.kubernetes.io/tooling": "kro/v0.9.0",
        "applyset.kubernetes.io/contains-group-kinds": "Deployment.apps,Service",
        "applyset.kubernetes.io/additional-namespaces": "",
        "internal.kro.run/applyset-inventory-hash": "sha256:abc",
    }
    parent = {**name, "labels": {"applyset.kubernetes.io/id": set_id(platform)}, "annotations": annotations}
    apply(platform, {**base, "metadata": parent}, "kro.run/applyset-parent")
    status = {
        "status": {
            "state": "ACTIVE",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Ready",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        }
    }
    platform.kubectl(
        *("patch", f"shops.{platform.group}", "shop", "-n", platform.namespace, "--subresource=status", "--type=merge"),
        *("--field-manager=controller", "-p", json.dumps(status)),
    )
    pod = {
        "metadata": {"labels": {"app": "shop"}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": pod},
    }
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]}}
    apply(platform, child(platform, "deployment", deployment, 1), "kro.run/applyset")
    apply(platform, child(platform, "service", service, 2), "kro.run/applyset")
    make_available(platform, "shop", 1)
    return platform


def test_everything_of_kro_is_taken_over_and_no_workload_changes(left_by_kro: CommandPlatform) -> None:
    """Rulings on kro: the same id, only the tooling changes hands; S0-7; one pass more writes nothing."""
    platform = left_by_kro
    before = {kind: live(platform, kind) for kind in ("deployment", "service")}
    shown = platform.levelgate(
        "plan", str(platform.repository.path), "--source", platform.name, "--adopt", KRO, check=0
    )
    assert "4 to adopt" in shown.stdout
    assert f"Shop/{platform.namespace}/shop taken over" in take_over(platform)
    for kind, old in before.items():
        new = live(platform, kind)
        assert new["spec"] == old["spec"]
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        assert "kro.run/applyset" not in managers(new)
        labels = new["metadata"]["labels"]
        assert labels["kro.run/node-id"] == kind, "selectors may use them"
        assert labels["applyset.kubernetes.io/part-of"] == set_id(platform)
        assert "app.kubernetes.io/managed-by" not in labels
        assert "internal.kro.run/apply-order" not in new["metadata"]["annotations"]
    metadata = live(platform, f"shops.{platform.group}")["metadata"]
    assert metadata["finalizers"] == ["levelgate.dev/prune"]
    assert metadata["annotations"]["applyset.kubernetes.io/tooling"].startswith("levelgate/v")
    assert "internal.kro.run/applyset-inventory-hash" not in metadata["annotations"]
    assert metadata["labels"]["applyset.kubernetes.io/id"] == set_id(platform)
    assert metadata["labels"]["kro.run/owned"] == "true"
    assert not {name for name in managers(live(platform, f"shops.{platform.group}")) if name.startswith("kro.run/")}
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


def test_what_was_taken_over_is_ours_to_change_and_to_delete(left_by_kro: CommandPlatform) -> None:
    """I4: fields that kro had applied are removed, and members pruned, as if we had made them."""
    platform = left_by_kro
    take_over(platform)
    platform.repository.commit({"shops.yaml": web(platform.group).replace("- port: 80", "- {port: 80, name: web}")})
    platform.run_once()
    assert live(platform, "service")["spec"]["ports"][0]["name"] == "web"
    platform.repository.commit({"shop.yaml": None})
    platform.run_once(wait="2m")
    left = platform.kubectl(
        "get", f"deployments,services,shops.{platform.group}", "-n", platform.namespace, "-o", "name"
    )
    assert left == ""


def lease(platform: CommandPlatform, *, age: timedelta) -> Json:
    renewed = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "kro-abc", "leaseDurationSeconds": 600, "renewTime": renewed}
    metadata = {"name": "6f0f64a5.kro.run", "namespace": platform.namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def test_nothing_is_taken_while_kro_runs(left_by_kro: CommandPlatform) -> None:
    """Its Lease is held: nothing of kro's is written, not even a status, and the report says what to stop. An old Lease is no proof of life."""
    platform = left_by_kro
    platform.kubectl("create", "-f", "-", stdin=json.dumps(lease(platform, age=timedelta())))
    since = platform.audit.mark()
    refused = platform.run_once("--adopt", KRO, check=1)
    assert f"Lease.coordination.k8s.io/{platform.namespace}/6f0f64a5.kro.run is held by kro-abc" in refused.stdout
    written = [event for event in platform.writes(since) if event.namespace != "levelgate-system"]
    assert written == [], "beside our own records"
    apply(platform, lease(platform, age=timedelta(minutes=11)), "kubectl")
    assert "taken over" in take_over(platform)


def test_without_a_word_kros_objects_stay_kros(left_by_kro: CommandPlatform) -> None:
    """I2: neither the default nor another tool's name takes them."""
    platform = left_by_kro
    before = live(platform, f"shops.{platform.group}")
    for adopt in ("Never", "IfUnowned:flux"):
        refused = platform.run_once("--adopt", adopt, check=1)
        assert "stop kro, then take its sets over with --adopt IfUnowned:kro" in refused.stdout
    assert live(platform, f"shops.{platform.group}") == before


def test_a_member_that_git_does_not_want_is_reported_and_stays(left_by_kro: CommandPlatform) -> None:
    """Membership that we did not write is no proof: listed, never deleted (I2)."""
    platform = left_by_kro
    extra = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 81}]}}
    manifest = child(platform, "extra", extra, 3)
    manifest["metadata"]["name"] = "extra"
    apply(platform, manifest, "kro.run/applyset")
    platform.run_once("--adopt", KRO, check=3)
    make_available(platform, "shop", 1)
    done = platform.run_once("--adopt", KRO, wait="2s", check=None)
    assert "extra" in done.stdout
    assert live(platform, "service", "extra")["spec"]["ports"][0]["port"] == 81
