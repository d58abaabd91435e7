"""Fields, by kind and subresource, that a write cannot change and that the writer therefore does not own.

Source: the `GetResetFields` of each kind's strategy; for custom resources https://kep.k8s.io/555, "status wiping".
"""

from __future__ import annotations

from typing import Final

ResetFields = frozenset[tuple[str, ...]]
"""Paths of field names. Each path represents its field and every field below the field."""

_STATUS: Final[ResetFields] = frozenset({("status",)})
_SPEC: Final[ResetFields] = frozenset({("spec",)})
_SPEC_AND_METADATA: Final[ResetFields] = frozenset({("spec",), ("metadata",)})

_KEEP_METADATA: Final = frozenset(
    "namespaces nodes persistentvolumeclaims persistentvolumes replicationcontrollers resourcequotas services"
    " daemonsets.apps replicasets.apps statefulsets.apps horizontalpodautoscalers.autoscaling cronjobs.batch jobs.batch"
    " customresourcedefinitions.apiextensions.k8s.io ingresses.networking.k8s.io poddisruptionbudgets.policy".split()
)
"""Built-in kinds whose status subresource can change metadata."""

_SPECIAL_RESET_FIELDS: Final[dict[tuple[str, str], ResetFields]] = {
    ("pods", "status"): frozenset({("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")}),
    ("deployments.apps", "status"): frozenset({("spec",), ("metadata", "labels")}),
    ("certificatesigningrequests.certificates.k8s.io", ""): frozenset({("spec",), ("status",)}),
    ("certificatesigningrequests.certificates.k8s.io", "status"): frozenset({("spec",), ("status", "conditions")}),
    ("certificatesigningrequests.certificates.k8s.io", "approval"): frozenset({("spec",), ("status", "certificate")}),
}


def reset_fields_of(resource: str, subresource: str, *, has_status: bool) -> ResetFields:
    """Return the fields that a write to `subresource` of `resource` cannot change.

    Args:
        resource: plural with its group, such as `deployments.apps`.
        has_status: True if the kind has a status subresource.
    """
    if special := _SPECIAL_RESET_FIELDS.get((resource, subresource)):
        return special
    if subresource == "status":
        return _SPEC if resource in _KEEP_METADATA else _SPEC_AND_METADATA
    return _STATUS if has_status else frozenset()
