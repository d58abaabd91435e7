"""Definitions and scopes of a cluster's kinds as queries.

The shell sets the catalog of each source apart from its objects, so that a commit that changes an instance marks no
definition.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from applier.state.observed import annotation, label
from gitops.decisions import live
from gitops.decisions.live_view import Lookup
from gitops.queries import Input, QueryGraph, query
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.definition import type_check
from renderer.definition.compile import Definition, DefinitionErrors
from renderer.definition.kind_schemas import DescribedKind, KindSchemas, from_crds
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id, is_same, source_parent
from renderer.kinds import CRD, defined_kind, scopes_of
from renderer.render.revision_selection import RevisionSelection
from renderer.render.revisions import DefinitionRevision, StoredRevisions, definition_of

sources: Final[Input[[], tuple[str, ...]]] = Input("sources", initial=(), starts_unread=True)
"""Names of the sources of the cluster, in the order in which they take precedence."""

recorded_sources: Final[Input[[], frozenset[str]]] = Input("recorded_sources", initial=frozenset(), starts_unread=False)
"""Sources that are known from their records alone. Their instances are planned, and nothing else of them."""

catalog: Final[Input[[str], Catalog]] = Input("catalog", initial=Catalog(), starts_unread=True, same=operator.is_)
"""Catalog of a source, without its commit, and without its objects except CRDs."""


class SourceCommit(NamedTuple):
    """Commit of a source. For a source without commits, all fields are empty."""

    commit: str = ""
    author: str = ""
    message: str = ""


source_commit: Final[Input[[str], SourceCommit]] = Input("source_commit", initial=SourceCommit(), starts_unread=False)
"""Commit at which a source was read. So a commit that changes objects alone leaves the catalog as it is."""

stored_revisions: Final[Input[[GroupKind], tuple[DefinitionRevision, ...]]] = Input(
    "stored_revisions", initial=(), starts_unread=True
)
"""Stored revisions of the definition of a kind, from the oldest to the newest.

A revision whose content nobody has read has no manifest.
"""

store_error: Final[Input[[GroupKind], str]] = Input("store_error", initial="", starts_unread=False)
"""Reason why the newest revision of a kind could not be stored, or an empty text."""

read_record: Final[Input[[str], None]] = Input("read_record", initial=None, starts_unread=True)
"""Request to read the content of a record. The input is never set, so that its reader counts as unread."""


def shared_content(content: Catalog) -> Catalog:
    """Return the catalog that the input `catalog` holds."""
    crds = tuple(declared for declared in content.objects if declared.group_kind == CRD) if CRD in content.kinds else ()
    return replace(content, objects=crds, change=None, commit="", author="", message="")


@dataclass(frozen=True, slots=True)
class KindDefinitions:
    """Definitions of all kinds of a cluster, one for each kind."""

    current: Mapping[GroupKind, Definition]
    """Definition from which new instances of each kind are rendered."""
    numbers: Mapping[GroupKind, int]
    """Revision number of each definition in `current`."""
    owners: Mapping[GroupKind, str]
    """Source that owns each kind."""
    new: Mapping[GroupKind, Definition]
    """Definitions whose revision has to be stored before anything of them is written."""
    held: Mapping[GroupKind, str]
    """Kinds without a usable definition, each with the reason."""
    refused: Mapping[GroupKind, str]
    """Kinds whose definition does not count, because a plain CRD defines them, each with the reason."""
    problems: tuple[tuple[str, Problem], ...]
    """Mistakes, each with the source."""
    types: Mapping[str, KindSchemas]
    """Kinds that the expressions of each source's definitions may use."""


@query
def source_names(graph: QueryGraph) -> frozenset[str]:
    """Return the names of all sources, as the members of an index."""
    return frozenset(sources(graph))


@query
def planned_sources(graph: QueryGraph) -> tuple[str, ...]:
    """Return the sources whose own objects are planned, in the order of the configuration."""
    recorded = recorded_sources(graph)
    return tuple(source for source in sources(graph) if source not in recorded)


@query
def planned_source_names(graph: QueryGraph) -> frozenset[str]:
    """Return the names of the sources whose own objects are planned, as the members of an index."""
    return frozenset(planned_sources(graph))


@query
def _definitions_in_git(graph: QueryGraph, source: str) -> Catalog:
    """Return the definitions of a source as a catalog without objects and without the facts of its commit."""
    content = catalog(graph, source)
    return Catalog(
        source=source,
        definitions=content.definitions,
        broken=content.broken,
        duplicates=content.duplicates,
        types=content.types,
    )


@query(same=is_same)
def _crds_in_git(graph: QueryGraph, source: str) -> tuple[tuple[bool, Manifest], ...]:
    """Return the CRDs among a source's objects, each with whether a definition of the source has the same CRD."""
    content = catalog(graph, source)
    return tuple(
        (declared.manifest["metadata"]["name"] in content.duplicates.crds, declared.manifest)
        for declared in content.objects
    )


def _has_same_spec(before: DescribedKind | None, after: DescribedKind | None) -> bool:
    return before is after or (
        before is not None and after is not None and is_same(before.crd["spec"], after.crd["spec"])
    )


@query(same=_has_same_spec)
def _described_kind(graph: QueryGraph, crd: ObjectKey) -> DescribedKind | None:
    """Return the kind that a live CRD describes. The status of the CRD changes nothing."""
    obj = live.live(graph, crd)
    described = from_crds([obj] if obj else [], KindSchemas()).described
    return next(iter(described.values()), None)


@query
def _cluster_types(graph: QueryGraph) -> KindSchemas:
    """Return the kinds that the CRDs of the cluster describe."""
    kinds = (_described_kind(graph, key) for key in live.crd_keys(graph))
    return KindSchemas({defined_kind(kind.crd): kind for kind in kinds if kind})


@query
def installed_definition(graph: QueryGraph, kind: GroupKind) -> tuple[str, str]:
    """Return the name of the definition whose CRD the cluster has, and the id of the ApplySet of the CRD.

    If no CRD of the kind comes from a definition, both are empty.
    """
    found = ("", "")
    for key in live.crds_of(graph, kind):
        crd = live.live(graph, key)
        if crd and (name := annotation(crd, well_known.DEFINITION)):
            found = name, label(crd, well_known.PART_OF)
    return found


@query
def sources_by_id(graph: QueryGraph) -> Mapping[str, str]:
    """Return the sources by the id of their ApplySet."""
    return {applyset_id(source_parent(source)): source for source in sources(graph)}


def _installing_source(graph: QueryGraph, kind: GroupKind) -> str | None:
    """Return the source whose ApplySet has the CRD of the kind."""
    _, set_id = installed_definition(graph, kind)
    return sources_by_id(graph).get(set_id)


@query
def definitions(graph: QueryGraph) -> KindDefinitions:
    """Return the definition of each kind: the newest in Git if it may be used, or else the newest stored revision."""
    selection = RevisionSelection(
        [_definitions_in_git(graph, source) for source in sources(graph)],
        StoredRevisions(
            Lookup(partial(stored_revisions, graph), "revisions"),
            refused=Lookup(lambda kind: store_error(graph, kind) or None, "kinds"),
        ),
        Lookup(partial(live.live_object, graph), "objects"),
        partial(live.objects_of_kind, graph),
        Lookup(partial(_installing_source, graph), "kinds"),
        _cluster_types(graph),
    )
    for record in sorted(selection.unread):
        read_record(graph, record)
    return KindDefinitions(
        selection.current,
        selection.numbers,
        selection.owner,
        selection.issued,
        selection.held,
        selection.refused,
        tuple(selection.problems),
        selection.known,
    )


@query
def current_revision(graph: QueryGraph, kind: GroupKind) -> int:
    """Return the number of the revision from which new instances of a kind are rendered, or 0 if there is none."""
    return definitions(graph).numbers.get(kind, 0)


@query
def held_reason(graph: QueryGraph, kind: GroupKind) -> str:
    """Return the reason why a kind has no usable definition, or an empty text."""
    return definitions(graph).held.get(kind, "")


@query(same=operator.is_)
def definition_at(graph: QueryGraph, kind: GroupKind, number: int) -> Definition | None:
    """Return the definition of a kind at a revision, or None if the revision is not stored or no longer builds."""
    found = definitions(graph)
    if found.numbers.get(kind) == number:
        return found.current.get(kind)
    revision = StoredRevisions({kind: stored_revisions(graph, kind)}).numbered(kind, number)
    if revision is None:
        return None
    if revision.manifest is None:
        read_record(graph, revision.record)
        return None
    try:
        definition = definition_of(revision)
    except DefinitionErrors:
        return None
    types = found.types.get(found.owners.get(definition.group_kind, ""), _cluster_types(graph))
    return type_check.check_definition(definition, types).definition


@query
def _scopes_in_git(graph: QueryGraph) -> tuple[Mapping[GroupKind, bool], Mapping[GroupKind, bool]]:
    """Return the scopes that Git tells, and the scopes of CRDs that contradict a definition.

    Discovery takes precedence over the second, and the first over discovery.
    """
    current = definitions(graph).current.values()
    plain = [crd for source in sources(graph) for crd in _crds_in_git(graph, source)]
    of_definitions = [definition.crd for definition in current]
    nested = [crd for definition in current for crd in definition.declared_crds]
    clear = scopes_of([*of_definitions, *(crd for is_duplicate, crd in plain if not is_duplicate), *nested])
    return clear, scopes_of(crd for is_duplicate, crd in plain if is_duplicate)


@query
def namespaced(graph: QueryGraph, kind: GroupKind) -> bool | None:
    """Return whether a kind is namespaced, or None if neither Git nor the cluster tells."""
    clear, contradicting = _scopes_in_git(graph)
    if kind in clear:
        return clear[kind]
    if resource := live.discovery(graph).resources.get(kind):
        return resource.namespaced
    if kind in contradicting:
        return contradicting[kind]
    described = _cluster_types(graph).described.get(kind)
    return scopes_of([described.crd]).get(kind) if described else None
