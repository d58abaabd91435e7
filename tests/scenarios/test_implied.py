"""Edges that nobody writes, on a real server: what the API server calls, and rights, come after and go before what they need."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_platform import CommandPlatform


def manifest(api_version: str, kind: str, metadata: dict[str, Any], **content: Any) -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})


def files(platform: CommandPlatform) -> dict[str, str]:
    """A webhook with what answers for it, and the rights that this needs; file names in the wrong order."""
    here = {"namespace": platform.namespace}
    labels = {"app": "hook"}
    pod = {"serviceAccountName": "hook", "containers": [{"name": "hook", "image": "hook"}]}
    workload = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    rule = {"apiGroups": [platform.group], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    webhook = {
        "name": "hook.example.org",
        "clientConfig": {"service": {"name": "hook", **here}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "hook", **here}
    rights = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    role_ref = {"apiGroup": rbac, "kind": "Role", "name": "hook"}
    name = {"name": "hook", **here}
    return {
        "0.json": manifest(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            {"name": platform.namespace},
            webhooks=[webhook],
        ),
        "1.json": manifest("apps/v1", "Deployment", name, spec=workload),
        "2.json": manifest("v1", "Service", name, spec={"selector": labels, "ports": [{"port": 443}]}),
        "3.json": manifest(f"{rbac}/v1", "RoleBinding", name, roleRef=role_ref, subjects=[subject]),
        "4.json": manifest(f"{rbac}/v1", "Role", name, rules=rights),
        "5.json": manifest("v1", "ServiceAccount", name),
    }


def order(platform: CommandPlatform, since: int, verb: str) -> list[str]:
    """Resources in the order in which the server answered writes to them, records of the source left out."""
    found = [event.resource for event in platform.writes(since) if event.verb == verb]
    return [resource for resource in dict.fromkeys(found) if resource != "configmaps"]


def test_a_webhook_comes_after_the_healthy_workload_behind_it_and_goes_before_it(platform: CommandPlatform) -> None:
    """With failurePolicy Fail, a webhook that nobody answers refuses every write, also ours; RBAC is there first and goes last."""
    platform.repository.commit(files(platform))
    since = platform.audit.mark()
    waiting = platform.run_once(check=3)
    assert "hook Progressing: the status does not cover the newest generation yet" in waiting.stdout
    applied = order(platform, since, "patch")
    assert "validatingwebhookconfigurations" not in applied
    place = {resource: applied.index(resource) for resource in applied}
    assert place["serviceaccounts"] < place["rolebindings"] < place["deployments"]
    assert place["roles"] < place["rolebindings"]
    # There are no nodes here: this is what the deployment controller would say.
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        "readyReplicas": 1,
        "conditions": conditions,
    }
    platform.kubectl(
        *("patch", "deployment", "hook", "-n", platform.namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )
    platform.run_once()
    assert order(platform, since, "patch")[-1] == "validatingwebhookconfigurations"
    platform.repository.commit(
        {
            **dict.fromkeys(files(platform)),
            "keep.json": manifest("v1", "ConfigMap", {"name": "keep", "namespace": platform.namespace}),
        }
    )
    head = platform.repository.git("rev-parse", "HEAD").strip()
    platform.kubectl(
        *("annotate", "configmap", f"source-{platform.name}", "-n", "levelgate-system"),
        f"levelgate.dev/approved-commit={head}",
    )
    since = platform.audit.mark()
    platform.run_once(wait="2m")
    gone = order(platform, since, "delete")
    place = {resource: gone.index(resource) for resource in gone}
    assert gone[0] == "validatingwebhookconfigurations"
    assert place["deployments"] < place["rolebindings"] < place["roles"]
    assert place["rolebindings"] < place["serviceaccounts"]
