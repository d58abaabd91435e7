"""Clusters and placements in force: from the newest commit, or for a broken object from its last accepted version.

Invariant: broken input removes no cluster, and no object from a cluster. An object is broken if it is invalid, declared
twice, or in an unreadable file. An accepted object that the commit does not declare may have moved to an unreadable
file. The hub stores accepted versions, so a restart does not lose a version. The result names the broken objects that
have no accepted version.
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
"""Text that a file with a cluster or placement contains: Levelgate's API version, or one of the two kinds.

Levelgate's prefix alone is not enough, because annotations in other files also contain the prefix.
"""


@dataclass(frozen=True, slots=True)
class FleetObjects:
    """Clusters and placements of one source that are in force."""

    clusters: Mapping[ClusterName, ClusterSpec]
    placements: tuple[Placement, ...]
    broken_clusters: frozenset[str]
    """Broken clusters that have no accepted version, and unreadable files that may contain a cluster.

    While this set is not empty, the hub removes no cluster.
    """
    broken_placements: frozenset[str]
    """Broken placements that have no accepted version, and unreadable files that may contain a placement."""
    problems: tuple[Problem, ...]
    accepted: StoredRules
    """Stored form of the objects in force."""


def read_fleet_objects(
    catalog: Catalog, stored: StoredRules, *, fleet_source: str, is_held: bool = False
) -> FleetObjects:
    """Return the clusters and placements in force. Versions in `stored` replace the broken objects of the commit.

    Only `fleet_source` may declare clusters, because the author of a `Cluster` decides which server gets credentials.

    Args:
        is_held: True if the deletions of the source are held back (`SourceState.hold`). Then the objects in `stored`
            stay, unless the commit itself contains a cluster or placement.
    """
    documents = catalog.destinations
    problems: list[Problem] = []
    if catalog.source != fleet_source:
        problems += _refused_clusters(documents, fleet_source)
        documents = tuple(document for document in documents if document.group_kind.kind != CLUSTER)
    earlier = {_key(document): document for document in stored_documents(stored)}
    known_files = {document.origin.file for document in earlier.values()}
    unread = frozenset(_unread_files(catalog, known_files))
    is_complete = not (
        unread or any(map(catalog.protection.protects, known_files)) or (is_held and not catalog.destinations)
    )
    clusters = _resolve(documents, earlier, CLUSTER, "cluster", read_cluster, is_complete=is_complete)
    placements = _resolve(documents, earlier, PLACEMENT, "placement", read_placement, is_complete=is_complete)
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
    """Yield the valid clusters among `documents`."""
    for document in documents:
        if document.group_kind.kind == CLUSTER and isinstance(cluster := read_cluster(document), ClusterSpec):
            yield cluster


def placements_in(documents: Iterable[DeclaredObject]) -> Iterator[Placement]:
    """Yield the valid placements among `documents`."""
    for document in documents:
        if document.group_kind.kind == PLACEMENT and isinstance(placement := read_placement(document), Placement):
            yield placement


@dataclass(frozen=True, slots=True)
class _Resolved:
    """Objects of one kind that are in force, by name, and the documents that declare them."""

    values: Mapping[str, Any]
    documents: Collection[DeclaredObject]
    broken: frozenset[str]
    problems: tuple[Problem, ...]


def _resolve(
    documents: Iterable[DeclaredObject],
    earlier: Mapping[tuple[str, str], DeclaredObject],
    kind: str,
    noun: str,
    read: Callable[[DeclaredObject], T | list[Problem]],
    *,
    is_complete: bool,
) -> _Resolved:
    """Return the objects of one kind, where earlier versions replace broken objects.

    Args:
        is_complete: False if `documents` may lack objects, for example because of an unreadable file. Then earlier
            objects that `documents` lacks stay.
    """
    of_kind = [document for document in documents if document.group_kind.kind == kind]
    parsed = parse_rules(of_kind, kind, noun, read)
    declared = {document.manifest["metadata"]["name"] for document in of_kind}
    kept = [
        document
        for (known_kind, name), document in earlier.items()
        if known_kind == kind and (name in parsed.broken or (name not in declared and not is_complete))
    ]
    in_force = [document for document in of_kind if document.manifest["metadata"]["name"] not in parsed.broken] + kept
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
            rule = f"only source {fleet_source}, which fleet.source in levelgate.yaml names, may declare clusters"
            yield Problem(
                document.origin.file, document.line_of("kind"), "kind", f"{rule}; move the Cluster to that source"
            )


def _unread_files(catalog: Catalog, known_files: Collection[str]) -> Iterator[str]:
    """Yield the unreadable files, except `known_files`, that may contain a cluster or placement."""
    for file in catalog.unreadable_files - set(known_files):
        if _MAY_PLACE.search(catalog.contents[file].data):
            yield file


def _key(document: DeclaredObject) -> tuple[str, str]:
    return document.group_kind.kind, document.manifest["metadata"]["name"]
