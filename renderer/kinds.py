"""Which kinds live outside namespaces (offline this is all we know; discovery and the commit's CRDs add to it), and which kinds CRDs define."""

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
"""Kinds of `OWN_GROUP` in which people write when and how changes move; they are read from Git and exist in no cluster."""
CLUSTER = "Cluster"
PLACEMENT = "Placement"
DESTINATION_KINDS = frozenset({CLUSTER, PLACEMENT})
"""Those in which people write where objects go; the same holds for them."""

_CLUSTER_SCOPED = {
    "": "Namespace Node PersistentVolume ComponentStatus",
    "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
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
    """Which kinds these CRDs define, True where the kind is namespaced. CRDs without names or scope are passed over."""
    scopes: dict[GroupKind, bool] = {}
    for crd in crds:
        match crd.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind)}, "scope": "Cluster"}:
                scopes[GroupKind(group, kind)] = False
            case {"group": str(group), "names": {"kind": str(kind)}}:
                scopes[GroupKind(group, kind)] = True
    return scopes


def defined_kind(crd: Manifest) -> GroupKind:
    """The kind that a CRD defines; one that a server has taken, or that is known to name it."""
    return GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"])


def is_namespaced(kind: GroupKind, scopes: Mapping[GroupKind, bool]) -> bool:
    """True for namespaced kinds: as `known` says (discovery, CRDs), else as Kubernetes' own kinds are, else namespaced."""
    return scopes.get(kind, kind not in BUILT_IN_CLUSTER_SCOPED)


def is_built_in(kind: GroupKind) -> bool:
    """Certainly one of Kubernetes' own kinds: the group of a CRD has a dot, and some of Kubernetes' own have one too."""
    return "." not in kind.group
