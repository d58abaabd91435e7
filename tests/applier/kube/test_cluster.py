"""The adapter against a real API server."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from applier.cluster import Cluster, Object
from applier.errors import (
    Denied,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    StaleWrite,
    Unavailable,
)
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from renderer.identity import GroupKind, ObjectKey
from tests.support.cluster.control_plane import ControlPlane
from tests.support.objects import builtins
from tests.support.scripted_server import write_kubeconfig

MANAGER = "levelgate"
CONFIG_MAP = GroupKind("", "ConfigMap")
DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    yield cluster
    await cluster.close()


@pytest.fixture
def config_map(namespace: str) -> Callable[..., Object]:
    def make(name: str = "a", *, data: Any = None, **metadata: Any) -> Object:
        metadata = {"name": name, "namespace": namespace} | metadata
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"a": "1"}}

    return make


def definition(group: str, *, scope: str = "Namespaced") -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


async def test_it_is_the_port(cluster: KubeCluster) -> None:
    port: Cluster = cluster
    assert port.name == "test"


async def test_discovery_of_a_real_server(cluster: KubeCluster) -> None:
    found = await cluster.discover()
    assert cluster.requests == {"discover": 2}
    deployment = found.resources[GroupKind("apps", "Deployment")]
    assert (deployment.api_version, deployment.plural, deployment.namespaced) == ("apps/v1", "deployments", True)
    assert not found.resources[GroupKind("", "Namespace")].namespaced
    assert found.resources[GroupKind("autoscaling", "HorizontalPodAutoscaler")].version == "v2"
    assert not found.stale_groups


async def test_apply_get_and_delete(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    stored = await cluster.apply(config_map(), manager=MANAGER)
    key = ObjectKey.from_manifest(stored)
    assert await cluster.get(key) == stored
    metadata = await cluster.get(key, metadata_only=True)
    assert metadata is not None
    assert (metadata["apiVersion"], metadata["kind"]) == ("v1", "ConfigMap")
    assert "data" not in metadata
    assert metadata["metadata"]["uid"] == stored["metadata"]["uid"]
    again = await cluster.apply(config_map(), manager=MANAGER)
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    await cluster.delete(key, uid=stored["metadata"]["uid"], resource_version=stored["metadata"]["resourceVersion"])
    assert await cluster.get(key) is None
    await cluster.delete(key, uid=stored["metadata"]["uid"], resource_version=None)


async def test_a_dry_run_stores_nothing(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    answer = await cluster.apply(config_map(), manager=MANAGER, dry_run=True)
    assert answer["data"] == {"a": "1"}
    assert await cluster.get(ObjectKey.from_manifest(answer)) is None


async def test_a_conflict_names_fields_and_managers(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    await cluster.apply(config_map(data={"a": "1", "b": "1"}), manager="m1")
    with pytest.raises(FieldConflict) as caught:
        await cluster.apply(config_map(data={"a": "2", "b": "1"}), manager=MANAGER)
    (cause,) = caught.value.causes
    assert cause.field == ".data.a"
    assert "m1" in cause.message
    forced = await cluster.apply(config_map(data={"a": "2", "b": "1"}), manager=MANAGER, force=True)
    assert forced["data"]["a"] == "2"


async def test_an_apply_with_a_uid_never_creates(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    with pytest.raises(StaleWrite, match="uid mismatch"):
        await cluster.apply(config_map(uid="00000000-0000-0000-0000-000000000000"), manager=MANAGER)
    stored = await cluster.apply(config_map(), manager=MANAGER)
    with pytest.raises(StaleWrite, match=r"metadata\.uid"):
        await cluster.apply(config_map(uid="00000000-0000-0000-0000-000000000000"), manager=MANAGER)
    assert await cluster.apply(config_map(uid=stored["metadata"]["uid"]), manager=MANAGER) == stored


async def test_a_merge_patch_changes_what_exists(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    key = ObjectKey.from_manifest(config_map())
    patch = {"metadata": {"labels": {"l": "1"}}, "data": {"a": None, "b": "2"}}
    assert await cluster.merge(key, patch, manager=MANAGER) is None
    stored = await cluster.apply(config_map(), manager=MANAGER)
    merged = await cluster.merge(key, patch, manager=MANAGER)
    assert merged is not None
    assert (merged["data"], merged["metadata"]["labels"]) == ({"b": "2"}, {"l": "1"})
    for metadata in ({"uid": "other"}, {"resourceVersion": stored["metadata"]["resourceVersion"]}):
        with pytest.raises(StaleWrite):
            await cluster.merge(key, {"metadata": metadata, "data": {"b": "3"}}, manager=MANAGER)
    assert await cluster.get(key) == merged


async def test_a_merge_patch_says_nothing_of_a_secret(cluster: KubeCluster, namespace: str) -> None:
    base = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}}
    await cluster.apply(base, manager=MANAGER)
    for patch in ({"data": {"a": "c4nary!"}}, {"data": "c4nary!"}, {"zz": "c4nary!"}):
        with pytest.raises(Invalid) as caught:
            await cluster.merge(ObjectKey.from_manifest(base), patch, manager=MANAGER)
        assert "c4nary" not in repr((str(caught.value), caught.value.causes))


async def test_a_stale_resource_version(cluster: KubeCluster, config_map: Callable[..., Object]) -> None:
    old = await cluster.apply(config_map(), manager=MANAGER)
    new = await cluster.apply(config_map(data={"a": "2"}), manager=MANAGER)
    version, uid = old["metadata"]["resourceVersion"], old["metadata"]["uid"]
    with pytest.raises(StaleWrite, match="has been modified"):
        await cluster.apply(config_map(data={"a": "3"}, resourceVersion=version), manager=MANAGER)
    with pytest.raises(StaleWrite, match="ResourceVersion in the precondition"):
        await cluster.delete(ObjectKey.from_manifest(old), uid=uid, resource_version=version)
    with pytest.raises(StaleWrite, match="UID in the precondition"):
        await cluster.delete(ObjectKey.from_manifest(old), uid="other", resource_version=None)
    assert await cluster.get(ObjectKey.from_manifest(old)) == new


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zz": 1}, r"\.zz: field not declared in schema"),
        ({"data": "text"}, r"\.data: expected map"),
        ({"binaryData": {"a": "!"}}, "illegal base64 data"),
        ({"metadata": {"name": "Upper"}}, "lowercase RFC 1123"),
        ({"metadata": {"managedFields": [{"manager": "x"}]}}, "must be nil"),
        ({"metadata": {"annotations": {"a": "x" * 262145}}}, "Too long"),
        ({"data": {f"{number:042}": "" for number in range(20_000)}}, "request is too large"),
    ],
)
async def test_authors_mistakes(
    cluster: KubeCluster, config_map: Callable[..., Object], change: Object, said: str
) -> None:
    manifest = config_map()
    metadata = manifest["metadata"] | change.get("metadata", {})
    with pytest.raises(Invalid, match=said):
        await cluster.apply(manifest | change | {"metadata": metadata}, manager=MANAGER)
    assert cluster.requests["apply"] == 1


FIXED: list[tuple[str, Object]] = [
    (
        "Deployment",
        {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}},
    ),
    ("StatefulSet", {"spec": {"serviceName": "other"}}),
    (
        "DaemonSet",
        {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}},
    ),
    ("Job", {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}),
    ("Pod", {"spec": {"nodeSelector": {"disk": "hdd"}}}),
    ("Secret", {"type": "example.org/other"}),
    ("RoleBinding", {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}}),
    ("StorageClass", {"provisioner": "example.org/y"}),
    ("StorageClass", {"parameters": {"a": "b"}}),
    ("PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteMany"]}}),
    ("PersistentVolume", {"spec": {"hostPath": {"path": "/y"}}}),
    ("PriorityClass", {"value": 2000}),
    ("Service", {"spec": {"clusterIP": "None"}}),
    ("EndpointSlice", {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}),
    ("ControllerRevision", {"data": {"other": "content"}}),
]


def overlaid(base: Object, change: Object) -> Object:
    return base | {
        name: overlaid(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
        for name, value in change.items()
    }


@pytest.mark.parametrize(("kind", "change"), FIXED, ids=[f"{kind}-{next(iter(change))}" for kind, change in FIXED])
async def test_fields_that_never_change_are_told_from_other_mistakes(
    cluster: KubeCluster, namespace: str, kind: str, change: Object
) -> None:
    """Kubernetes API conventions have no reason code for it: the words of each kind's validation are recognised."""
    manifest = builtins(namespace)[kind]
    await cluster.apply(manifest, manager=MANAGER)
    with pytest.raises(Immutable):
        await cluster.apply(overlaid(manifest, change), manager=MANAGER)


async def test_values_of_secrets_are_in_no_error(cluster: KubeCluster, namespace: str) -> None:
    canary = "c4nary value!"
    base = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}}
    faults: list[Object] = [
        {"data": canary},
        {"data": {"a": canary}},
        {"stringData": {"a": [canary]}},
        {"stringData": {"a": {"b": canary}}},
        {"stringData": {"a": canary}, "zz": canary},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": canary}},
        {"type": {"a": canary}},
    ]
    for fault in faults:
        with pytest.raises(Invalid) as caught:
            await cluster.apply(base | fault, manager=MANAGER)
        shown = repr((str(caught.value), caught.value.args, caught.value.causes))
        assert canary not in shown
        assert "nary" not in shown
        assert re.search(r"\.?(data|stringData|type|zz)", shown)


async def test_an_absent_namespace_is_said_to_be_absent(
    cluster: KubeCluster, config_map: Callable[..., Object]
) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await cluster.apply(config_map(namespace="nowhere"), manager=MANAGER)
    assert await cluster.get(ObjectKey("", "ConfigMap", "nowhere", "a")) is None
    assert await cluster.list(CONFIG_MAP, "nowhere") == []


async def test_a_namespace_that_goes_away_is_no_fault_of_rights(
    cluster: KubeCluster, namespace: str, config_map: Callable[..., Object]
) -> None:
    held = await cluster.apply(config_map(finalizers=["example.org/hold"]), manager=MANAGER)
    place = await cluster.get(ObjectKey("", "Namespace", "", namespace))
    assert place is not None
    await cluster.delete(ObjectKey.from_manifest(place), uid=place["metadata"]["uid"], resource_version=None)
    with pytest.raises(NamespaceTerminating):
        await cluster.apply(config_map("late"), manager=MANAGER)
    await cluster.apply(config_map(finalizers=[]) | {"data": held["data"]}, manager=MANAGER)


async def test_missing_rights(control_plane: ControlPlane, config_map: Callable[..., Object]) -> None:
    tenant = await connect(kubeconfig=str(control_plane.kubeconfig("tenant")))
    with pytest.raises(Denied, match='User "tenant" cannot patch'):
        await tenant.apply(config_map(), manager=MANAGER)
    await tenant.close()


async def test_wrong_credentials(control_plane: ControlPlane, tmp_path: Path) -> None:
    text = control_plane.kubeconfig().read_text().replace(control_plane.token(), "wrong")
    (tmp_path / "config").write_text(text)
    stranger = await connect(kubeconfig=str(tmp_path / "config"))
    with pytest.raises(Denied) as caught:
        await stranger.discover()
    assert caught.value.status == 401
    await stranger.close()


async def test_a_certificate_that_is_not_trusted_is_not_tried_again(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    file = write_kubeconfig(tmp_path / "config", control_plane.url, user={"token": "t"})
    stranger = await connect(kubeconfig=str(file))
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await stranger.discover()
    assert stranger.requests["discover"] == 1
    await stranger.close()


async def test_a_certificate_authority_that_was_replaced_is_read_again(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Fault row "CA rotation": the process has started with the old one, and the file holds the new one by now."""
    file = write_kubeconfig(tmp_path / "config", control_plane.url, user={"token": control_plane.token()})
    cluster = await connect(kubeconfig=str(file))
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await cluster.discover()
    file.write_text(control_plane.kubeconfig().read_text())
    assert CONFIG_MAP in (await cluster.discover()).resources
    await cluster.close()


CONNECTS_TWICE_AND_IS_KILLED = """
import asyncio, os, signal, sys
from applier.errors import Denied
from applier.kube import connect

async def main():
    for _ in range(2):
        cluster = await connect(kubeconfig=sys.argv[1])
        try:
            await cluster.discover()
        except Denied as answer:
            print(answer.status, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("given", ["inline", "by a plugin"])
def test_no_file_with_a_private_key_outlives_the_load(control_plane: ControlPlane, tmp_path: Path, given: str) -> None:
    """Threat 16: neither while requests are sent nor after SIGKILL; and what is gone is not taken for there at the next load.

    The server does not know this certificate's owner, and answers as it answers anybody.
    """
    certificate, key = control_plane.ca_file.read_bytes(), control_plane.ca_file.with_suffix(".key").read_bytes()
    user: dict[str, Any] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    if given == "by a plugin":
        status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (tmp_path / "credential").write_text(json.dumps(credential))
        command = {"command": "cat", "args": [str(tmp_path / "credential")]}
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}
    document = json.loads(write_kubeconfig(tmp_path / "config", control_plane.url, user=user).read_text())
    document["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(certificate).decode()
    (tmp_path / "config").write_text(json.dumps(document))
    left = tmp_path / "left"
    left.mkdir()
    command_line = [sys.executable, "-c", CONNECTS_TWICE_AND_IS_KILLED, str(tmp_path / "config")]
    ended = subprocess.run(
        command_line, env={**os.environ, "TMPDIR": str(left)}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.split()) == (-signal.SIGKILL, ["403", "403"]), ended.stderr
    assert list(left.iterdir()) == []


async def test_a_kind_is_found_as_soon_as_it_is_served(cluster: KubeCluster, namespace: str) -> None:
    group = f"{namespace}.example.org"
    widget = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": namespace},
        "spec": {"size": 1},
    }
    with pytest.raises(KindNotServed):
        await cluster.apply(widget, manager=MANAGER)
    stored = await cluster.apply(definition(group), manager=MANAGER)
    async with asyncio.timeout(60):
        while True:
            try:
                applied = await cluster.apply(widget, manager=MANAGER)
                break
            except KindNotServed:
                await asyncio.sleep(0.02)
    assert applied["spec"] == {"size": 1}
    uid = stored["metadata"]["uid"]
    await cluster.delete(ObjectKey.from_manifest(stored), uid=uid, resource_version=None, propagation="Background")
    async with asyncio.timeout(60):
        while await cluster.get(ObjectKey.from_manifest(stored)):  # noqa: ASYNC110 - the server does the rest in its own time
            await asyncio.sleep(0.02)
    with pytest.raises(KindNotServed):
        await cluster.list(GroupKind(group, "Widget"))


async def test_a_version_that_is_not_served(cluster: KubeCluster, namespace: str) -> None:
    manifest = {"apiVersion": "apps/v9", "kind": "Deployment", "metadata": {"name": "a", "namespace": namespace}}
    with pytest.raises(KindNotServed, match="serves apps/v1 and not apps/v9; write the served version as apiVersion"):
        await cluster.apply(manifest, manager=MANAGER)


async def test_a_version_that_is_served_but_not_preferred(cluster: KubeCluster, namespace: str) -> None:
    manifest = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    }
    assert (await cluster.apply(manifest, manager=MANAGER))["apiVersion"] == "autoscaling/v1"
    kind, key = GroupKind("autoscaling", "HorizontalPodAutoscaler"), ObjectKey.from_manifest(manifest)
    for wanted, read in (({}, "v2"), ({kind: "v1"}, "v1"), ({kind: "v9"}, "v2")):
        shown = cluster.with_versions(wanted)
        found = [await shown.get(key), *await shown.list(kind, namespace), *await shown.list(kind, metadata_only=True)]
        assert {one and one["apiVersion"] for one in found} == {f"autoscaling/{read}"}


async def test_lists_have_all_pages(
    cluster: KubeCluster, namespace: str, config_map: Callable[..., Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(
        *(cluster.apply(config_map(f"m{n}", labels={"odd": str(n % 2)}), manager=MANAGER) for n in range(25))
    )
    monkeypatch.setattr("applier.kube.cluster.PAGE_SIZE", 10)
    found = await cluster.list(CONFIG_MAP, namespace)
    assert len({each["metadata"]["name"] for each in found}) == 25
    assert cluster.requests["list"] == 3
    odd = await cluster.list(CONFIG_MAP, namespace, selector="odd=1", metadata_only=True)
    assert len(odd) == 12
    assert {(each["apiVersion"], each["kind"], "data" in each) for each in odd} == {("v1", "ConfigMap", False)}
    everywhere = await cluster.list(CONFIG_MAP, selector="odd")
    assert {each["metadata"]["namespace"] for each in everywhere} >= {namespace}


async def test_names_that_need_quoting(cluster: KubeCluster, namespace: str) -> None:
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"levelgate:{namespace}:a b?c#d"},
        "rules": [],
    }
    stored = await cluster.apply(role, manager=MANAGER)
    assert await cluster.get(ObjectKey.from_manifest(stored)) == stored
    await cluster.delete(ObjectKey.from_manifest(stored), uid=stored["metadata"]["uid"], resource_version=None)
    assert await cluster.get(ObjectKey.from_manifest(stored)) is None


async def test_status_is_applied_through_its_subresource(cluster: KubeCluster, namespace: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    base = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await cluster.apply(base | {"spec": spec}, manager=MANAGER)
    found = await cluster.apply(
        base | {"status": {"replicas": 2, "readyReplicas": 2}}, manager="levelgate-status", subresource="status"
    )
    assert found["status"]["readyReplicas"] == 2
    assert found["spec"]["replicas"] == 2


async def test_a_finalizer_keeps_the_object_and_its_uid(
    cluster: KubeCluster, config_map: Callable[..., Object]
) -> None:
    stored = await cluster.apply(config_map(finalizers=["example.org/hold"]), manager=MANAGER)
    key, uid = ObjectKey.from_manifest(stored), stored["metadata"]["uid"]
    await cluster.delete(key, uid=uid, resource_version=stored["metadata"]["resourceVersion"])
    going = await cluster.get(key)
    assert going is not None
    assert going["metadata"]["deletionTimestamp"]
    with pytest.raises(StaleWrite):
        await cluster.delete(key, uid=uid, resource_version=stored["metadata"]["resourceVersion"])
    await cluster.apply(config_map(finalizers=[]), manager=MANAGER)
    assert await cluster.get(key) is None
