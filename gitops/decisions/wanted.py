"""Objects that sets want, as queries: which sets want an object, and which nodes read an object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from gitops.decisions.declarations import Root, declares, instance_roots
from gitops.decisions.definitions import sources, sources_by_id
from gitops.decisions.instances import family, instance_set, kept_sets, owning_root
from gitops.decisions.source_sets import defined_crds, source_set
from gitops.queries import Contributions, QueryGraph, QueryIndex, query
from renderer.identity import ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet


class _Entry(Enum):
    """Kind of an entry of `_wanted`, which holds keys of sets or objects."""

    # Entries are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    ALL = "all"
    """Parents of all sets."""
    OBJECT = "object"
    """Parents of the sets that want the object of the entry."""
    ID = "id"
    """Parent of the set whose id is the entry."""
    READ = "read"
    """Keys of the objects that read the object whose hash is the entry."""


_Entries = Mapping[tuple[_Entry, Any], tuple[ObjectKey, ...]]


def _entries_of(sets: Iterable[RenderedApplySet]) -> _Entries:
    """Return the keys that `sets` contribute to each entry."""
    found = defaultdict[tuple[_Entry, Any], list[ObjectKey]](list)
    for rendered in sets:
        found[_Entry.ALL, None].append(rendered.parent)
        found[_Entry.ID, rendered.id].append(rendered.parent)
        for node in rendered.nodes:
            if node.key and not node.external:
                found[_Entry.OBJECT, node.key].append(rendered.parent)
        has_reads = any(node.external for node in rendered.nodes)
        for key, reads in rendered.member_reads.items() if has_reads else ():
            for read in reads:
                found[_Entry.READ, read].append(key)
    return {entry: tuple(keys) for entry, keys in found.items()}


@query
def _family_entries(graph: QueryGraph, root: Root) -> _Entries:
    """Return the contributions of a family to the entries of `_wanted`."""
    sets = family(graph, root).sets
    return _entries_of(rendered for key, rendered in sets.items() if owning_root(graph, key) == root)


_wanted: Final[
    QueryIndex[Root, tuple[_Entry, Any], tuple[ObjectKey, ...], Contributions[Root, tuple[ObjectKey, ...]]]
] = QueryIndex(
    "_wanted",
    order=6,
    members=instance_roots,
    contributions=_family_entries,
    new_entry=Contributions[Root, tuple[ObjectKey, ...]],
    spreads_unread=False,
)
"""Objects that instances want or read, and their sets, by key, by hash and by id."""


@query
def _kept_entries(graph: QueryGraph) -> _Entries:
    """Return the entries of the sets that unreadable files may declare."""
    return _entries_of(kept_sets(graph).values())


def _keys_at(graph: QueryGraph, entry: _Entry, value: Any = None) -> set[ObjectKey]:
    """Return the keys that all sets of instances contribute to an entry."""
    found = {key for keys in _wanted(graph, (entry, value)).values() for key in keys}
    return found.union(_kept_entries(graph).get((entry, value), ()))


def wanting_parents(graph: QueryGraph, key: ObjectKey) -> tuple[ObjectKey, ...]:
    """Return the parents of the sets that want an object: sources in their order, then instances sorted."""
    owners = (source for source in sources(graph) if declares(graph, source, key) or _defines(graph, source, key))
    instances = sorted(_keys_at(graph, _Entry.OBJECT, key), key=lambda parent: parent.by_kind)
    return (*map(source_parent, owners), *instances)


def _defines(graph: QueryGraph, source: str, key: ObjectKey) -> bool:
    return key.group_kind == CRD and key in defined_crds(graph, source)


@query
def wanted_instances(graph: QueryGraph) -> tuple[ObjectKey, ...]:
    """Return the keys of all instances with a wanted set, in the order of kind, namespace, name and group."""
    return tuple(sorted(_keys_at(graph, _Entry.ALL), key=lambda key: key.by_kind))


@query
def wanting_sets(graph: QueryGraph, key: ObjectKey) -> tuple[str, ...]:
    """Return the ids of the sets that want an object, in the order of `wanting_parents`."""
    return tuple(map(applyset_id, wanting_parents(graph, key)))


@query
def wanted_readers(graph: QueryGraph, read: str) -> frozenset[ObjectKey]:
    """Return the keys of the wanted objects that read the object with the hash `read`."""
    return frozenset(_keys_at(graph, _Entry.READ, read))


@query
def wanted_parent(graph: QueryGraph, set_id: str) -> ObjectKey | None:
    """Return the parent of the wanted set with an id, or None if no source wants a set with this id."""
    if source := sources_by_id(graph).get(set_id):
        return source_parent(source)
    return min(_keys_at(graph, _Entry.ID, set_id), default=None)


def wanted_set(graph: QueryGraph, parent: ObjectKey) -> RenderedApplySet | None:
    """Return the set of a source or of a wanted instance, or None."""
    source = sources_by_id(graph).get(applyset_id(parent))
    return source_set(graph, source) if source else instance_set(graph, parent)
