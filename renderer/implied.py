"""Edges that nobody writes but that everybody means: namespace, CRD, RBAC, references, `depends-on`.

They order the plain objects, CRDs and instances of a source; only objects of the same set count. The annotation
`config.kubernetes.io/depends-on` (cli-utils) asks for a *healthy* dependency, all others for a ready one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from renderer import keys
from renderer.errors import RendererError
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import CRD, scopes_of

_RBAC = "rbac.authorization.k8s.io"
_POD_SPECS = {
    GroupKind("", "Pod"): ("spec",),
    GroupKind("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    **{
        GroupKind("apps", kind): ("spec", "template", "spec")
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
    GroupKind("batch", "Job"): ("spec", "template", "spec"),
    GroupKind("", "ReplicationController"): ("spec", "template", "spec"),
}


class DependsOnError(RendererError):
    """The annotation `config.kubernetes.io/depends-on` cannot be read."""


def edges(manifest: Manifest, key: ObjectKey, providers: Mapping[GroupKind, ObjectKey]) -> Iterator[ObjectKey]:
    """Keys that this object depends on if they are in its set. `providers` maps a custom kind to the CRD that defines it.

    References that are not texts are passed over; whether they are mistakes is for the server to say.
    """
    return (found for found in _edges(manifest, key, providers) if all(isinstance(part, str) for part in found))


def _edges(manifest: Manifest, key: ObjectKey, providers: Mapping[GroupKind, ObjectKey]) -> Iterator[ObjectKey]:
    if key.namespace:
        yield ObjectKey("", "Namespace", "", key.namespace)
    if crd := providers.get(key.group_kind):
        yield crd
    yield from _rbac(manifest, key)
    yield from _services(manifest, key)
    path = _POD_SPECS.get(key.group_kind)
    if path:
        yield from _pod(_at(manifest, path), key.namespace)


def depends_on(manifest: Manifest) -> list[ObjectKey]:
    """The keys that `config.kubernetes.io/depends-on` names: `group/namespaces/NS/Kind/NAME` or `group/Kind/NAME`, comma separated.

    Raises DependsOnError where the text has another form.
    """
    annotations = _at(manifest, ("metadata", "annotations"))
    text = annotations.get(keys.DEPENDS_ON)
    if not isinstance(text, str):
        return []
    return [_parse(reference.strip()) for reference in text.split(",") if reference.strip()]


def crd_providers(manifests: Iterable[tuple[ObjectKey, Manifest]]) -> dict[GroupKind, ObjectKey]:
    """Which CRD of the set defines which kind."""
    return {kind: key for key, manifest in manifests if key.group_kind == CRD for kind in scopes_of([manifest])}


def _parse(reference: str) -> ObjectKey:
    match reference.split("/"):
        case [group, "namespaces", namespace, kind, name] if kind and name and namespace:
            return ObjectKey(group, kind, namespace, name)
        case [group, kind, name] if kind and name:
            return ObjectKey(group, kind, "", name)
    raise DependsOnError(
        f"cannot read {reference!r}; write GROUP/namespaces/NAMESPACE/KIND/NAME or GROUP/KIND/NAME (the core group is empty)"
    )


def _at(value: Any, path: Iterable[str]) -> Mapping[str, Any]:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _rbac(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    if key.group != _RBAC or not key.kind.endswith("Binding"):
        return
    role = _at(manifest, ("roleRef",))
    if role.get("kind") and role.get("name"):
        yield ObjectKey(_RBAC, role["kind"], key.namespace if role["kind"] == "Role" else "", role["name"])
    for subject in _items(manifest.get("subjects")):
        if subject.get("kind") == "ServiceAccount" and subject.get("name"):
            yield ObjectKey("", "ServiceAccount", subject.get("namespace") or key.namespace, subject["name"])


def _services(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    references = [_at(manifest, ("spec", "service"))] if key.group == "apiregistration.k8s.io" else []
    if key.group == "admissionregistration.k8s.io":
        references = [_at(webhook, ("clientConfig", "service")) for webhook in _items(manifest.get("webhooks"))]
    for reference in references:
        if reference.get("name"):
            yield ObjectKey("", "Service", reference.get("namespace", ""), reference["name"])


def _pod(spec: Mapping[str, Any], namespace: str) -> Iterator[ObjectKey]:
    if name := spec.get("serviceAccountName"):
        yield ObjectKey("", "ServiceAccount", namespace, name)
    for volume in _items(spec.get("volumes")):
        yield from _volume(volume, namespace)
    for container in (*_items(spec.get("initContainers")), *_items(spec.get("containers"))):
        for variable in (*_items(container.get("env")), *_items(container.get("envFrom"))):
            source = _at(variable, ("valueFrom",)) or variable
            for field, kind in (
                ("configMapKeyRef", "ConfigMap"),
                ("configMapRef", "ConfigMap"),
                ("secretKeyRef", "Secret"),
                ("secretRef", "Secret"),
            ):
                if name := _at(source, (field,)).get("name"):
                    yield ObjectKey("", kind, namespace, name)


def _volume(volume: Mapping[str, Any], namespace: str) -> Iterator[ObjectKey]:
    sources = [volume, *_items(_at(volume, ("projected",)).get("sources"))]
    for source in sources:
        for field, kind, name in (
            ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName" if source is volume else "name"),
        ):
            if found := _at(source, (field,)).get(name):
                yield ObjectKey("", kind, namespace, found)
