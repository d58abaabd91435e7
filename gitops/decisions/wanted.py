"""Objects that sets want, as queries: which sets want an object, and which nodes read an object."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from gitops.decisions.declarations import Root, declares, instance_roots
from gitops.decisions.definitions import sources
from gitops.decisions.instances import family, instance_set, kept_sets, owning_root
from gitops.decisions.source_sets import defined_crds, source_set
from gitops.queries import Contributions, QueryGraph, QueryIndex, query
from renderer.identity import ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet


class _Entry(Enum):
    """Kind of an entry of `_wanted`."""

    # Entries are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    OBJECT = "object"
    """Sets of the family want the object of the entry. The contribution has the parents of these sets."""
    ID = "id"
    """The family has the set whose id is the entry. The contribution is the parent of the set."""
    ALL = "all"
    """The contribution has the parents of all sets of the family."""
    READ = "read"
    """Objects of the family read the object whose hash is the entry. The contribution has the keys of the readers."""


def _entries_of(rendered: RenderedApplySet) -> Mapping[tuple[_Entry, Any], Any]:
    found: dict[tuple[_Entry, Any], Any] = {(_Entry.ID, rendered.id): rendered.parent}
    has_reads = False
    for node in rendered.nodes:
        has_reads |= node.external
        if node.key and not node.external:
            found[_Entry.OBJECT, node.key] = (rendered.parent,)
    for key, reads in rendered.member_reads.items() if has_reads else ():
        for read in reads:
            found[_Entry.READ, read] = (*found.get((_Entry.READ, read), ()), key)
    return found


@query
def _family_entries(graph: QueryGraph, root: Root) -> Mapping[tuple[_Entry, Any], Any]:
    """Return the contributions of a family to the entries of `_wanted`."""
    found: dict[tuple[_Entry, Any], Any] = {}
    for key, rendered in family(graph, root).sets.items():
        if owning_root(graph, key) != root:
            continue
        for entry, contribution in _entries_of(rendered).items():
            found[entry] = contribution if entry[0] is _Entry.ID else (*found.get(entry, ()), *contribution)
        found[_Entry.ALL, None] = (*found.get((_Entry.ALL, None), ()), key)
    return found


_wanted: Final[QueryIndex[Root, tuple[_Entry, Any], Any, Contributions[Root, Any]]] = QueryIndex(
    "_wanted",
    order=5,
    members=instance_roots,
    contributions=_family_entries,
    new_entry=Contributions[Root, Any],
    spreads_unread=False,
)
"""Objects that instances want or read, and their sets, by key, by hash and by id."""


@query
def _kept_entries(graph: QueryGraph) -> Mapping[tuple[_Entry, Any], Any]:
    """Return the entries of the sets that unreadable files may declare."""
    found: dict[tuple[_Entry, Any], Any] = {}
    for rendered in kept_sets(graph).values():
        for entry, contribution in _entries_of(rendered).items():
            found[entry] = contribution if entry[0] is _Entry.ID else (*found.get(entry, ()), *contribution)
    return found


def wanting_parents(graph: QueryGraph, key: ObjectKey) -> tuple[ObjectKey, ...]:
    """Return the parents of the sets that want an object: sources in their order, then instances sorted."""
    owners = (source for source in sources(graph) if declares(graph, source, key) or _defines(graph, source, key))
    entry = _Entry.OBJECT, key
    instances = {parent for parents in _wanted(graph, entry).values() for parent in parents}
    instances.update(_kept_entries(graph).get(entry, ()))
    return (*map(source_parent, owners), *sorted(instances, key=_order))


def _defines(graph: QueryGraph, source: str, key: ObjectKey) -> bool:
    return key.group_kind == CRD and key in defined_crds(graph, source)


@query
def wanted_instances(graph: QueryGraph) -> tuple[ObjectKey, ...]:
    """Return the keys of all instances with a wanted set, in the order of kind, namespace, name and group."""
    found = {key for keys in _wanted(graph, (_Entry.ALL, None)).values() for key in keys}
    return tuple(sorted(found.union(kept_sets(graph)), key=_order))


def _order(key: ObjectKey) -> tuple[str, str, str, str]:
    return key.kind, key.namespace, key.name, key.group


@query
def wanting_sets(graph: QueryGraph, key: ObjectKey) -> tuple[str, ...]:
    """Return the ids of the sets that want an object, in the order of `wanting_parents`."""
    return tuple(map(applyset_id, wanting_parents(graph, key)))


@query
def wanted_readers(graph: QueryGraph, read: str) -> frozenset[ObjectKey]:
    """Return the keys of the wanted objects that read the object with the hash `read`."""
    found = frozenset(key for keys in _wanted(graph, (_Entry.READ, read)).values() for key in keys)
    return found.union(_kept_entries(graph).get((_Entry.READ, read), ()))


@query
def wanted_parent(graph: QueryGraph, set_id: str) -> ObjectKey | None:
    """Return the parent of the wanted set with an id, or None if no source wants a set with this id."""
    for source in sources(graph):
        if applyset_id(parent := source_parent(source)) == set_id:
            return parent
    found = next(iter(_wanted(graph, (_Entry.ID, set_id)).values()), None)
    return found or _kept_entries(graph).get((_Entry.ID, set_id))


def wanted_set(graph: QueryGraph, parent: ObjectKey) -> RenderedApplySet | None:
    """Return the set of a source or of a wanted instance, or None."""
    for source in sources(graph):
        if source_parent(source) == parent:
            return source_set(graph, source)
    return instance_set(graph, parent)
