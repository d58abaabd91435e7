"""Sources that write with the rights of a service account (docs/configuration.md, threat 12)."""

from __future__ import annotations

import json

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link, manifest

RBAC = "rbac.authorization.k8s.io"


def configured(platform: CommandPlatform, account: str) -> tuple[str, ...]:
    file = platform.repository.path.parent / "levelgate.json"
    source = {"name": platform.name, "url": str(platform.repository.path), "serviceAccount": account}
    config = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config", "sources": [source]}
    file.write_text(json.dumps(config))
    return ("run", "--config", str(file), "--once", "--wait", "0s")


def grant(platform: CommandPlatform, control_plane: ControlPlane, account: str) -> None:
    """Config maps of this namespace, instances and CRDs; no Secrets."""
    everything = {"verbs": ["*"], "resources": ["*"]}
    core = {"apiGroups": [""], "verbs": ["*"], "resources": ["configmaps"]}
    role = {"rules": [core, {**everything, "apiGroups": [platform.group, "apiextensions.k8s.io"]}]}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": platform.namespace}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": platform.namespace}
    for kind, content in (("ClusterRole", role), ("ClusterRoleBinding", {"roleRef": reference, "subjects": [subject]})):
        platform.kubectl("create", "-f", "-", stdin=manifest(f"{RBAC}/v1", kind, platform.namespace, "", **content))
    user = f"--as=system:serviceaccount:{platform.namespace}:{account}"
    eventually(lambda: "yes" in platform.kubectl("auth", "can-i", "list", "configmaps", user, check=False))


@pytest.mark.cluster
def test_objects_are_written_in_the_name_of_the_account_and_of_nobody_else(
    platform: CommandPlatform, control_plane: ControlPlane
) -> None:
    """Threat 12: a tenant's object beyond its rights is refused, named, and costs nothing else; every write of content has its name."""
    here, user = platform.namespace, f"system:serviceaccount:{platform.namespace}:robot"
    grant(platform, control_plane, "robot")
    since = platform.audit_log.mark() if platform.audit_log else 0
    secret = manifest("v1", "Secret", "s", here, stringData={"a": "b"})
    files = {
        "chain.json": chain(platform.group),
        "one.json": link(platform.group, here),
        "map.json": config_map(here, "m"),
    }
    platform.repository.commit({**files, "secret.json": secret})
    run = configured(platform, f"{here}/robot")
    done = platform.levelgate(*run, check=1)
    assert f'User "{user}" cannot' in done.stdout
    assert "secrets" in done.stdout
    assert (
        platform.kubectl("get", f"chains.{platform.group}", "one", "-n", here, "-o", "jsonpath={.status.state}")
        == "ACTIVE"
    )
    assert platform.kubectl("get", "configmap", "m", "-n", here, "-o", "name") == "configmap/m\n"
    assert platform.kubectl("get", "secret", "s", "-n", here, "--ignore-not-found") == ""

    platform.repository.commit({"secret.json": None, "one.json": None})
    platform.levelgate(*run, check=0)
    assert platform.kubectl("get", "configmaps", "-n", here, "-o", "name") == "configmap/m\n"
    content = [
        event
        for event in platform.audit.events(since=since, user="levelgate")
        if (event.is_write or event.is_dry_run)
        and event.namespace != "levelgate-system"
        and event.subresource != "status"
        and (event.verb == "delete" or "fieldManager=levelgate&" in event.uri)
    ]
    mine = [
        event for event in content if here in (event.namespace, *event.name.split(".")) or platform.group in event.name
    ]
    assert {"configmaps", "secrets", "chains", "customresourcedefinitions"} <= {event.resource for event in mine}
    assert {event.verb for event in mine} == {"patch", "delete"}
    assert [f"{event.verb} {event.uri}" for event in mine if event.impersonated != user] == []


@pytest.mark.cluster
def test_an_account_that_has_no_rights_writes_nothing(platform: CommandPlatform, control_plane: ControlPlane) -> None:
    """Not even one that does not exist."""
    platform.repository.commit({"map.json": config_map(platform.namespace, "m")})
    done = platform.levelgate(*configured(platform, "nobody"), check=1)
    assert 'User "system:serviceaccount:levelgate-system:nobody" cannot' in done.stdout
    assert "bind a role that allows the request to system:serviceaccount:levelgate-system:nobody" in done.stdout
    assert platform.kubectl("get", "configmap", "m", "-n", platform.namespace, "--ignore-not-found") == ""
