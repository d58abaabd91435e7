"""Read what a pass needs of the cluster: one list for each kind, never one for each object.

A pass starts from the parents that it knows and lists every kind that their scopes name; members that are parents themselves name further
kinds. Every list selects objects with an ApplySet label and is consistent, so that deletions may rest on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import chain

from applier.applyset.inventory import ForeignSet, Scope, read_scope, scope_of
from applier.cluster import Object, Reader
from applier.errors import ClusterError, Denied, Invalid, KindNotServed, Unavailable
from applier.state.observed import Observed, label
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, applyset_id
from renderer.kinds import CRD
from renderer.label_selector import Selection

FEW = 8
"""Up to so many new objects of one kind and namespace are read one by one, more of them by one list of metadata."""

_Refused = Denied | Invalid | Unavailable
_REFUSED = (Denied, Invalid, Unavailable)
"""Why something cannot be read: it costs what is of this kind, or this object alone, and no more."""


async def observe(
    cluster: Reader, parents: Collection[ObjectKey], *, kinds: Iterable[GroupKind], whole: Iterable[GroupKind] = ()
) -> Observed:
    """Everything of our sets: the parents given, all members of `kinds` and of the scopes found on the way; of `whole` every object."""
    observed = Observed(await cluster.discover(), whole=frozenset(whole))
    observed = await read_objects(cluster, observed, parents)
    wanted = {*kinds, *observed.whole}.union(*_scopes(observed))
    if wanted - observed.discovery.resources.keys():  # since that was asked, somebody may have brought them
        observed = observed.with_discovery(await cluster.discover(refresh=True))
    return await list_missing_kinds(cluster, observed, wanted)


async def list_missing_kinds(cluster: Reader, observed: Observed, kinds: Iterable[GroupKind]) -> Observed:
    """List what has not been listed of these kinds and of the kinds that the parents seen name; each is asked for once."""
    wanted = set(kinds).union(*_scopes(observed))
    asked: set[GroupKind] = set()
    while (
        pending := set(filter(observed.discovery.is_listable, wanted))
        - observed.listed
        - observed.unreadable.keys()
        - asked
    ):
        observed = await relist(cluster, observed, pending)
        asked |= pending
        wanted = set().union(*_scopes(observed))
    return observed


async def find_lost_members(
    cluster: Reader, observed: Observed, parents: Collection[ObjectKey]
) -> dict[ObjectKey, Scope]:
    """Scopes of sets whose parents are gone, where they had any: what covers their members among *all* kinds that can be listed. One list of metadata
    for each kind; of one that cannot be read now every set may have members.
    """
    discovery = await cluster.discover(refresh=True)
    kinds = sorted(filter(discovery.is_listable, discovery.resources))
    sets = {applyset_id(parent): parent for parent in parents}
    selector = f"{well_known.PART_OF} in ({','.join(sorted(sets))})"
    answers = await asyncio.gather(*(_scanned(cluster, kind, selector) for kind in kinds))
    found: dict[ObjectKey, list[ObjectKey]] = {parent: [] for parent in parents}
    for obj in chain(*(answer for answer in answers if isinstance(answer, list))):
        found[sets[label(obj, well_known.PART_OF)]].append(ObjectKey.from_manifest(obj))
    hidden = Scope(
        frozenset(kind for kind, answer in zip(kinds, answers, strict=True) if isinstance(answer, ClusterError))
    )
    scopes = {parent: scope_of(members, parent) | hidden for parent, members in found.items()}
    return {parent: scope for parent, scope in scopes.items() if scope.kinds}


async def _scanned(cluster: Reader, kind: GroupKind, selector: str) -> list[Object] | _Refused | None:
    try:
        return await _list(cluster, kind, selector, metadata_only=True)
    except _REFUSED as error:
        return error


async def relist(cluster: Reader, observed: Observed, kinds: Iterable[GroupKind]) -> Observed:
    """List these kinds again, whole; a kind that is not served any more is left unlisted.

    One that the server cannot read, say because a webhook should convert its objects, or that we may not list costs what is of this kind and no
    more. CRDs have to be known: raises why they cannot be listed.
    """
    wanted = sorted(kinds)
    answers = dict(
        zip(wanted, await asyncio.gather(*(_listed(cluster, observed, kind) for kind in wanted)), strict=True)
    )
    found = {kind: answer for kind, answer in answers.items() if isinstance(answer, list)}
    refused = {kind: answer for kind, answer in answers.items() if isinstance(answer, _REFUSED)}
    return observed.with_lists(found, (obj for objects in found.values() for obj in objects)).unlisted(refused)


async def _listed(cluster: Reader, observed: Observed, kind: GroupKind) -> list[Object] | _Refused | None:
    try:
        return await _list(cluster, kind, "" if kind in observed.whole else observed.selector)
    except _REFUSED as error:
        if kind == CRD:
            raise
        return error


async def read_objects(cluster: Reader, observed: Observed, unknown: Collection[ObjectKey]) -> Observed:
    """Read these objects, whether they are ours or not; more than FEW of one kind and namespace by their metadata alone, but for
    our own records.
    """
    answers = await asyncio.gather(*(_read(cluster, *place, wanted) for place, wanted in _places(unknown).items()))
    return observed.with_objects(found := list(chain(*answers))).without_objects(
        set(unknown) - set(map(ObjectKey.from_manifest, found))
    )


async def read_candidates(cluster: Reader, observed: Observed, unknown: Collection[ObjectKey]) -> Observed:
    """The same before objects are first written; what may not or cannot be read of one kind and namespace is a failure of these objects alone."""
    places = _places(unknown)
    answers = await asyncio.gather(*(_examined(cluster, *place, wanted) for place, wanted in places.items()))
    refused: dict[ObjectKey, ClusterError] = {}
    found: list[Object] = []
    for wanted, answer in zip(places.values(), answers, strict=True):
        if isinstance(answer, ClusterError):
            refused |= dict.fromkeys(wanted, answer)
        else:
            found += answer
    return (
        observed.with_objects(found)
        .without_objects(set(unknown) - set(map(ObjectKey.from_manifest, found)) - refused.keys())
        .with_failures(refused)
    )


def _places(keys: Iterable[ObjectKey]) -> dict[tuple[GroupKind, str], list[ObjectKey]]:
    places: dict[tuple[GroupKind, str], list[ObjectKey]] = {}
    for key in keys:
        places.setdefault((key.group_kind, key.namespace), []).append(key)
    return places


async def _examined(
    cluster: Reader, kind: GroupKind, namespace: str, wanted: list[ObjectKey]
) -> list[Object] | _Refused:
    try:
        return await _read(cluster, kind, namespace, wanted)
    except _REFUSED as error:
        return error


async def list_selections(cluster: Reader, observed: Observed, wanted: Collection[Selection]) -> Observed:
    """Find the objects of these selections; one that the cluster cannot answer stays open, and is not asked for again in this pass.

    One that may not be listed is a matter of who asks for it, and nobody else's.
    """
    found = dict(zip(wanted, await asyncio.gather(*(_selected(cluster, one) for one in wanted)), strict=True))
    keys = {one: tuple(map(ObjectKey.from_manifest, it)) if isinstance(it, list) else it for one, it in found.items()}
    objects = [obj for it in found.values() if isinstance(it, list) for obj in it]
    return replace(observed.with_objects(objects), selected={**observed.selected, **keys})


async def _selected(cluster: Reader, wanted: Selection) -> list[Object] | Denied | None:
    try:
        return await cluster.list(wanted.group_kind, wanted.namespace, selector=str(wanted.labels))
    except Denied as error:
        return error
    except ClusterError:
        return None


async def read_references(cluster: Reader, observed: Observed, references: Iterable[ObjectKey]) -> Observed:
    """Read these objects, which are only referred to; one that may not or cannot be read is a failure of its own."""
    wanted = list(references)
    answers = dict(zip(wanted, await asyncio.gather(*(_referred(cluster, key) for key in wanted)), strict=True))
    found = [obj for obj in answers.values() if isinstance(obj, dict)]
    refused = {key: error for key, error in answers.items() if isinstance(error, ClusterError)}
    return (
        observed.with_objects(found)
        .without_objects(key for key, obj in answers.items() if obj is None)
        .with_failures(refused)
    )


async def _referred(cluster: Reader, key: ObjectKey) -> Object | _Refused | None:
    try:
        return await cluster.get(key)
    except KindNotServed:
        return None
    except _REFUSED as error:
        return error


async def _list(cluster: Reader, kind: GroupKind, selector: str, *, metadata_only: bool = False) -> list[Object] | None:
    try:
        return await cluster.list(kind, selector=selector, metadata_only=metadata_only)
    except KindNotServed:
        return None


async def _read(cluster: Reader, kind: GroupKind, namespace: str, wanted: list[ObjectKey]) -> list[Object]:
    try:
        if len(wanted) > FEW and kind != CRD:  # of a CRD its content matters: which kind it defines, and how
            names = {key.name for key in wanted}
            listed = await cluster.list(kind, namespace or None, metadata_only=namespace != OWN_NAMESPACE)
            return [obj for obj in listed if obj["metadata"]["name"] in names]
        return [obj for obj in await asyncio.gather(*map(cluster.get, wanted)) if obj is not None]
    except KindNotServed:
        return []


def _scopes(observed: Observed) -> list[frozenset[GroupKind]]:
    """Kinds named by every parent seen, of those whose sets are listed; a parent that is not ours names none."""
    found = []
    for key, set_id in observed.parents.items():
        if observed.sets is None or set_id in observed.sets:
            try:
                found.append(read_scope(observed.objects[key]).kinds)
            except ForeignSet:
                continue
    return found
