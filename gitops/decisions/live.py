"""Objects of the cluster as inputs of the graph, and indexes over them.

The shell sets these inputs from its reads, the changes of one read in one transaction. A watch event makes an object
doubtful: the object counts as unread until it is read again, and keeps its place in the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from applier.applyset.member import Member
from applier.cluster import Discovery, Object
from applier.errors import ClusterError
from applier.state.observed import annotation, has_status_subresource, is_terminating, label
from applier.status import has_pods
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from gitops.queries.graph import Transaction
from renderer import well_known
from renderer.graph.implied_edges import persistent_volume_claims
from renderer.identity import GroupKind, ObjectKey, applyset_id, is_same
from renderer.kinds import CRD, defined_kind


class _Mark(Enum):
    """Property of objects by which the index `_marked` finds them, and the meaning of the value of its entry."""

    # Entries are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    KIND = "kind"
    """The object has the kind of the entry, and is live or doubtful."""
    MEMBER = "member"
    """A label of the object names the ApplySet of the entry."""
    PARENT = "parent"
    """The object declares itself the parent of the ApplySet of the entry."""
    CLAIMS = "claims"
    """Pods of the object, a member of the ApplySet of the entry, use the PersistentVolumeClaims that it contributes."""
    DEFINES = "defines"
    """The object is the CRD of the kind of the entry, and contributes whether the kind has the subresource `status`."""
    IDENTITY = "identity"
    """The object declares itself a parent, and the ApplySet whose parent it is has the id of the entry."""
    DEPENDS = "depends"
    """A member of an ApplySet records a dependency on the object whose hash is the entry."""
    READS = "reads"
    """A member of an ApplySet records that it reads other objects. The contribution has their hashes."""
    TERMINATING = "terminating"
    """The deletion of the object has begun."""


_ALL: Final = "*"
"""Value of entries that hold all objects with a mark. No ApplySet has this id."""


class ListExtent(Enum):
    """The extent of the last list of a kind."""

    UNLISTED = "unlisted"
    MARKED = "marked"
    """The list had all objects that carry a label of an ApplySet."""
    WHOLE = "whole"
    """The list had all objects of the kind."""


def _is_same_object(before: Object | None, after: Object | None) -> bool:
    return before is after or (before is not None and after is not None and is_same(before, after))


def is_same_objects(before: Mapping[ObjectKey, Object], after: Mapping[ObjectKey, Object]) -> bool:
    """Return whether the same objects have the same content."""
    return before.keys() == after.keys() and all(_is_same_object(before[key], after[key]) for key in before)


live: Final[Input[[ObjectKey], Object | None]] = Input("live", initial=None, starts_unread=False, same=_is_same_object)
"""Object as the API server returned it last, or None if no read has returned the object."""

is_absent: Final[Input[[ObjectKey], bool]] = Input("is_absent", initial=False, starts_unread=False)
"""Whether a read of the object itself has found that the object does not exist."""

foretold: Final[Input[[], Mapping[ObjectKey, Object]]] = Input(
    "foretold", initial={}, starts_unread=False, same=is_same_objects
)
"""Objects that a commit writes and that others refer to, as they will be, in a graph that foretells the final state.

Renderings read them in place of the live objects. Plans compare with what is live.
"""

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
    """Return the object `key` as renderings read it, or None if it does not exist.

    The answer is unread until the object, or all objects of its kind, have been read.
    """
    obj = foretold(graph).get(key) or live(graph, key)
    if obj is None and not is_known(graph, key):
        look_up(graph, key)
    return obj


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
    return discovery(graph).has_none_of(kind)


@query
def is_only_answered(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether the cluster serves `kind` and never stores an object of `kind`."""
    return discovery(graph).is_only_answered(kind)


@query
def _marks(graph: QueryGraph, key: ObjectKey) -> Mapping[tuple[_Mark, Any], Any]:
    """Return the contribution of the object `key` to each entry of `_marked`."""
    marks: dict[tuple[_Mark, Any], Any] = {(_Mark.KIND, key.group_kind): None}
    if (obj := live(graph, key)) is None:
        return marks
    for mark, name in ((_Mark.MEMBER, well_known.PART_OF), (_Mark.PARENT, well_known.PARENT_ID)):
        if set_id := label(obj, name):
            marks[mark, set_id] = None
            marks[mark, _ALL] = set_id
    if label(obj, well_known.PARENT_ID):
        marks[_Mark.IDENTITY, applyset_id(key)] = None
    if set_id := label(obj, well_known.PART_OF):
        if has_pods(obj):
            marks[_Mark.CLAIMS, set_id] = frozenset(persistent_volume_claims(obj, key))
        if annotation(obj, well_known.DEPS):
            member = Member.from_object(obj)
            marks |= {(_Mark.DEPENDS, dependency): None for dependency in member.dependencies}
            if member.reads:
                marks[_Mark.READS, _ALL] = member.reads
    if key.group_kind == CRD:
        marks[_Mark.DEFINES, defined_kind(obj)] = has_status_subresource(obj)
    if is_terminating(obj):
        marks[_Mark.TERMINATING, _ALL] = None
    return marks


_marked: Final[QueryIndex[ObjectKey, tuple[_Mark, Any], Any, Contributions[ObjectKey, Any]]] = QueryIndex(
    "_marked",
    order=1,
    members=live,
    contributions=_marks,
    new_entry=Contributions[ObjectKey, Any],
    # An object that is read for the first time may belong to any set. A proof covers that: the list of the kind.
    spreads_unread=False,
)
"""Contributions of all live and doubtful objects, by mark and value.

One index serves all marks, so that a change of an object costs one evaluation, and an object one node.
"""


@query
def members_of(graph: QueryGraph, set_id: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the live objects in the ApplySet `set_id`, sorted."""
    return tuple(sorted(_marked(graph, (_Mark.MEMBER, set_id))))


@query
def objects_of_kind(graph: QueryGraph, kind: GroupKind) -> tuple[Object, ...]:
    """Return the live objects of `kind`, sorted by key."""
    found = (live(graph, key) for key in sorted(_marked(graph, (_Mark.KIND, kind))))
    return tuple(obj for obj in found if obj is not None)


@query
def crd_keys(graph: QueryGraph) -> tuple[ObjectKey, ...]:
    """Return the keys of the live and doubtful CRDs, sorted."""
    return tuple(sorted(_marked(graph, (_Mark.KIND, CRD))))


@query
def crds_of(graph: QueryGraph, kind: GroupKind) -> tuple[ObjectKey, ...]:
    """Return the keys of the live CRDs that define `kind`, sorted."""
    return tuple(sorted(_marked(graph, (_Mark.DEFINES, kind))))


@query
def all_parents(graph: QueryGraph) -> Mapping[ObjectKey, str]:
    """Return the ids of ApplySets by the live objects that declare themselves to be their parents."""
    return dict(_marked(graph, (_Mark.PARENT, _ALL)))


@query
def occupied_sets(graph: QueryGraph) -> tuple[str, ...]:
    """Return the ids of all ApplySets with a live member, sorted."""
    return tuple(sorted(set(_marked(graph, (_Mark.MEMBER, _ALL)).values())))


@query
def terminating_objects(graph: QueryGraph) -> frozenset[ObjectKey]:
    """Return the keys of all live objects whose deletion has begun."""
    return frozenset(_marked(graph, (_Mark.TERMINATING, _ALL)))


@query
def parents_of(graph: QueryGraph, set_id: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the live objects that declare themselves the parent of the ApplySet `set_id`, sorted."""
    return tuple(sorted(_marked(graph, (_Mark.PARENT, set_id))))


@query
def identified_parent(graph: QueryGraph, set_id: str) -> ObjectKey | None:
    """Return the live object that declares itself a parent, and is the parent of the ApplySet `set_id`, or None."""
    return min(_marked(graph, (_Mark.IDENTITY, set_id)), default=None)


@query
def dependent_members(graph: QueryGraph, dependency: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the members that record a dependency on the object with a hash, sorted."""
    return tuple(sorted(_marked(graph, (_Mark.DEPENDS, dependency))))


@query
def reading_members(graph: QueryGraph) -> frozenset[ObjectKey]:
    """Return the keys of the members that record a read of other objects."""
    return frozenset(_marked(graph, (_Mark.READS, _ALL)))


@query
def used_claims(graph: QueryGraph, set_id: str) -> frozenset[ObjectKey]:
    """Return the PersistentVolumeClaims that Pods of the ApplySet `set_id` use."""
    return frozenset().union(*_marked(graph, (_Mark.CLAIMS, set_id)).values())


@query
def reports_status(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether a CRD gives the custom kind `kind` a status that a controller may write."""
    return any(_marked(graph, (_Mark.DEFINES, kind)).values())


@query
def listed_keys(graph: QueryGraph, kind: GroupKind) -> Mapping[ObjectKey, bool]:
    """Return the keys of the live and doubtful objects of `kind`, each with whether a label names an ApplySet."""
    return {key: bool(label(live(graph, key) or {}, well_known.PART_OF)) for key in _marked(graph, (_Mark.KIND, kind))}


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
