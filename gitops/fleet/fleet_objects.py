"""The clusters and placements that are in force: those of a source's newest commit, and where that cannot be read those before.

Broken input takes no cluster away, and no object from one. What does not validate, is declared twice, or stands in a file that cannot be read keeps
its last accepted version; so what was accepted is stored, and outlives a restart. Where there is none, it is said which cannot be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from applier.cluster import ClusterName
from gitops.fleet.cluster_spec import ClusterSpec, read_cluster
from gitops.fleet.placement import Placement, read_placement
from gitops.rollouts.source_rules import StoredRules, store_documents, stored_documents
from gitops.windows.rule_reader import ParsedRules, parse_rules
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.kinds import CLUSTER, PLACEMENT

T = TypeVar("T")

_MAY_PLACE: Final = re.compile(rb"levelgate\.dev/v\d|kind\W+(Cluster|Placement)\b")
"""Annotations of ours stand in files without placements as well, so the prefix alone says nothing."""


@dataclass(frozen=True, slots=True)
class FleetObjects:
    """The clusters and placements of one source.

    `broken_clusters` and `broken_placements` are those, and files that may hold some, that cannot be read and of which nothing earlier is in force:
    such a cluster is not removed. `accepted` is what is in force, to be stored.
    """

    clusters: Mapping[ClusterName, ClusterSpec]
    placements: tuple[Placement, ...]
    broken_clusters: frozenset[str]
    broken_placements: frozenset[str]
    problems: tuple[Problem, ...]
    accepted: StoredRules


def read_fleet_objects(catalog: Catalog, stored: StoredRules, *, fleet_source: str) -> FleetObjects:
    """The clusters and placements of a commit, and of what was `stored` before those that it cannot say. Its problems are those of the commit.

    Only the source of the fleet may declare clusters: whoever writes one decides where the program's credentials go.
    """
    documents = catalog.destinations
    problems: list[Problem] = []
    if catalog.source != fleet_source:
        problems += _refused_clusters(documents, fleet_source)
        documents = tuple(document for document in documents if document.group_kind.kind != CLUSTER)
    earlier = {_key(document): document for document in stored_documents(stored)}
    clusters = _resolve(catalog, documents, earlier, CLUSTER, "cluster", read_cluster)
    placements = _resolve(catalog, documents, earlier, PLACEMENT, "placement", read_placement)
    unread = frozenset(_unread_files(catalog, {document.origin.file for document in earlier.values()}))
    return FleetObjects(
        clusters={cluster.name: cluster for cluster in clusters.values.values()},
        placements=tuple(placements.values.values()),
        broken_clusters=clusters.broken | (unread if catalog.source == fleet_source else frozenset()),
        broken_placements=placements.broken | unread,
        problems=tuple(sorted((*problems, *clusters.problems, *placements.problems))),
        accepted={"rules": store_documents((*clusters.documents, *placements.documents))}
        if documents or earlier
        else {},
    )


def clusters_in(documents: Iterable[DeclaredObject]) -> Iterator[ClusterSpec]:
    """Yield the clusters among these documents that can be read."""
    for document in documents:
        if document.group_kind.kind == CLUSTER and isinstance(cluster := read_cluster(document), ClusterSpec):
            yield cluster


def placements_in(documents: Iterable[DeclaredObject]) -> Iterator[Placement]:
    """Yield the placements among these documents that can be read."""
    for document in documents:
        if document.group_kind.kind == PLACEMENT and isinstance(placement := read_placement(document), Placement):
            yield placement


@dataclass(frozen=True, slots=True)
class _Resolved:
    """What is in force of one kind, by name."""

    values: Mapping[str, Any]
    documents: Collection[DeclaredObject]
    broken: frozenset[str]
    problems: tuple[Problem, ...]


def _resolve(
    catalog: Catalog,
    documents: Iterable[DeclaredObject],
    earlier: Mapping[tuple[str, str], DeclaredObject],
    kind: str,
    noun: str,
    read: Callable[[DeclaredObject], T | list[Problem]],
) -> _Resolved:
    mine = [document for document in documents if document.group_kind.kind == kind]
    parsed = parse_rules(mine, kind, noun, read)
    declared = {document.manifest["metadata"]["name"] for document in mine}
    kept = [
        document
        for (known_kind, name), document in earlier.items()
        if known_kind == kind
        and (name in parsed.broken or (name not in declared and catalog.protection.protects(document.origin.file)))
    ]
    in_force = [document for document in mine if document.manifest["metadata"]["name"] not in parsed.broken] + kept
    effective: ParsedRules[T] = parse_rules(in_force, kind, noun, read)
    return _Resolved(
        dict(sorted(effective.rules.items())),
        in_force,
        frozenset(parsed.broken.keys() - effective.rules.keys()) | effective.broken.keys(),
        parsed.problems,
    )


def _refused_clusters(documents: Iterable[DeclaredObject], fleet_source: str) -> Iterator[Problem]:
    for document in documents:
        if document.group_kind.kind == CLUSTER:
            message = f"only source {fleet_source}, which fleet.source in levelgate.yaml names, declares clusters; move it there"
            yield Problem(document.origin.file, document.line_of("kind"), "kind", message)


def _unread_files(catalog: Catalog, known_files: Collection[str]) -> Iterator[str]:
    """Files that cannot be read, may hold a cluster or a placement, and held none that was accepted."""
    for file in catalog.unreadable_files - set(known_files):
        if _MAY_PLACE.search(catalog.contents[file].data):
            yield file


def _key(document: DeclaredObject) -> tuple[str, str]:
    return document.group_kind.kind, document.manifest["metadata"]["name"]
