"""Sources that are not read from Git, as the cluster has them: what was recorded of them last stands for what they say.

Each has the definitions whose CRDs are in its set, at their newest revision, and the rules that were accepted last. Its instances are as they stand
in the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import Plan
from applier.read import observe
from applier.read.pending_reads import PendingReads
from applier.state.observed import Observed, annotation, label
from gitops.decisions.decision import initial_placements
from gitops.decisions.inputs import DecisionRules
from gitops.reconcile.context import Context
from gitops.records.cause_rows import parse_row
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import SourceRecord
from gitops.rollouts.source_rules import restore_rules
from renderer import well_known
from renderer.catalog.catalog import Catalog, written_versions
from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition, DefinitionErrors
from renderer.definition.crd import key_of
from renderer.errors import SourceLocation
from renderer.graph.levels import ancestors
from renderer.identity import GroupKind, Manifest, applyset_id, source_parent
from renderer.kinds import defined_kind
from renderer.levelgate_status import LevelgateStatus
from renderer.render.revisions import StoredRevisions, definition_of


async def with_foreign_sources(reads: PendingReads, known: Context, catalogs: Sequence[Catalog]) -> Context:
    """With what the neighbours define, where these catalogs use any of it: an instance is rendered as its definition's source would have it. Of
    kinds in a rollout that is under way, or that these catalogs begin, with all their instances too, since each waits for others. Raises
    ClusterError.
    """
    if not known.neighbours:
        return known
    crds = {defined_kind(crd): crd for crd in known.observed.crds}
    defined = definers(known.observed.crds, known.neighbours)
    used = known.observed.listed.union(*(one.kinds_used for one in catalogs))
    if used.isdisjoint(defined) and not any(_are_moving(used, catalogs, known)):
        return known
    newest = [revision.record for kind in defined if (revision := known.archive.stored_revisions.newest(kind))]
    archive = await known.archive.with_contents(reads, newest)
    archive = await archive.with_rules_contents(reads, known.neighbours)
    elsewhere = [
        replace(
            _defining({kind: crds[kind] for kind in defined if defined[kind] == name}, archive.stored_revisions),
            source=name,
        )
        for name in known.neighbours
    ]
    observed = await _in_their_versions(reads, known.observed, catalogs, elsewhere)
    if counted := _counted(used, [*catalogs, *elsewhere], known):
        observed = await observe.list_missing_kinds(reads, observed, counted)
        instances = [obj for key, obj in observed.objects.items() if key.group_kind in counted]
        elsewhere = [with_instances(one, instances) for one in elsewhere]
    return replace(
        known,
        observed=observed,
        archive=archive,
        conditions=replace(
            _under_their_rules(known.conditions, known.neighbours, archive),
            suspended_kinds=_suspended(defined, known.neighbours.values(), known.now),
        ),
        propagation=initial_placements(observed, archive.stored_revisions),
        elsewhere=tuple(elsewhere),
    )


def definers(crds: Iterable[Object], sources: Iterable[str]) -> dict[GroupKind, str]:
    """Each kind that one of these sources defines: the one whose set has its CRD."""
    sets = {applyset_id(source_parent(name)): name for name in sources}
    owners = {
        defined_kind(crd): label(crd, well_known.PART_OF) for crd in crds if annotation(crd, well_known.DEFINITION)
    }
    return {kind: sets[owner] for kind, owner in owners.items() if owner in sets}


def _counted(used: Collection[GroupKind], catalogs: Sequence[Catalog], known: Context) -> set[GroupKind]:
    """Defined kinds of which instances are in a rollout that concerns who uses these kinds, be they nested in others."""
    uses = {
        kind: [node.group_kind for node in one.nodes]
        for catalog in catalogs
        for kind, one in catalog.definitions.items()
    }
    moving = set(_are_moving({*used, *ancestors(uses, used)}, catalogs, known))
    return {kind for kind in uses if any(one in moving for one in (kind, *ancestors(uses, [kind])))}


def _are_moving(kinds: Iterable[GroupKind], catalogs: Sequence[Catalog], known: Context) -> Iterator[GroupKind]:
    """Those of which a rollout is under way, or begins with the definitions of these catalogs."""
    under_way = [state.of for state in known.conditions.states.values() if not state.is_completed]
    said = {kind: one.digest for catalog in catalogs for kind, one in catalog.definitions.items()}
    for kind in kinds:
        newest = known.archive.stored_revisions.newest(kind)
        is_new = newest is not None and said.get(kind, newest.digest) != newest.digest
        if is_new or any(of in {"", str(kind)} or of.startswith(f"{kind}.") for of in under_way):
            yield kind


def _under_their_rules(said: DecisionRules, neighbours: Collection[str], archive: RevisionArchive) -> DecisionRules:
    """With the rules that the neighbours have accepted; whose rules govern all sources, governs theirs."""
    rules = {name: restore_rules(name, archive.accepted_rules(name)) for name in neighbours}
    everywhere = frozenset[str]().union(*said.governors.values())
    governors = {name: everywhere - {name} for name in neighbours}
    return replace(said, rules={**rules, **said.rules}, governors={**governors, **said.governors})


def _suspended(kinds: Iterable[GroupKind], neighbours: Iterable[SourceRecord], now: datetime) -> dict[GroupKind, Cause]:
    """Kinds whose definition Git suspends, as the records of their sources tell: their CRDs do not, since nothing writes these any more."""
    rows = (parse_row(row) for record in neighbours for row in record.causes)
    told = {
        row.object_key: row for row in rows if row.reason is Reason.SUSPENDED and not (row.until and row.until <= now)
    }
    return {
        kind: Cause(row.reason, row.message, until=row.until, references=row.references)
        for kind in kinds
        if (row := told.get(key_of(kind)))
    }


def _defining(crds: Mapping[GroupKind, Object], stored: StoredRevisions) -> Catalog:
    found = {kind: _recorded(kind, crd, stored) for kind, crd in crds.items()}
    return Catalog(
        definitions={kind: one for kind, one in found.items() if one},
        broken={kind: SourceLocation() for kind, one in found.items() if one is None},
    )


def _recorded(kind: GroupKind, crd: Object, stored: StoredRevisions) -> Definition | None:
    """The newest revision, under the name and with the orders that the CRD carries; None where there is none that can be read."""
    newest = stored.newest(kind)
    if newest is None or newest.manifest is None:
        return None
    said = {name: text for name in well_known.INHERITED_BY_CRDS if (text := annotation(crd, name))}
    metadata = {"name": annotation(crd, well_known.DEFINITION), "annotations": said}
    try:
        return definition_of(replace(newest, manifest={**newest.manifest, "metadata": metadata}))
    except DefinitionErrors:
        return None


async def _in_their_versions(
    reads: PendingReads, observed: Observed, catalogs: Sequence[Catalog], elsewhere: Sequence[Catalog]
) -> Observed:
    """What was listed before it was known in which versions these definitions write it, as they write it."""
    written, known = written_versions([*catalogs, *elsewhere]), written_versions(catalogs)
    reads.set_versions(written)
    served = observed.discovery.resources
    others = {
        kind for kind in written.keys() & observed.listed if written[kind] != known.get(kind, served[kind].version)
    }
    return await observe.relist(reads, observed, others)


def with_instances(catalog: Catalog, objects: Iterable[Object]) -> Catalog:
    """With the instances of its source as the cluster has them."""
    mine = applyset_id(source_parent(catalog.source))
    found = [one for one in objects if label(one, well_known.PARENT_ID) and label(one, well_known.PART_OF) == mine]
    return replace(catalog, objects=tuple(DeclaredObject(_asked(one), SourceLocation(), None) for one in found))


def _asked(instance: Object) -> Manifest:
    """An instance as Git would say it. What keeps it as it is also keeps that word of Git from being written, and only the status tells it."""
    metadata = {name: instance["metadata"].get(name) for name in ("name", "namespace", "labels")}
    kept = {
        name: text
        for row in LevelgateStatus.from_instance(instance).blocked
        for name, text in _keeping(parse_row(row)).items()
    }
    metadata["annotations"] = {**kept, **(instance["metadata"].get("annotations") or {})}
    body = {name: value for name, value in instance.items() if name not in {"metadata", "status"}}
    return {**body, "metadata": {name: value for name, value in metadata.items() if value}}


def _keeping(cause: Cause) -> dict[str, str]:
    """The annotations by which Git may have said it: a hold, or the suspension of the instance as a whole."""
    match cause.reason:
        case Reason.HELD:
            why, until = well_known.HOLD, well_known.HOLD_UNTIL
        case Reason.SUSPENDED if not cause.node:
            why, until = well_known.SUSPEND, well_known.SUSPEND_UNTIL
        case _:
            return {}
    return {why: cause.message} | ({until: cause.until.isoformat()} if cause.until else {})


def restrict_to_read_sources(found: Plan, known: Context) -> Plan:
    """The plan of what is read from Git: without the sets of others, from owner to member."""
    theirs, ids = {one.source for one in known.elsewhere}, set[str]()
    for one in found.sets if theirs else ():
        if one.rendered.source in theirs or label(one.parent or {}, well_known.PART_OF) in ids:
            ids.add(one.rendered.id)
    return Plan(tuple(one for one in found.sets if one.rendered.id not in ids)) if ids else found
