"""Reads of what a rendering or a plan lacks. Each function returns the same context if nothing is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from applier.causes import Reason
from applier.cluster import Object, Reader
from applier.plan.model import Plan
from applier.read import observe
from applier.state.observed import Observed
from gitops.reconcile.context import Context
from gitops.records.source_record import read_names_by_set_id
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet, Rendering


async def read_definitions(cluster: Reader, bundle: Rendering, known: Context) -> Context:
    """Read the records of revisions that a rendering needs, and the CRDs of the kinds in it. Raises: ClusterError."""
    crds = _unknown_crds(bundle, known.observed)
    if not (bundle.unread or crds):
        return known
    archive = await known.archive.with_contents(cluster, bundle.unread)
    return replace(known, archive=archive, observed=await observe.read_objects(cluster, known.observed, crds))


async def list_kinds(cluster: Reader, bundle: Rendering, known: Context) -> Context:
    """List the kinds of a rendering, and of the recorded scopes of sets. Raises: ClusterError."""
    observed = known.observed
    wanted = _kinds_of(bundle) if observed.sets is None else kinds_in(bundle.instances.values())
    if observed.sets is None:
        wanted = wanted.union(*(scope.kinds for scope in known.records.scopes.values()))
    complete = await observe.list_missing_kinds(cluster, observed, wanted)
    is_complete = (complete.listed, complete.unreadable) == (observed.listed, observed.unreadable)
    return known if is_complete else replace(known, observed=complete)


async def read_absent(cluster: Reader, bundle: Rendering, absent: Collection[ObjectKey], known: Context) -> Context:
    """Read the objects that a rendering wants and that were absent in an earlier look. Raises: ClusterError."""
    wanted = {node.key for one in bundle.sets for node in one.nodes if node.key in absent and node.key}
    return replace(known, observed=await observe.read_candidates(cluster, known.observed, wanted))


async def read_unseen(
    cluster: Reader, bundle: Rendering, live: Collection[ObjectKey], known: Context, before: Mapping[ObjectKey, Object]
) -> Context:
    """Read what instances name and a look at them has not seen: all references, and the objects that were *live* before.

    See `read_objects` for *before*. Raises: ClusterError.
    """
    observed = known.observed
    named = {(node.key, node.external) for one in bundle.instances.values() for node in one.nodes if node.key}
    unseen = {one for one in named if not observed.is_known(one[0]) and one[0] not in observed.failures}
    references = {key for key, is_reference in unseen if is_reference}
    members = {key for key, is_reference in unseen if not is_reference and key in live}
    if not (references or members):
        return known
    observed = await observe.read_candidates(cluster, observed, members)
    observed = await observe.read_references(cluster, observed, references)
    return replace(known, observed=observed.reuse_unchanged(before))


async def read_candidates(
    cluster: Reader, unread: Collection[ObjectKey], known: Context, before: Mapping[ObjectKey, Object]
) -> Context:
    """Read objects that nobody has read. See `read_objects` for *before*. Raises: ClusterError."""
    observed = await observe.read_candidates(cluster, known.observed, unread)
    return replace(known, observed=observed.reuse_unchanged(before))


async def read_objects(
    cluster: Reader, bundle: Rendering, plan: Plan, known: Context, before: Mapping[ObjectKey, Object]
) -> Context:
    """Read the objects that a plan names, and those that a rendering refers to or selects. Raises: ClusterError.

    Args:
        before: objects of the last reconciliation. An object that has not changed stays the same value.
    """
    observed = known.observed
    unknown = {key for one in plan.sets for key in one.keys_to_read}
    references = {key for one in plan.sets for key in one.references_to_read}
    references |= {node.key for one in bundle.former.values() for node in one.nodes if node.external and node.key}
    references = {key for key in references if not observed.is_known(key) and key not in observed.failures}
    read = (*bundle.sets, *bundle.former.values())
    selections = {node.selection for one in read for node in one.nodes if node.selection}
    selections -= observed.selected.keys()
    if not (unknown or references or selections):
        return known
    observed = await observe.list_selections(cluster, observed, selections)
    observed = await observe.read_candidates(cluster, observed, unknown)
    observed = await observe.read_references(cluster, observed, references)
    return replace(known, observed=observed.reuse_unchanged(before))


async def read_foreign_sources(cluster: Reader, plan: Plan, known: Context) -> Context:
    """Read the names of the sources that have objects of a plan and are not planned. Raises: ClusterError."""
    holders = _foreign_holders(plan) - known.records.foreign_sources.keys()
    if not holders:
        return known
    names = {**dict.fromkeys(holders, ""), **await read_names_by_set_id(cluster)}
    return replace(known, records=replace(known.records, foreign_sources=names))


def kinds_in(sets: Iterable[RenderedApplySet]) -> set[GroupKind]:
    """Return the kinds of the objects that sets own."""
    return {node.group_kind for rendered in sets for node in rendered.nodes if not node.external}


def _kinds_of(bundle: Rendering) -> set[GroupKind]:
    return {CRD} | kinds_in(bundle.sets)


def _unknown_crds(bundle: Rendering, observed: Observed) -> set[ObjectKey]:
    """Return the CRDs of custom kinds in use that nobody has read.

    They describe what templates read and write, and one of them may belong to a definition that is missing now.
    """
    kinds = _kinds_of(bundle) | {node.group_kind for one in bundle.definitions.values() for node in one.nodes}
    used = [resource for kind in kinds if (resource := observed.discovery.resources.get(kind)) and _is_custom(kind)]
    found = {ObjectKey(*CRD, "", f"{resource.plural}.{resource.group}") for resource in used}
    return {key for key in found if not observed.is_known(key)}


def _is_custom(kind: GroupKind) -> bool:
    return "." in kind.group and not kind.group.endswith(".k8s.io")


def _foreign_holders(plan: Plan) -> set[str]:
    """Return the ids of the sets that have objects of a plan and are not planned."""
    nodes = (node for one in plan.sets for node in one.nodes)
    refused = (node for node in nodes if node.blocked and node.blocked.reason is Reason.OWNED_ELSEWHERE)
    holders = {node.live_set_id for node in refused}
    return holders - {"", *(one.rendered.id for one in plan.sets)}
