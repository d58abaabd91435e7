"""What no commit may have: Levelgate's own objects, and what a cluster stands on. Said here alone; nothing in Git or in the configuration changes it.

A commit that could write our records could tell us what was applied, by whom and what may be deleted.
"""

from __future__ import annotations

from renderer.catalog import forbidden_objects
from renderer.identity import OWN_NAMESPACE, Manifest, group_kind
from renderer.kinds import CRD, NAMESPACE, OWN_GROUP

_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_RBAC = "rbac.authorization.k8s.io"


def find_protection_mistake(manifest: Manifest, namespace: str, name: str) -> tuple[str, str] | None:
    """Why an object may not come from Git, as (path, message); None where it may. `namespace` is empty outside of namespaces."""
    kind = group_kind(manifest)
    path, target_namespace = ("metadata.name", name) if kind == NAMESPACE else ("metadata.namespace", namespace)
    if target_namespace == OWN_NAMESPACE:
        return (
            path,
            f"{target_namespace} holds what Levelgate itself knows, and is written by the program alone; use another namespace",
        )
    if target_namespace in _SYSTEM_NAMESPACES:
        return (
            path,
            f"{target_namespace} belongs to the cluster itself and is not changed from Git; use another namespace",
        )
    if kind == CRD and name.endswith(f".{OWN_GROUP}"):
        return "metadata.name", f"the kinds of {OWN_GROUP} are Levelgate's own; remove it from Git"
    if kind.group == _RBAC and name.startswith("system:"):
        return "metadata.name", "roles called system: belong to the API server; use another name"
    if (
        kind.group == _RBAC
        and kind.kind.startswith("Cluster")
        and name.partition("-")[0].partition(":")[0] == "levelgate"
    ):
        return "metadata.name", "cluster roles called levelgate are the program's own rights; use another name"
    return (
        forbidden_objects.find_webhook_mistake(manifest, OWN_NAMESPACE, _SYSTEM_NAMESPACES)
        if kind in forbidden_objects.WEBHOOK_CONFIGURATION_KINDS
        else None
    )
