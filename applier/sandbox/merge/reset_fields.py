"""Which fields a write cannot change, by kind and subresource, so that nobody comes to own them by it.

Rules: the `GetResetFields` of each kind's strategy; for custom resources https://kep.k8s.io/555, "status wiping".
"""

from __future__ import annotations

from typing import Final

Reset = frozenset[tuple[str, ...]]
"""Paths, by the names of their fields; all below them is meant too."""

_STATUS: Final[Reset] = frozenset({("status",)})
_SPEC: Final[Reset] = frozenset({("spec",)})
_SPEC_AND_METADATA: Final[Reset] = frozenset({("spec",), ("metadata",)})

_KEEP_METADATA: Final = frozenset(
    "namespaces nodes persistentvolumeclaims persistentvolumes replicationcontrollers resourcequotas services"
    " daemonsets.apps replicasets.apps statefulsets.apps horizontalpodautoscalers.autoscaling cronjobs.batch jobs.batch"
    " customresourcedefinitions.apiextensions.k8s.io ingresses.networking.k8s.io poddisruptionbudgets.policy".split()
)
"""Built-in kinds whose status subresource lets metadata through."""

_SPECIAL: Final[dict[tuple[str, str], Reset]] = {
    ("pods", "status"): frozenset({("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")}),
    ("deployments.apps", "status"): frozenset({("spec",), ("metadata", "labels")}),
    ("certificatesigningrequests.certificates.k8s.io", ""): frozenset({("spec",), ("status",)}),
    ("certificatesigningrequests.certificates.k8s.io", "status"): frozenset({("spec",), ("status", "conditions")}),
    ("certificatesigningrequests.certificates.k8s.io", "approval"): frozenset({("spec",), ("status", "certificate")}),
}


def reset_by(resource: str, subresource: str, *, has_status: bool) -> Reset:
    """What a write to `resource` (`deployments.apps`; the core group has no suffix) cannot change.

    `has_status`: whether the kind has a status subresource.
    """
    if found := _SPECIAL.get((resource, subresource)):
        return found
    if subresource == "status":
        return _SPEC if resource in _KEEP_METADATA else _SPEC_AND_METADATA
    return _STATUS if has_status else frozenset()
