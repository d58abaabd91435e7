"""Objects of the cluster as inputs of the graph, and indexes over them.

The shell sets these inputs from its reads, the changes of one read in one transaction. A watch event makes an object
doubtful: the object counts as unread until it is read again, and keeps its place in the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from applier.cluster import Discovery, Object
from applier.errors import ClusterError
from applier.state.observed import is_terminating, label
from applier.status import has_pods
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from gitops.queries.graph import Transaction
from renderer import well_known
from renderer.graph.implied_edges import persistent_volume_claims
from renderer.identity import GroupKind, ObjectKey, is_same
from renderer.kinds import CRD, defined_kind


class _Mark(Enum):
    """Entries of the index `marked_objects`."""

    PARENT = "parent"
    MEMBER = "member"
    TERMINATING = "terminating"


class ListExtent(Enum):
    """The extent of the last list of a kind."""

    UNLISTED = "unlisted"
    MARKED = "marked"
    """The list had all objects that carry a label of an ApplySet."""
    WHOLE = "whole"
    """The list had all objects of the kind."""


def _is_same_object(before: Object | None, after: Object | None) -> bool:
    return before is after or (before is not None and after is not None and is_same(before, after))


live: Final[Input[[ObjectKey], Object | None]] = Input("live", initial=None, starts_unread=False, same=_is_same_object)
"""Object as the API server returned it last, or None if no read has returned the object."""

is_absent: Final[Input[[ObjectKey], bool]] = Input("is_absent", initial=False, starts_unread=False)
"""Whether a read of the object itself has found that the object does not exist."""

look_up: Final[Input[[ObjectKey], None]] = Input("look_up", initial=None, starts_unread=True)
"""Request to read an object itself. The input is never set, so that its reader counts as unread."""

listing: Final[Input[[GroupKind], ListExtent]] = Input("listing", initial=ListExtent.UNLISTED, starts_unread=False)
"""Extent of the last list of a kind."""

discovery: Final[Input[[], Discovery]] = Input("discovery", initial=Discovery({}), starts_unread=True)
"""Kinds that the cluster serves. Queries read single kinds, so that a new kind concerns only its readers."""

failures: Final[Input[[], Mapping[ObjectKey, ClusterError]]] = Input("failures", initial={}, starts_unread=False)
"""Errors of writes that failed in this reconciliation, by object."""

unreadable: Final[Input[[], Mapping[GroupKind, ClusterError]]] = Input("unreadable", initial={}, starts_unread=False)
"""Errors of kinds that the API server could not list."""


@query(same=_is_same_object)
def live_object(graph: QueryGraph, key: ObjectKey) -> Object | None:
    """Return the object `key`, or None if it does not exist.

    The answer is unread until the object, or all objects of its kind, have been read.
    """
    if not is_known(graph, key):
        look_up(graph, key)
    return live(graph, key)


@query
def is_known(graph: QueryGraph, key: ObjectKey) -> bool:
    """Return whether a read has shown that the object exists, or that the object does not exist.

    In contrast to `live_object`, the answer never counts as unread, except while the object is doubtful.
    """
    if live(graph, key) is not None or listing(graph, key.group_kind) is ListExtent.WHOLE:
        return True
    return is_absent(graph, key)


@query
def is_never_stored(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether the cluster certainly has no object of `kind`, because the cluster does not store the kind."""
    served = discovery(graph)
    return not served.is_listable(kind) and kind.group not in served.stale_groups


@query
def is_only_answered(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether the cluster serves `kind` and never stores an object of `kind`."""
    served = discovery(graph)
    return kind in served.resources and not served.is_listable(kind)


@query
def _membership(graph: QueryGraph, key: ObjectKey) -> Mapping[str, None]:
    set_id = _label_of(live(graph, key), well_known.PART_OF)
    return {set_id: None} if set_id else {}


@query
def _parenthood(graph: QueryGraph, key: ObjectKey) -> Mapping[str, None]:
    set_id = _label_of(live(graph, key), well_known.PARENT_ID)
    return {set_id: None} if set_id else {}


@query
def _use_of_claims(graph: QueryGraph, key: ObjectKey) -> Mapping[str, frozenset[ObjectKey]]:
    obj = live(graph, key)
    set_id = _label_of(obj, well_known.PART_OF)
    if obj is None or not set_id or not has_pods(obj):
        return {}
    claims = frozenset(persistent_volume_claims(obj, key))
    return {set_id: claims} if claims else {}


@query
def _definition(graph: QueryGraph, key: ObjectKey) -> Mapping[GroupKind, bool]:
    crd = live(graph, key) if key.group_kind == CRD else None
    if crd is None:
        return {}
    has_status = any("status" in (version.get("subresources") or {}) for version in crd["spec"]["versions"])
    return {defined_kind(crd): has_status}


def _label_of(obj: Object | None, name: str) -> str:
    return label(obj, name) if obj is not None else ""


_ClaimsIndex = QueryIndex[ObjectKey, str, frozenset[ObjectKey], Contributions[ObjectKey, frozenset[ObjectKey]]]


def _index(name: str, contributions: Any) -> QueryIndex[ObjectKey, Any, Any, Any]:
    return QueryIndex(
        name,
        order=1,
        members=live,
        contributions=contributions,
        new_entry=Contributions,
        # An object that is read for the first time may belong to any set. A proof covers that: the list of the kind.
        spreads_unread=False,
    )


@query
def _marks_of_all(graph: QueryGraph, key: ObjectKey) -> Mapping[_Mark, str]:
    """Return the marks of an object that some readers need of all objects."""
    obj = live(graph, key)
    marks = {
        _Mark.PARENT: _label_of(obj, well_known.PARENT_ID),
        _Mark.MEMBER: _label_of(obj, well_known.PART_OF),
        _Mark.TERMINATING: "terminating" if obj is not None and is_terminating(obj) else "",
    }
    return {mark: value for mark, value in marks.items() if value}


@query
def _kind(_: QueryGraph, key: ObjectKey) -> Mapping[GroupKind, None]:
    return {key.group_kind: None}


keys_by_kind: Final[QueryIndex[ObjectKey, GroupKind, None, Contributions[ObjectKey, None]]] = _index(
    "keys_by_kind", _kind
)
"""Keys of live and doubtful objects by kind."""

marked_objects: Final[QueryIndex[ObjectKey, _Mark, str, Contributions[ObjectKey, str]]] = _index(
    "marked_objects", _marks_of_all
)
"""Keys of all objects with a mark, each with the value of the mark."""

members_by_set: Final[QueryIndex[ObjectKey, str, None, Contributions[ObjectKey, None]]] = _index(
    "members_by_set", _membership
)
"""Keys of live objects by the id of the ApplySet whose label they carry."""

parents_by_set: Final[QueryIndex[ObjectKey, str, None, Contributions[ObjectKey, None]]] = _index(
    "parents_by_set", _parenthood
)
"""Keys of live objects by the id of the ApplySet whose parent they declare themselves to be."""

claims_by_set: Final[_ClaimsIndex] = _index("claims_by_set", _use_of_claims)
"""PersistentVolumeClaims that live Pods use, by the id of the ApplySet of their workload, then by workload."""

crds_by_kind: Final[QueryIndex[ObjectKey, GroupKind, bool, Contributions[ObjectKey, bool]]] = _index(
    "crds_by_kind", _definition
)
"""Keys of CRDs by the kind that they define, each with whether the kind has the subresource `status`."""


@query
def members_of(graph: QueryGraph, set_id: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the live objects in the ApplySet `set_id`, sorted."""
    return tuple(sorted(members_by_set(graph, set_id)))


@query
def objects_of_kind(graph: QueryGraph, kind: GroupKind) -> tuple[Object, ...]:
    """Return the live objects of `kind`, sorted by key."""
    found = (live(graph, key) for key in sorted(keys_by_kind(graph, kind)))
    return tuple(obj for obj in found if obj is not None)


@query
def all_parents(graph: QueryGraph) -> Mapping[ObjectKey, str]:
    """Return the ids of ApplySets by the live objects that declare themselves to be their parents."""
    return dict(marked_objects(graph, _Mark.PARENT))


@query
def occupied_sets(graph: QueryGraph) -> tuple[str, ...]:
    """Return the ids of all ApplySets with a live member, sorted."""
    return tuple(sorted(set(marked_objects(graph, _Mark.MEMBER).values())))


@query
def terminating_objects(graph: QueryGraph) -> frozenset[ObjectKey]:
    """Return the keys of all live objects whose deletion has begun."""
    return frozenset(marked_objects(graph, _Mark.TERMINATING))


@query
def parents_of(graph: QueryGraph, set_id: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the live objects that declare themselves the parent of the ApplySet `set_id`, sorted."""
    return tuple(sorted(parents_by_set(graph, set_id)))


@query
def used_claims(graph: QueryGraph, set_id: str) -> frozenset[ObjectKey]:
    """Return the PersistentVolumeClaims that Pods of the ApplySet `set_id` use."""
    return frozenset().union(*claims_by_set(graph, set_id).values())


@query
def reports_status(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether a CRD gives the custom kind `kind` a status that a controller may write."""
    return any(crds_by_kind(graph, kind).values())


@query
def listed_keys(graph: QueryGraph, kind: GroupKind) -> Mapping[ObjectKey, bool]:
    """Return the keys of the live and doubtful objects of `kind`, each with whether a label names an ApplySet."""
    return {key: bool(_label_of(live(graph, key), well_known.PART_OF)) for key in keys_by_kind(graph, kind)}


def set_objects(transaction: Transaction, objects: Iterable[Object]) -> None:
    """Set `objects`, which a read has returned."""
    for obj in objects:
        key = ObjectKey.from_manifest(obj)
        transaction.set(live.at(key), obj)
        transaction.set(is_absent.at(key), False)


def set_absent(transaction: Transaction, keys: Iterable[ObjectKey]) -> None:
    """Set the objects `keys` as absent, because a read of each has found no object."""
    for key in keys:
        transaction.set(live.at(key), None)
        transaction.set(is_absent.at(key), True)


def set_list(
    transaction: Transaction,
    known: Mapping[ObjectKey, bool],
    kind: GroupKind,
    objects: Iterable[Object],
    extent: ListExtent,
) -> None:
    """Set the objects of `kind` to `objects`, which a list has returned.

    If the list had marked objects only, the objects without a label of an ApplySet stay as they are. A marked object
    that such a list no longer shows may live without its label. So the object is unread until it is looked up.

    Args:
        known: result of `listed_keys` before the transaction.
    """
    found = {ObjectKey.from_manifest(obj): obj for obj in objects}
    for key, is_marked in known.items():
        if key not in found and (is_marked or extent is ListExtent.WHOLE):
            transaction.set(live.at(key), None)
    set_objects(transaction, found.values())
    transaction.set(listing.at(kind), extent)


def set_unlisted(transaction: Transaction, kinds: Iterable[GroupKind]) -> None:
    """Set `kinds` as unlisted, because the API server refused or failed to list them."""
    for kind in kinds:
        transaction.set(listing.at(kind), ListExtent.UNLISTED)


def doubt(transaction: Transaction, keys: Iterable[ObjectKey]) -> None:
    """Make the objects `keys` unread, because a watch event or a write may have changed them."""
    for key in keys:
        transaction.doubt(live.at(key))
        transaction.set(is_absent.at(key), False)
