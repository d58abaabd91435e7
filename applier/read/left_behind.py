"""Members that no longer belong to a set because another writer removed or changed the membership label.

No list of members shows such an object. The search finds the object by its record, which only an apply of Levelgate can
have written. The search reads metadata only, and only where inventories record that members may be. The search makes no
decision, because only the plan knows which objects Git wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from applier.applyset.inventory import ForeignSet, Scope, read_scope
from applier.applyset.member import has_own_finalizer, is_membership_proven, is_record_proven
from applier.cluster import Object, Reader
from applier.errors import ClusterError, KindNotServed
from applier.read.observe import FEW
from applier.state.observed import Observed, annotation, is_terminating, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from renderer.kinds import CRD, SECRET

_CONFIG_MAP = GroupKind("", "ConfigMap")
_UNLABELLED = f"!{well_known.PART_OF}"

Places = Mapping[GroupKind, frozenset[str]]
"""Kinds, each with the namespaces where members of the kind may be. The empty string represents cluster-scoped objects.
"""


@dataclass(frozen=True, slots=True)
class UnlabelledMembers:
    """Metadata of objects that have a record of Levelgate and belong to no set."""

    objects: Mapping[ObjectKey, Object]
    unread: Mapping[GroupKind, ClusterError]
    """Kinds that the search could not list, each with the error."""


def merge_places(scopes: Iterable[tuple[ObjectKey, Scope]]) -> dict[GroupKind, frozenset[str]]:
    """Return the places where members of sets may be.

    Args:
        scopes: parent and scope of each set.
    """
    namespaces_by_kind: dict[GroupKind, set[str]] = {}
    for parent, scope in scopes:
        for kind in scope.kinds:
            namespaces_by_kind.setdefault(kind, set()).update(scope.namespaces, {"", parent.namespace})
    return {kind: frozenset(namespaces - {OWN_NAMESPACE}) for kind, namespaces in namespaces_by_kind.items()}


def is_unlabelled_member(obj: Object, known_sets: Collection[str]) -> bool:
    """Return whether Levelgate wrote `obj` as a member, and the object is in none of `known_sets` now.

    An object that a person asked Levelgate to keep does not count, whatever the record contains. A terminating object
    counts only if the object waits for the finalizer of Levelgate.
    """
    is_kept = "disabled" in {annotation(obj, name) for name in (well_known.PRUNE, well_known.RECONCILE)}
    goes = is_terminating(obj) and not has_own_finalizer(obj)
    return label(obj, well_known.PART_OF) not in known_sets and not (is_kept or goes) and is_record_proven(obj)


async def find_unlabelled_members(cluster: Reader, observed: Observed, places: Places) -> UnlabelledMembers:
    """Return the members in `places` that have no label of an existing set.

    If the caller has observed all objects of a kind, the search does not list the kind again. If a found object is an
    instance, the search continues in the places of its inventory. If a list fails, the search stores the ClusterError
    in `unread` of the result.
    """
    found = {ObjectKey.from_manifest(obj): obj for obj in await _find_relabelled(cluster, observed, places)}
    unread: dict[GroupKind, ClusterError] = {}
    searched: dict[GroupKind, frozenset[str]] = {}
    pending = dict(places)
    while kinds := sorted(filter(observed.discovery.is_listable, pending)):
        answers = await asyncio.gather(*(_list(cluster, observed, kind, pending[kind]) for kind in kinds))
        unread |= {
            kind: answer for kind, answer in zip(kinds, answers, strict=True) if isinstance(answer, ClusterError)
        }
        listed = [obj for answer in answers if isinstance(answer, list) for obj in answer]
        new = {ObjectKey.from_manifest(obj): obj for obj in listed if is_unlabelled_member(obj, ())}
        found |= new
        searched = {
            kind: searched.get(kind, frozenset()) | pending.get(kind, frozenset()) for kind in {*searched, *pending}
        }
        further = merge_places(_own_scopes(new))
        pending = {
            kind: rest for kind, namespaces in further.items() if (rest := namespaces - searched.get(kind, frozenset()))
        }
    return UnlabelledMembers(found, unread)


def _own_scopes(objects: Mapping[ObjectKey, Object]) -> Iterator[tuple[ObjectKey, Scope]]:
    """Yield the key and the scope of each of `objects` that is the parent of a set of Levelgate."""
    for key, obj in objects.items():
        try:
            yield key, read_scope(obj)
        except ForeignSet:
            continue


async def _list(
    cluster: Reader, observed: Observed, kind: GroupKind, namespaces: frozenset[str]
) -> list[Object] | ClusterError:
    """Return the objects of `kind` in `namespaces` that have no label of a set, or the error if the list fails.

    For at most `FEW` namespaces, send a request for each namespace. Otherwise, list all namespaces in a single request.
    """
    if kind in observed.whole & observed.listed:
        candidates = [obj for key, obj in observed.objects.items() if key.group_kind == kind]
        return [obj for obj in _placed(candidates, namespaces) if not label(obj, well_known.PART_OF)]
    named = sorted(namespaces - {""})
    wanted = named if observed.discovery.resources[kind].namespaced and len(named) <= FEW else [None]
    try:
        answers = await asyncio.gather(
            *(cluster.list(kind, name, selector=_UNLABELLED, metadata_only=True) for name in wanted)
        )
    except KindNotServed:
        return []
    except ClusterError as error:
        return error
    return [*_placed(chain.from_iterable(answers), namespaces)]


def _placed(objects: Iterable[Object], namespaces: Collection[str]) -> Iterator[Object]:
    return (obj for obj in objects if (obj["metadata"].get("namespace") or "") in namespaces)


async def _find_relabelled(cluster: Reader, observed: Observed, places: Places) -> list[Object]:
    """Return the observed members whose label names a set that has no parent, whichever tool manages the set."""
    candidates = [
        obj
        for key, obj in observed.objects.items()
        if well_known.PART_OF in (obj["metadata"].get("labels") or {})
        and key.namespace in places.get(key.group_kind, ())
        and not is_membership_proven(obj)
        and is_unlabelled_member(obj, observed.parents.values())
    ]
    set_ids = {label(obj, well_known.PART_OF) for obj in candidates}
    existing = await _find_parents(cluster, observed, set_ids - {""}) if set_ids - {""} else set()
    return [obj for obj in candidates if label(obj, well_known.PART_OF) not in existing]


async def _find_parents(cluster: Reader, observed: Observed, set_ids: Collection[str]) -> set[str]:
    """Return the ids in `set_ids` whose sets have a parent in the cluster, whichever tool manages the parent.

    If the parents cannot be read, return all ids.
    """
    selector = f"{well_known.PARENT_ID} in ({','.join(sorted(set_ids))})"
    try:
        parent_crds = await cluster.list(CRD, selector=f"{well_known.IS_PARENT_TYPE}=true", metadata_only=True)
        names = {crd["metadata"]["name"] for crd in parent_crds}
        resources = observed.discovery.resources
        kinds = {kind for kind, resource in resources.items() if f"{resource.plural}.{resource.group}" in names}
        answers = await asyncio.gather(
            *(
                cluster.list(kind, selector=selector, metadata_only=True)
                for kind in sorted({_CONFIG_MAP, SECRET, *kinds})
            )
        )
    except ClusterError:
        return set(set_ids)
    return {label(obj, well_known.PARENT_ID) for obj in chain.from_iterable(answers)}
