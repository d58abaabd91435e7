"""Warnings about selectors of placements that match nothing. The most frequent cause is a misspelled name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.placement import Placement
from gitops.windows.selectable import Labels, UnmatchedSelector, describe_missing_labels, find_missing_names
from gitops.windows.window import matches_any
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.kinds import PLACEMENT


@dataclass(frozen=True, slots=True)
class PlacedObjects:
    """Names and labels of a source's objects that a placement could select."""

    definitions: frozenset[str]
    labels: tuple[tuple[frozenset[str], Labels], ...]
    """Labels of each instance, with the names of the instance's definition."""
    namespaces: frozenset[str]
    """Namespaces of plain objects."""
    kinds: frozenset[GroupKind]
    """Kinds of plain objects."""
    is_certain: bool
    """False if unreadable files may contain further objects."""

    def labels_of(self, rgds: tuple[str, ...] | None) -> list[Labels]:
        """Return the labels of the instances of the definitions `rgds`, or of all definitions if `rgds` is None."""
        return [labels for names, labels in self.labels if any(matches_any(rgds, name) for name in names)]


def find_unmatched_placements(
    placements: Iterable[Placement],
    documents: Iterable[DeclaredObject],
    held: PlacedObjects,
    clusters: Collection[ClusterSpec],
) -> Iterator[UnmatchedSelector]:
    """Yield each selector, and each entry of a selector, that matches no object or no cluster.

    Args:
        documents: declared objects in Git, for the line of each problem.
    """
    declared_by_name: Mapping[str, DeclaredObject] = {
        document.manifest["metadata"]["name"]: document
        for document in documents
        if document.group_kind.kind == PLACEMENT
    }
    labels_of_clusters = [cluster.labels for cluster in clusters]
    for placement in placements:
        declared = declared_by_name.get(placement.name)
        for path, message in _find_missing(placement, held, labels_of_clusters):
            line = declared.line_of(path) if declared else placement.origin.line
            problem = Problem(placement.origin.file, line, path, f"placement {placement.name}: {message}")
            yield UnmatchedSelector((PLACEMENT, placement.name), problem)


def _find_missing(placement: Placement, held: PlacedObjects, clusters: Collection[Labels]) -> Iterator[tuple[str, str]]:
    objects, plain = placement.objects, placement.objects.plain
    yield from _missing_names("spec.objects.rgds", objects.rgds, held.definitions, held)
    instances = held.labels_of(objects.rgds)
    if objects.instances and (instances or not objects.rgds):
        message = describe_missing_labels(objects.instances, instances, is_certain=held.is_certain)
        if message:
            yield "spec.objects.instances", message
    if plain:
        what = "no plain object here is in namespace"
        for index, message in find_missing_names(plain.namespaces, held.namespaces, what, is_certain=held.is_certain):
            yield f"spec.objects.plain.namespaces[{index}]", message
        kinds = {kind.kind for kind in held.kinds} | {str(kind) for kind in held.kinds}
        what = "no plain object here is of kind"
        for index, message in find_missing_names(plain.kinds, kinds, what, is_certain=held.is_certain):
            yield f"spec.objects.plain.kinds[{index}]", message
    if message := _missing_clusters(placement, clusters):
        yield "spec.clusters", f"{message}; no cluster gets the objects; correct the selector, or declare the cluster"
        return
    chosen = [labels for labels in clusters if placement.clusters.matches(labels)]
    for index, override in enumerate(placement.overrides):
        path = f"spec.overrides[{index}]"
        if message := describe_missing_labels(
            override.clusters, chosen, is_certain=True, noun="cluster of this placement"
        ):
            yield f"{path}.clusters", f"{message}; the override changes nothing; correct the selector"
        placed = [name for name in held.definitions if matches_any(objects.rgds, name)]
        yield from _missing_names(f"{path}.rgds", override.rgds, placed, held)


def _missing_names(
    path: str, entries: tuple[str, ...] | None, known: Collection[str], held: PlacedObjects
) -> Iterator[tuple[str, str]]:
    what = "no definition here is called"
    for index, message in find_missing_names(entries, known, what, is_certain=held.is_certain):
        yield f"{path}[{index}]", message


def _missing_clusters(placement: Placement, clusters: Collection[Labels]) -> str:
    if not clusters:
        return "no cluster is declared"
    message = describe_missing_labels(placement.clusters, clusters, is_certain=True, noun="cluster")
    if not message and not any(placement.clusters.matches(labels) for labels in clusters):
        return f"no cluster fits {placement.clusters}"
    return message
