"""What built-in kinds do each in their own way when they are written. Source: the strategies in Kubernetes `pkg/registry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME_RULES: Final[Mapping[str, str]] = {
    "namespaces": "label",
    "services": "label",
    "statefulsets.apps": "label",
    "cronjobs.batch": "short",
    "poddisruptionbudgets.policy": "segment",
    "roles.rbac.authorization.k8s.io": "segment",
    "rolebindings.rbac.authorization.k8s.io": "segment",
    "clusterroles.rbac.authorization.k8s.io": "segment",
    "clusterrolebindings.rbac.authorization.k8s.io": "segment",
}
"""Which names they take, by resource: a rule of `names`, or `segment`, any part of a path; all others are subdomains."""

REQUIRES_RESOURCE_VERSION: Final = frozenset(
    "customresourcedefinitions.apiextensions.k8s.io leases.coordination.k8s.io poddisruptionbudgets.policy"
    " runtimeclasses.node.k8s.io csidrivers.storage.k8s.io"
    " mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io"
    " validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io"
    " mutatingadmissionpolicies.admissionregistration.k8s.io mutatingadmissionpolicybindings.admissionregistration.k8s.io".split()
)
"""Built-in kinds whose update has to say which version it replaces, as that of every custom kind (`AllowUnconditionalUpdate`)."""

ALLOWS_CREATE_ON_UPDATE: Final = frozenset(
    "endpoints events events.events.k8s.io leases.coordination.k8s.io limitranges runtimeclasses.node.k8s.io services"
    " clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io"
    " rolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io".split()
)
"""Built-in kinds whose update creates what is not there (`AllowCreateOnUpdate`), whatever version it says to replace."""

HAS_GENERATION: Final = frozenset(
    "cronjobs.batch customresourcedefinitions.apiextensions.k8s.io daemonsets.apps deployments.apps "
    "deviceclasses.resource.k8s.io devicetaintrules.resource.k8s.io endpointslices.discovery.k8s.io "
    "flowschemas.flowcontrol.apiserver.k8s.io ingressclasses.networking.k8s.io ingresses.networking.k8s.io jobs.batch "
    "mutatingadmissionpolicies.admissionregistration.k8s.io mutatingadmissionpolicybindings.admissionregistration.k8s.io "
    "mutatingwebhookconfigurations.admissionregistration.k8s.io networkpolicies.networking.k8s.io "
    "poddisruptionbudgets.policy pods podtemplates priorityclasses.scheduling.k8s.io "
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io replicasets.apps replicationcontrollers "
    "resourceslices.resource.k8s.io statefulsets.apps validatingadmissionpolicies.admissionregistration.k8s.io "
    "validatingadmissionpolicybindings.admissionregistration.k8s.io "
    "validatingwebhookconfigurations.admissionregistration.k8s.io".split()
)
"""Kinds whose objects have metadata.generation."""

GENERATION_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    "deployments.apps": ("annotations",),
    "endpointslices.discovery.k8s.io": ("annotations", "labels"),
}
"""Metadata that the generation counts changes of, by resource."""
