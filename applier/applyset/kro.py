"""Traces of kro in a cluster, and signs that kro still runs in the cluster.

Two programs must not write the same set, so Levelgate looks for the signs before an adoption.

Source: kro, `pkg/metadata`, `pkg/controller/instance/applyset`, its Helm chart and the options of its controller.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from applier.cluster import Object, Reader, list_if_served
from renderer.identity import GroupKind, ObjectKey

TOOL = "kro"
OWNED_LABEL = "kro.run/owned"
FINALIZER = "kro.run/finalizer"
MEMBER_MANAGER, PARENT_KEYS_MANAGER, LABEL_MANAGER = "kro.run/applyset", "kro.run/applyset-parent", "kro.run/labeller"
"""Field managers of kro. The first manager owns the content of members. The second manager owns the ApplySet keys of
instances. The third manager owns the labels and the finalizer of instances.
"""

LEASE_NAME = "6f0f64a5.kro.run"
"""Name of the Lease with which kro elects a leader. The Lease may be in any namespace."""

DEFINITION_KIND = GroupKind("kro.run", "ResourceGraphDefinition")
"""Kind of kro's definitions, which are objects in the cluster. Definitions of Levelgate are only in Git."""

_LEASE_KIND, _DEPLOYMENT_KIND = GroupKind("coordination.k8s.io", "Lease"), GroupKind("apps", "Deployment")
_DEPLOYMENT_SELECTOR = "app.kubernetes.io/name=kro"


async def describe_running(cluster: Reader, now: datetime) -> str:
    """Return the signs that kro runs in the cluster, as text for people, or an empty string if there is no sign.

    A Lease of kro with a holder at `now` is a sign. A Deployment of kro with replicas is a sign too.

    Raises: ClusterError.
    """
    leases, deployments = await asyncio.gather(
        list_if_served(cluster, _LEASE_KIND), list_if_served(cluster, _DEPLOYMENT_KIND, selector=_DEPLOYMENT_SELECTOR)
    )
    lease_evidence = [
        f"{ObjectKey.from_manifest(lease)} is held by {_holder(lease)}" for lease in leases if _is_held(lease, now)
    ]
    deployment_evidence = [f"{ObjectKey.from_manifest(obj)} has replicas" for obj in deployments if _has_replicas(obj)]
    return ", ".join([*deployment_evidence, *lease_evidence])


async def list_definitions(cluster: Reader) -> dict[ObjectKey, GroupKind]:
    """Return kro's definitions in the cluster, each with the kind that the definition defines.

    Raises: ClusterError.
    """
    kinds = {}
    for definition in await list_if_served(cluster, DEFINITION_KIND):
        schema = (definition.get("spec") or {}).get("schema") or {}
        kinds[ObjectKey.from_manifest(definition)] = GroupKind(
            schema.get("group") or DEFINITION_KIND.group, schema.get("kind") or ""
        )
    return kinds


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _is_held(lease: Object, now: datetime) -> bool:
    """Return whether `lease` is the Lease of kro and has a holder at `now`.

    After a renewal, the holder keeps a Lease for the duration in the Lease (Kubernetes, "Leases").
    """
    spec = lease.get("spec") or {}
    if lease["metadata"]["name"] != LEASE_NAME or not _holder(lease) or not spec.get("renewTime"):
        return False
    duration = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return datetime.fromisoformat(spec["renewTime"]) + duration > now


def _has_replicas(deployment: Object) -> bool:
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    return bool(spec.get("replicas", 1) or status.get("replicas"))
