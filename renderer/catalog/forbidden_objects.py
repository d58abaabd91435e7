"""Objects that a commit may not contain.

A commit may not contain Levelgate's own objects, objects of the cluster itself, or webhooks that could block writes.

If a commit could write Levelgate's records, the commit could forge which content Levelgate applied, which person
applied the content, and which objects Levelgate may delete. No setting permits records in a commit.

A webhook may fail or refuse requests. If the API server called a failing webhook for objects of Levelgate or of the
control plane, the webhook would also block its own repair. Only webhook configurations are exempt, because the API
server calls no webhook for webhook configurations. Levelgate does not evaluate `matchConditions`, because the result
may depend on the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from renderer.identity import OWN_NAMESPACE, GroupKind, Manifest, group_kind
from renderer.kinds import CRD, NAMESPACE, OWN_GROUP
from renderer.label_selector import LabelSelector, SelectorError

WEBHOOK_CONFIGURATION_KINDS: Final = frozenset(
    GroupKind("admissionregistration.k8s.io", f"{kind}WebhookConfiguration") for kind in ("Mutating", "Validating")
)
_OWN_KEYS: Final = ("levelgate.dev", "applyset.kubernetes.io")
_NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_WRITE_OPERATIONS: Final = frozenset({"*", "CREATE", "UPDATE", "DELETE"})


class _RequiredResource(NamedTuple):
    group: str
    resource: str


_RECORD_RESOURCES: Final = (
    _RequiredResource("", "configmaps"),
    _RequiredResource("apps", "controllerrevisions"),
    _RequiredResource("coordination.k8s.io", "leases"),
)
_LEASE_RESOURCES: Final = (_RequiredResource("coordination.k8s.io", "leases"),)


def find_webhook_mistake(
    manifest: Manifest, own_namespace: str, system_namespaces: frozenset[str]
) -> tuple[str, str] | None:
    """Return the reason why Git may not contain a webhook configuration, as (path, message).

    If Git may contain the webhook configuration, return None.

    A webhook may cover neither records in `own_namespace` nor Leases in `own_namespace` and `system_namespaces`.
    """
    namespaces = (own_namespace, *sorted(system_namespaces))
    for index, webhook in _enumerate_mappings(manifest.get("webhooks")):
        for namespace in namespaces:
            blocked_resource = next(
                (
                    required
                    for required in (_RECORD_RESOURCES if namespace == own_namespace else _LEASE_RESOURCES)
                    if _is_called_for(webhook, required, namespace)
                ),
                None,
            )
            if blocked_resource:
                writer = "Levelgate" if namespace == own_namespace else "the control plane"
                excluded = ", ".join(namespaces)
                advice = f"matchExpressions: [{{key: {_NAMESPACE_NAME_LABEL}, operator: NotIn, values: [{excluded}]}}]"
                return (
                    f"webhooks[{index}]",
                    f"would be called for {blocked_resource.resource} in {namespace}, "
                    f"which {writer} must be able to write while the webhook fails; "
                    f"name fewer resources in rules, or write namespaceSelector: {{{advice}}}",
                )
    return None


def _is_called_for(webhook: Mapping[str, Any], required: _RequiredResource, namespace: str) -> bool:
    """Return whether the API server calls `webhook` for a resource in `namespace`.

    A field of a wrong type counts as absent, because the API server refuses the webhook configuration.
    """
    rules = [rule for _, rule in _enumerate_mappings(webhook.get("rules"))]
    return (
        any(_covers(rule, required) for rule in rules)
        and _selects(webhook.get("namespaceSelector"), {_NAMESPACE_NAME_LABEL: namespace})
        and _selects(webhook.get("objectSelector"), {})
    )


def _covers(rule: Mapping[str, Any], required: _RequiredResource) -> bool:
    groups, resources, operations = (_text_items(rule.get(name)) for name in ("apiGroups", "resources", "operations"))
    return bool(
        groups & {"*", required.group}
        and resources & {"*", "*/*", required.resource}
        and operations & _WRITE_OPERATIONS
        and rule.get("scope") in {None, "*", "Namespaced"}
    )


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Return whether `selector` selects an object with `labels`.

    A requirement on a label key of Levelgate counts as met, because only Levelgate knows the values of labels with
    Levelgate's keys.
    """
    if not isinstance(selector, Mapping):
        return True
    try:
        requirements = LabelSelector.from_object(selector).requirements
    except SelectorError:
        return False
    return all(_is_own(requirement.key) or requirement.matches(labels) for requirement in requirements)


def _is_own(key: str) -> bool:
    return key.partition("/")[0].endswith(_OWN_KEYS)


def _text_items(value: Any) -> frozenset[str]:
    return (
        frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else frozenset()
    )


def _enumerate_mappings(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    items = value if isinstance(value, list | tuple) else ()
    return ((index, item) for index, item in enumerate(items) if isinstance(item, Mapping))


_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_RBAC = "rbac.authorization.k8s.io"


def find_protection_mistake(manifest: Manifest, namespace: str, name: str) -> tuple[str, str] | None:
    """Return the reason why Git may not contain an object, as (path, message), or None if Git may contain the object.

    Args:
        namespace: Namespace of the object, empty for a cluster-scoped object.
    """
    kind = group_kind(manifest)
    path, target_namespace = ("metadata.name", name) if kind == NAMESPACE else ("metadata.namespace", namespace)
    if target_namespace == OWN_NAMESPACE:
        return (
            path,
            f"{target_namespace} contains Levelgate's own records, which only Levelgate writes; use another namespace",
        )
    if target_namespace in _SYSTEM_NAMESPACES:
        return (
            path,
            f"{target_namespace} belongs to the cluster itself, so Git cannot change it; use another namespace",
        )
    if kind == CRD and name.endswith(f".{OWN_GROUP}"):
        return "metadata.name", f"the kinds of {OWN_GROUP} are Levelgate's own; remove the object from Git"
    if kind.group == _RBAC and name.startswith("system:"):
        return "metadata.name", "RBAC objects whose names begin with system: belong to the API server; use another name"
    if (
        kind.group == _RBAC
        and kind.kind.startswith("Cluster")
        and name.partition("-")[0].partition(":")[0] == "levelgate"
    ):
        return "metadata.name", "cluster roles called levelgate contain Levelgate's own rights; use another name"
    return (
        find_webhook_mistake(manifest, OWN_NAMESPACE, _SYSTEM_NAMESPACES)
        if kind in WEBHOOK_CONFIGURATION_KINDS
        else None
    )
