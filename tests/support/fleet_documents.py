"""Clusters, placements and what they place, as files of a repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import FleetObjects, read_fleet_objects
from gitops.fleet.placing import place
from gitops.fleet.shares import NOTHING_PLACED, Placed
from renderer.catalog.catalog import Catalog, load
from renderer.catalog.projection import project, scopes_in
from renderer.identity import ObjectKey

OWN = "levelgate.dev/v1alpha1"
Files = Mapping[str, str]


def cluster(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> str:
    metadata = {"name": name, "labels": labels or {}}
    access = (
        {}
        if name == "local"
        else {"access": {"secretRef": {"name": "clusters", "key": name.partition("#")[2] or name}}}
    )
    return json.dumps({"apiVersion": OWN, "kind": "Cluster", "metadata": metadata, "spec": {**access, **spec}})


def placement(name: str, **spec: Any) -> str:
    whole = {"objects": {}, "clusters": {}, **spec}
    return json.dumps({"apiVersion": OWN, "kind": "Placement", "metadata": {"name": name}, "spec": whole})


def plain(name: str, kind: str = "ConfigMap", api: str = "v1", namespace: str = "", **fields: Any) -> str:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})


def read(files: Files, previous: Catalog | None = None) -> Catalog:
    return load({f"{name}.yaml": text.encode() for name, text in files.items()}, source="platform", previous=previous)


def objects_in(catalog: Catalog, before: FleetObjects | None = None) -> FleetObjects:
    return read_fleet_objects(catalog, before.accepted if before else {}, fleet_source="platform")


def placed_by(files: Files, previous: Placed = NOTHING_PLACED, before: FleetObjects | None = None) -> Placed:
    """What the clusters and placements in these files make of the rest."""
    catalog = read(files)
    objects = objects_in(catalog, before)
    return place(
        catalog,
        objects.clusters.values(),
        objects.placements,
        previous,
        namespaced_by_kind=scopes_in(catalog),
        broken=objects.broken_placements,
        definition_names={},
    )


def names_by_cluster(placed: Placed) -> dict[str, set[str]]:
    return {str(name): {key.name for key in share.objects} for name, share in placed.by_cluster.items()}


def projected(catalog: Catalog, placed: Placed, spec: ClusterSpec) -> Catalog:
    """Return the files that a cluster gets."""
    share = placed.by_cluster[spec.name]
    return project(
        catalog,
        share.content(is_certain=placed.is_certain),
        namespaces=spec.namespaces,
        namespaced_by_kind=scopes_in(catalog),
    )


def key_of(name: str, kind: str = "ConfigMap", namespace: str = "default", group: str = "") -> ObjectKey:
    return ObjectKey(group, kind, namespace, name)
