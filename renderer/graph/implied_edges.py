"""Dependencies that follow from the content of objects: namespace, CRD, RBAC, references, `depends-on`.

Implied dependencies order the plain objects, CRDs and instances of a source, and the nodes of an instance. The objects
of a source are one set, and the nodes of an instance are one set. Only dependencies within one set count. A dependent
waits until its dependency is ready.

Two kinds of dependent wait until the dependency is healthy:

* objects with the annotation `config.kubernetes.io/depends-on` (cli-utils)
* objects that make the API server call a Service (webhooks, aggregated APIs)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from renderer import well_known
from renderer.errors import RendererError
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import CRD, NAMESPACE, scopes_of

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

_ENVIRONMENT_REFERENCES = (
    ("configMapKeyRef", "ConfigMap"),
    ("configMapRef", "ConfigMap"),
    ("secretKeyRef", "Secret"),
    ("secretRef", "Secret"),
)
"""Fields of `env` and `envFrom` of a container, each with the kind that the field names."""

_CLUSTER_SCOPED_FIELDS = {
    "priorityClassName": GroupKind("scheduling.k8s.io", "PriorityClass"),
    "runtimeClassName": GroupKind("node.k8s.io", "RuntimeClass"),
}
"""Fields of a Pod that name cluster-scoped objects. If a named object is missing, admission refuses the Pod."""


class DependsOnError(RendererError):
    """An unreadable annotation `config.kubernetes.io/depends-on`."""


@dataclass(frozen=True, slots=True)
class ImpliedEdgeIndex:
    """Relations between the objects of one set that the manifest of the dependent does not name."""

    crds: Mapping[GroupKind, ObjectKey]
    """The CRD that defines each kind, by kind."""
    servers: Mapping[ObjectKey, tuple[ObjectKey, ...]]
    """The workloads behind each Service that the API server calls, by Service."""
    bindings: Mapping[ObjectKey, tuple[ObjectKey, ...]]
    """The bindings that grant rights to each ServiceAccount, by ServiceAccount."""

    @classmethod
    def from_manifests(cls, manifests: Iterable[tuple[ObjectKey, Manifest]]) -> ImpliedEdgeIndex:
        objects = list(manifests)
        bindings: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        for key, manifest in objects:
            if _is_binding(key):
                for account in _bound_accounts(manifest, key):
                    bindings[account] = (*bindings.get(account, ()), key)
        called_services = {service for key, manifest in objects for service in _referenced_services(manifest, key)}
        servers = {
            key: tuple(_selected_workloads(_mapping_at(manifest, ("spec", "selector")), key.namespace, objects))
            for key, manifest in objects
            if key in called_services
        }
        crds = {kind: key for key, manifest in objects if key.group_kind == CRD for kind in scopes_of([manifest])}
        return cls(crds, servers, bindings)


_EMPTY_INDEX = ImpliedEdgeIndex({}, {}, {})


def edges(manifest: Manifest, key: ObjectKey, index: ImpliedEdgeIndex) -> Iterator[ObjectKey]:
    """Yield the keys that an object depends on. The caller leaves out keys that are not in the object's set.

    The function leaves out references that are not text, because the API server reports such references.
    """
    return (edge for edge in _edges(manifest, key, index) if all(isinstance(part, str) for part in edge))


def soft_edges(manifest: Manifest, key: ObjectKey, index: ImpliedEdgeIndex) -> Iterator[ObjectKey]:
    """Yield dependencies that the manifest of the object does not name.

    The API server's callbacks need the Pods behind a Service. A running workload needs the rights of its
    ServiceAccount. If an unnamed dependency and a named dependency form a cycle, the caller drops the unnamed
    dependency.
    """
    yield from serving_workloads(manifest, key, index)
    if path := _POD_SPECS.get(key.group_kind):
        account = str(_mapping_at(manifest, path).get("serviceAccountName") or "default")
        yield from index.bindings.get(ObjectKey("", "ServiceAccount", key.namespace, account), ())


def serving_workloads(manifest: Manifest, key: ObjectKey, index: ImpliedEdgeIndex) -> Iterator[ObjectKey]:
    """Yield workloads that must be healthy before the API server may call the Service of `manifest`.

    If the API server called the Service earlier, a webhook with `failurePolicy: Fail` would block all writes, including
    the writes that start the workload.
    """
    for service in _referenced_services(manifest, key):
        yield from index.servers.get(service, ())


def edge_inputs(manifest: Manifest, key: ObjectKey) -> tuple[object, ...]:
    """Return all parts of `manifest` that can change an edge of its set.

    If the parts of all objects stay equal, no edge of the set changes.
    """
    path = _POD_SPECS.get(key.group_kind, ())
    return (
        _mapping_at(manifest, ("metadata", "annotations")).get(well_known.DEPENDS_ON),
        tuple(_edges(manifest, key, _EMPTY_INDEX)),
        _mapping_at(manifest, path).get("serviceAccountName") if path else None,
        _mapping_at(manifest, (*path[:-1], "metadata", "labels")) if path else None,
        _mapping_at(manifest, ("spec", "selector")) if key.kind == "Service" else None,
        tuple(scopes_of([manifest]).items()) if key.group_kind == CRD else None,
    )


def _edges(manifest: Manifest, key: ObjectKey, index: ImpliedEdgeIndex) -> Iterator[ObjectKey]:
    if key.namespace:
        yield ObjectKey("", "Namespace", "", key.namespace)
    if crd := index.crds.get(key.group_kind):
        yield crd
    yield from _rbac_edges(manifest, key)
    yield from _referenced_services(manifest, key)
    path = _POD_SPECS.get(key.group_kind)
    if path:
        yield from _pod_edges(_mapping_at(manifest, path), key.namespace)


def persistent_volume_claims(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    """Yield the PersistentVolumeClaims that the Pods of an object use."""
    path = _POD_SPECS.get(key.group_kind)
    references = _pod_edges(_mapping_at(manifest, path), key.namespace) if path else ()
    return (reference for reference in references if reference.kind == "PersistentVolumeClaim")


def parse_depends_on(manifest: Manifest) -> list[ObjectKey]:
    """Return the comma-separated keys in the annotation `config.kubernetes.io/depends-on`.

    A key is `GROUP/namespaces/NAMESPACE/KIND/NAME` or `GROUP/KIND/NAME`. Raises: DependsOnError for any other text.
    """
    annotations = _mapping_at(manifest, ("metadata", "annotations"))
    text = annotations.get(well_known.DEPENDS_ON)
    if not isinstance(text, str):
        return []
    return [_parse_reference(reference.strip()) for reference in text.split(",") if reference.strip()]


def with_namespaces(manifest: Manifest, namespaces: Mapping[str, str]) -> Manifest:
    """Return `manifest` with `namespaces` mapped in `config.kubernetes.io/depends-on`.

    If nothing changes, return `manifest` itself.

    Args:
        namespaces: The mapping from old to new namespaces.
    """
    text = _mapping_at(manifest, ("metadata", "annotations")).get(well_known.DEPENDS_ON)
    if not isinstance(text, str):
        return manifest
    renamed = ",".join(_with_namespace(reference.strip(), namespaces) for reference in text.split(","))
    if renamed == ",".join(map(str.strip, text.split(","))):
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], well_known.DEPENDS_ON: renamed}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _with_namespace(reference: str, namespaces: Mapping[str, str]) -> str:
    match reference.split("/"):
        case [group, "namespaces", namespace, kind, name]:
            return f"{group}/namespaces/{namespaces.get(namespace, namespace)}/{kind}/{name}"
        case ["", NAMESPACE.kind, name]:
            return f"/{NAMESPACE.kind}/{namespaces.get(name, name)}"
    return reference


def _parse_reference(reference: str) -> ObjectKey:
    match reference.split("/"):
        case [group, "namespaces", namespace, kind, name] if kind and name and namespace:
            return ObjectKey(group, kind, namespace, name)
        case [group, kind, name] if kind and name:
            return ObjectKey(group, kind, "", name)
    raise DependsOnError(
        f"cannot read {reference!r}; write GROUP/namespaces/NAMESPACE/KIND/NAME or GROUP/KIND/NAME "
        "(the core group is empty)"
    )


def _mapping_at(value: Any, path: Iterable[str]) -> Mapping[str, Any]:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _mapping_items(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _rbac_edges(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    if not _is_binding(key):
        return
    role = _mapping_at(manifest, ("roleRef",))
    if role.get("kind") and role.get("name"):
        yield ObjectKey(_RBAC, role["kind"], key.namespace if role["kind"] == "Role" else "", role["name"])
    yield from _bound_accounts(manifest, key)


def _is_binding(key: ObjectKey) -> bool:
    return key.group == _RBAC and key.kind.endswith("Binding")


def _bound_accounts(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    for subject in _mapping_items(manifest.get("subjects")):
        match subject:
            case {"kind": "ServiceAccount", "name": str(name)} if name:
                yield ObjectKey("", "ServiceAccount", str(subject.get("namespace") or key.namespace), name)


def _referenced_services(manifest: Manifest, key: ObjectKey) -> Iterator[ObjectKey]:
    references = [_mapping_at(manifest, ("spec", "service"))] if key.group == "apiregistration.k8s.io" else []
    if key.group == "admissionregistration.k8s.io":
        references = [
            _mapping_at(webhook, ("clientConfig", "service")) for webhook in _mapping_items(manifest.get("webhooks"))
        ]
    for reference in references:
        match reference:
            case {"name": str(name), "namespace": str(namespace)} if name:
                yield ObjectKey("", "Service", namespace, name)


def _selected_workloads(
    selector: Mapping[str, Any], namespace: str, objects: Iterable[tuple[ObjectKey, Manifest]]
) -> Iterator[ObjectKey]:
    """Yield the workloads whose Pods a Service selects.

    An empty selector of a Service selects no Pods, so the function yields no workload.

    Args:
        selector: The selector of the Service.
    """
    for key, manifest in objects:
        path = _POD_SPECS.get(key.group_kind)
        if selector and path and key.namespace == namespace:
            labels = _mapping_at(manifest, (*path[:-1], "metadata", "labels"))
            if selector.items() <= labels.items():
                yield key


def _pod_edges(spec: Mapping[str, Any], namespace: str) -> Iterator[ObjectKey]:
    if name := spec.get("serviceAccountName"):
        yield ObjectKey("", "ServiceAccount", namespace, name)
    for field, cluster_scoped in _CLUSTER_SCOPED_FIELDS.items():
        if name := spec.get(field):
            yield ObjectKey(*cluster_scoped, "", name)
    for reference in _mapping_items(spec.get("imagePullSecrets")):
        if name := reference.get("name"):
            yield ObjectKey("", "Secret", namespace, name)
    for volume in _mapping_items(spec.get("volumes")):
        yield from _volume_edges(volume, namespace)
    for container in (*_mapping_items(spec.get("initContainers")), *_mapping_items(spec.get("containers"))):
        yield from _environment_edges(container, namespace)


def _environment_edges(container: Mapping[str, Any], namespace: str) -> Iterator[ObjectKey]:
    for variable in (*_mapping_items(container.get("env")), *_mapping_items(container.get("envFrom"))):
        source = _mapping_at(variable, ("valueFrom",)) or variable
        for field, kind in _ENVIRONMENT_REFERENCES:
            if name := _mapping_at(source, (field,)).get("name"):
                yield ObjectKey("", kind, namespace, name)


def _volume_edges(volume: Mapping[str, Any], namespace: str) -> Iterator[ObjectKey]:
    if claim := _mapping_at(volume, ("persistentVolumeClaim",)).get("claimName"):
        yield ObjectKey("", "PersistentVolumeClaim", namespace, claim)
    for source in (volume, *_mapping_items(_mapping_at(volume, ("projected",)).get("sources"))):
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if name := _mapping_at(source, (field,)).get("name"):
                yield ObjectKey("", kind, namespace, name)
    for driver in volume:
        secret_names = (
            _mapping_at(volume, (driver, reference)).get("name") for reference in ("secretRef", "nodePublishSecretRef")
        )
        for name in (_mapping_at(volume, (driver,)).get("secretName"), *secret_names):
            if name:
                yield ObjectKey("", "Secret", namespace, name)
