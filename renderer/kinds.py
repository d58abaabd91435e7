"""Kinds with a special meaning, and the scopes of the kinds that Levelgate knows without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from renderer.identity import GroupKind, Manifest

NAMESPACE = GroupKind("", "Namespace")
SECRET = GroupKind("", "Secret")
CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
RGD = GroupKind("kro.run", "ResourceGraphDefinition")
OWN_GROUP = "levelgate.dev"
OWN_API_VERSION = f"{OWN_GROUP}/v1alpha1"
WINDOW = "PropagationWindow"
POLICY = "PropagationPolicy"
RULE_KINDS = frozenset({WINDOW, POLICY})
"""Kinds of `OWN_GROUP` that control when and how changes move. Levelgate only reads objects of these kinds from Git."""
CLUSTER = "Cluster"
PLACEMENT = "Placement"
DESTINATION_KINDS = frozenset({CLUSTER, PLACEMENT})
"""Kinds of `OWN_GROUP` that select clusters for objects. Levelgate only reads objects of these kinds from Git."""

_CLUSTER_SCOPED = {
    "": "Namespace Node PersistentVolume ComponentStatus",
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding"
    ),
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "authentication.k8s.io": "TokenReview SelfSubjectReview",
    "authorization.k8s.io": "SubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "StorageVersion",
    "kro.run": "ResourceGraphDefinition",
    "networking.k8s.io": "IngressClass IPAddress ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass ResourceSlice DeviceTaintRule",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "StorageClass CSIDriver CSINode VolumeAttachment VolumeAttributesClass",
    "storagemigration.k8s.io": "StorageVersionMigration",
}
BUILT_IN_CLUSTER_SCOPED = frozenset(
    GroupKind(group, kind) for group, kinds in _CLUSTER_SCOPED.items() for kind in kinds.split()
)


def scopes_of(crds: Iterable[Manifest]) -> Mapping[GroupKind, bool]:
    """Return the kinds that `crds` define, each with True if the kind is namespaced.

    The result leaves out CRDs without a group or names.
    """
    namespaced_by_kind: dict[GroupKind, bool] = {}
    for crd in crds:
        match crd.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind)}, "scope": "Cluster"}:
                namespaced_by_kind[GroupKind(group, kind)] = False
            case {"group": str(group), "names": {"kind": str(kind)}}:
                namespaced_by_kind[GroupKind(group, kind)] = True
    return namespaced_by_kind


def defined_kind(crd: Manifest) -> GroupKind:
    """Return the kind that `crd` defines.

    Args:
        crd: A complete CRD, such as every CRD on a server.
    """
    return GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"])


def is_namespaced(kind: GroupKind, namespaced_by_kind: Mapping[GroupKind, bool]) -> bool:
    """Return whether `kind` is namespaced.

    If `namespaced_by_kind` lacks `kind`, the kind is namespaced unless Kubernetes itself defines the kind as
    cluster-scoped.

    Args:
        namespaced_by_kind: True for each namespaced kind of discovery or CRDs, and False for any other of these kinds.
    """
    return namespaced_by_kind.get(kind, kind not in BUILT_IN_CLUSTER_SCOPED)


def is_built_in(kind: GroupKind) -> bool:
    """Return whether `kind` certainly belongs to Kubernetes.

    A group without a dot is built in, because the group of every CRD contains a dot. For built-in kinds whose group
    contains a dot, the answer is also False.
    """
    return "." not in kind.group
