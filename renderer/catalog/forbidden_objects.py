"""Webhook configurations that would be asked about what Levelgate, or the control plane itself, has to write.

Such a webhook, once it fails or refuses, also stops the repair of itself: no record, no lease and no leader any more. The API server excludes webhook
configurations from webhooks, and nothing else. What a `matchConditions` lets through is not looked at: it may depend on the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from renderer.identity import GroupKind, Manifest

KINDS: Final = frozenset(
    GroupKind("admissionregistration.k8s.io", f"{kind}WebhookConfiguration") for kind in ("Mutating", "Validating")
)
_OWN_KEYS: Final = ("levelgate.dev", "applyset.kubernetes.io")
_NAME: Final = "kubernetes.io/metadata.name"
_WRITES: Final = frozenset({"*", "CREATE", "UPDATE", "DELETE"})


class _Needed(NamedTuple):
    group: str
    resource: str


_RECORDS: Final = (
    _Needed("", "configmaps"),
    _Needed("apps", "controllerrevisions"),
    _Needed("coordination.k8s.io", "leases"),
)
_LEASES: Final = (_Needed("coordination.k8s.io", "leases"),)


def why_refused(manifest: Manifest, own: str, system: frozenset[str]) -> tuple[str, str] | None:
    """Why this webhook configuration may not come from Git, as (path, message); None where it may.

    It may not be asked about records in the namespace `own`, nor about leases in those of the `system`.
    """
    places = (own, *sorted(system))
    for index, webhook in _numbered(manifest.get("webhooks")):
        for place in places:
            needed = next((one for one in _needed(place, own) if _is_asked(webhook, one, place)), None)
            if needed:
                who = "Levelgate" if place == own else "the control plane"
                advice = f"matchExpressions: [{{key: {_NAME}, operator: NotIn, values: [{', '.join(places)}]}}]"
                return (
                    f"webhooks[{index}]",
                    f"would be asked about {needed.resource} in {place}, which {who} has to be able to write whatever the webhook does; "
                    f"name fewer resources in rules, or write namespaceSelector: {{{advice}}}",
                )
    return None


def _needed(namespace: str, own: str) -> tuple[_Needed, ...]:
    return _RECORDS if namespace == own else _LEASES


def _is_asked(webhook: Mapping[str, Any], needed: _Needed, namespace: str) -> bool:
    """What cannot be understood is for the API server to refuse."""
    rules = [rule for _, rule in _numbered(webhook.get("rules"))]
    return (
        any(_covers(rule, needed) for rule in rules)
        and _selects(webhook.get("namespaceSelector"), {_NAME: namespace})
        and _selects(webhook.get("objectSelector"), {})
    )


def _covers(rule: Mapping[str, Any], needed: _Needed) -> bool:
    groups, resources, operations = (_texts(rule.get(name)) for name in ("apiGroups", "resources", "operations"))
    return bool(
        groups & {"*", needed.group}
        and resources & {"*", "*/*", needed.resource}
        and operations & _WRITES
        and rule.get("scope") in {None, "*", "Namespaced"}
    )


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Does a label selector choose an object with these labels? Of our own keys nobody but the program knows, so what they ask for counts as met."""
    if not isinstance(selector, Mapping):
        return True
    exact = selector.get("matchLabels")
    wanted = exact.items() if isinstance(exact, Mapping) else ()
    return all(_is_own(key) or labels.get(key) == value for key, value in wanted) and all(
        _is_met(one, labels) for _, one in _numbered(selector.get("matchExpressions"))
    )


def _is_met(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(requirement.get("key")), _texts(requirement.get("values"))
    match requirement.get("operator"):
        case _ if _is_own(key):
            return True
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def _is_own(key: str) -> bool:
    return key.partition("/")[0].endswith(_OWN_KEYS)


def _texts(value: Any) -> frozenset[str]:
    return (
        frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else frozenset()
    )


def _numbered(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    items = value if isinstance(value, list | tuple) else ()
    return ((index, item) for index, item in enumerate(items) if isinstance(item, Mapping))
