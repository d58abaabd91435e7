"""Directives of people as queries: what they ask of the installation, sources, definitions, instances and objects.

A suspension of something wider counts before the object's own. A break-glass of something wider counts only if the
object has none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from applier.causes import Cause
from applier.state.observed import annotation, label
from gitops.decisions import live
from gitops.decisions.definitions import definitions, source_names, sources, sources_by_id
from gitops.decisions.moments import recompute_at_edge
from gitops.decisions.planned import holding_parent, planned_set
from gitops.decisions.source_sets import source_set_node
from gitops.decisions.suspension import configured_suspension, missing_sources_cause, wide_suspension
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from gitops.records.installation import INSTALLATION
from gitops.records.source_record import SourceRecord, causes_of, requests_of
from gitops.rollouts.directives import NO_DIRECTIVES, Directives, first_seen_at
from gitops.timestamps import parse_timestamp
from renderer import well_known
from renderer.definition.crd import key_of
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD, defined_kind

suspended_by_configuration: Final[Input[[str], str]] = Input(
    "suspended_by_configuration", initial="", starts_unread=False
)
"""Reason why the operator's configuration suspends a source, or an empty text."""

prerequisites: Final[Input[[str], Sequence[str]]] = Input("prerequisites", initial=(), starts_unread=False)
"""Sources that have to be applied once before a source is applied for the first time."""

foreign_suspension: Final[Input[[GroupKind], Cause | None]] = Input(
    "foreign_suspension", initial=None, starts_unread=False
)
"""Suspension of a definition by a source that this process does not reconcile, or None."""

UNSEEN: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Time of the first observation of a directive that is not known yet. It keeps a hold in force and a break-glass
ineffective.
"""

first_observation: Final[Input[[ObjectKey, str, str], datetime]] = Input(
    "first_observation", initial=UNSEEN, starts_unread=True
)
"""Time in UTC of the first observation of a directive that no record tells: by object, name and value of the directive.
The shell sets it to the present time as soon as the graph reports it as unread.
"""


class _SourceObject(NamedTuple):
    """Live object of a source in so far as decisions about all of its objects depend on it."""

    directives: Directives
    was_applied: bool
    """True if a commit of the source was completely applied before."""
    has_inventory: bool


@query
def _source_object(graph: QueryGraph, source: str) -> _SourceObject:
    obj = live.live(graph, source_parent(source))
    return _SourceObject(
        Directives.from_objects(None, obj),
        bool(SourceRecord.from_object(obj or {}).applied),
        obj is not None and bool(label(obj, well_known.PARENT_ID)),
    )


@query
def _own_source_object(graph: QueryGraph, source: str) -> Mapping[str, _SourceObject]:
    return {source: _source_object(graph, source)}


_source_objects: Final[QueryIndex[str, str, _SourceObject, Contributions[str, _SourceObject]]] = QueryIndex(
    "_source_objects",
    order=2,
    members=source_names,
    contributions=_own_source_object,
    new_entry=Contributions[str, _SourceObject],
    spreads_unread=False,
)
"""Live objects of the sources, by source. Each report changes such an object, and through the index marks no other."""


def _object_of(graph: QueryGraph, source: str) -> _SourceObject:
    """Return the live object of a source. Raises: Fault of its directives."""
    found = _source_objects.contribution_of(graph, source, source)
    return _source_object(graph, source) if found is None else found  # a source that another process reconciles


def source_directives(graph: QueryGraph, source: str) -> Directives:
    """Return the directives on the record of a source."""
    return _object_of(graph, source).directives


@query
def definition_directives(graph: QueryGraph, kind: GroupKind) -> Directives:
    """Return the directives of a definition, from Git or from its CRD."""
    definition = definitions(graph).current.get(kind)
    crds = (live.live(graph, key) for key in live.crds_of(graph, kind))
    installed = next((crd for crd in crds if crd and annotation(crd, well_known.DEFINITION)), None)
    return Directives.from_objects(definition.crd if definition else None, installed)


@query
def source_of(graph: QueryGraph, parent: ObjectKey) -> str:
    """Return the source of a set, which for an unwanted instance is the source of the set that holds it."""
    current: ObjectKey | None = parent
    while current:
        found = planned_set(graph, current)
        if found is None or found.source:
            return found.source if found else ""
        current = holding_parent(graph, current)
    return ""


@query
def instance_directives(graph: QueryGraph, instance: ObjectKey) -> Directives:
    """Return the directives of an instance, with the break-glass of its definition, or else of its source."""
    found = planned_set(graph, instance)
    return (
        Directives.from_objects(found.manifest if found else None, live.live(graph, instance))
        .with_wider_break_glass(definition_directives(graph, instance.group_kind))
        .with_wider_break_glass(source_directives(graph, source_of(graph, instance)))
    )


@query
def object_directives(graph: QueryGraph, key: ObjectKey) -> Directives:
    """Return the directives of a plain object of a source, whether the source wants the object or only has it.

    The CRD of a definition, and an instance, are no plain objects.
    """
    if key.group_kind in definitions(graph).current or planned_set(graph, key):
        return NO_DIRECTIVES
    obj, found = live.live(graph, key), NO_DIRECTIVES
    holder = label(obj, well_known.PART_OF) if obj else ""
    for set_id, source in sources_by_id(graph).items():
        is_held = holder == set_id
        node = source_set_node(graph, source, key)
        if (holder and not is_held) or not (node or is_held):
            continue
        manifest = node.manifest if node else None
        asked = Directives.from_objects(manifest, obj)
        is_crd = key.group_kind == CRD and annotation(manifest or obj or {"metadata": {}}, well_known.DEFINITION)
        if asked is not NO_DIRECTIVES and not is_crd:
            found = asked
    return found


def _active_suspension(graph: QueryGraph, directives: Directives, subject: str = "") -> Cause | None:
    """Return the cause of a suspension, or None if no suspension is set or it has ended."""
    recompute_at_edge(graph, directives.suspend_until)
    return directives.active_suspension(graph.now, subject)


def _wide_suspension(graph: QueryGraph, directives: Directives, what: str, name: str) -> Cause | None:
    """Return the cause of the suspension of something wider than one object, or None."""
    recompute_at_edge(graph, directives.suspend_until)
    return wide_suspension(directives, what, name, graph.now)


@query
def installation_suspension(graph: QueryGraph) -> Cause | None:
    """Return the cause that suspends everything, or None."""
    return _active_suspension(graph, Directives.from_objects(None, live.live(graph, INSTALLATION)), "everything is")


@query
def source_suspension(graph: QueryGraph, source: str) -> Cause | None:
    """Return the cause that suspends a whole source, or None."""
    if why := suspended_by_configuration(graph, source):
        return configured_suspension(source, why)
    missing = [one for one in prerequisites(graph, source) if not _object_of(graph, one).was_applied]
    if missing and not _object_of(graph, source).has_inventory:
        return missing_sources_cause(source, missing)
    return _wide_suspension(graph, source_directives(graph, source), "source", source)


@query
def definition_suspension(graph: QueryGraph, kind: GroupKind) -> Cause | None:
    """Return the cause that suspends a definition and all its instances, or None."""
    definition = definitions(graph).current.get(kind)
    name = definition.name if definition else str(kind)
    directives = definition_directives(graph, kind)
    return foreign_suspension(graph, kind) or _wide_suspension(graph, directives, "definition", name)


@query
def instance_suspension(graph: QueryGraph, instance: ObjectKey) -> Cause | None:
    """Return the cause that suspends an instance: of its source, of its definition, or its own. None if there is none."""
    return (
        source_suspension(graph, source_of(graph, instance))
        or definition_suspension(graph, instance.group_kind)
        or _active_suspension(graph, instance_directives(graph, instance))
    )


@query
def suspension(graph: QueryGraph, key: ObjectKey) -> Cause | None:
    """Return the cause that keeps Levelgate from writing an object, or the objects of the set of a parent, or None."""
    if source := sources_by_id(graph).get(applyset_id(key)):
        return source_suspension(graph, source)
    if key.group_kind == CRD and (kind := _kind_of_crd(graph, key)):
        return definition_suspension(graph, kind)
    if planned_set(graph, key):
        return instance_suspension(graph, key)
    return _active_suspension(graph, object_directives(graph, key))


@query
def _kind_of_crd(graph: QueryGraph, key: ObjectKey) -> GroupKind | None:
    """Return the kind of the definition that the CRD `key` belongs to, in Git or in the cluster, or None."""
    kind = next((kind for kind in definitions(graph).current if key_of(kind) == key), None)
    crd = live.live(graph, key)
    return kind or (defined_kind(crd) if crd and annotation(crd, well_known.DEFINITION) else None)


@query
def _recorded_requests(graph: QueryGraph, source: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the directives that the record of a source tells, with their first observations, by key as a text."""
    return requests_of(live.live(graph, source_parent(source)) or {})


@query
def _recorded_causes(graph: QueryGraph, source: str) -> tuple[Mapping[str, Any], ...]:
    """Return the causes of objects without a status that the record of a source tells."""
    return causes_of(live.live(graph, source_parent(source)) or {})


@query
def first_observed(graph: QueryGraph, key: ObjectKey, name: str, value: str) -> datetime:
    """Return the time in UTC of the first observation of a directive.

    The status of an instance tells the time, or the record of its source as long as the instance does not exist. For a
    source and for a plain object, the record of a source tells the time.
    """
    recorded = (_first_observed_instance if is_planned_instance(graph, key) else _first_observed_object)(
        graph, key, name, value
    )
    return recorded or first_observation(graph, key, name, value)


def is_planned_instance(graph: QueryGraph, key: ObjectKey) -> bool:
    """Return whether `key` is an instance that has a set to plan."""
    return applyset_id(key) not in sources_by_id(graph) and planned_set(graph, key) is not None


def _first_observed_instance(graph: QueryGraph, key: ObjectKey, name: str, value: str) -> datetime | None:
    if found := first_seen_at(live.live(graph, key), name, value):
        return found
    rows = _recorded_causes(graph, source_of(graph, key))
    since = (row.get("since") for row in rows if row.get("object") == str(key) and value in row.get("message", ""))
    return parse_timestamp(next(since, None))


def _first_observed_object(graph: QueryGraph, key: ObjectKey, name: str, value: str) -> datetime | None:
    rows = (_recorded_requests(graph, source).get(str(key)) for source in reversed(sources(graph)))
    row = next((row for row in rows if row), {}).get(name) or {}
    return parse_timestamp(row.get("since")) if row.get("said") == value else None
