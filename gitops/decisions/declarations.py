"""Declared objects of the sources as queries, by key.

The key of an object depends on whether its kind is namespaced, which definitions and the cluster tell. So the shell
sets each object under the name that the object has in Git.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from gitops.decisions import definitions
from gitops.decisions.live_view import Lookup
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from renderer.catalog.file_content import DeclaredObject, declared_key
from renderer.identity import GroupKind, ObjectKey, is_same
from renderer.kinds import is_namespaced
from renderer.render.duplicates import refused_node
from renderer.render.model import RenderedNode, is_same_node
from renderer.render.order import declared_node


class Declaration(NamedTuple):
    """Name of a declared object in Git."""

    source: str
    kind: GroupKind
    namespace: str
    """Namespace as written, or an empty text."""
    name: str
    ordinal: int
    """Number of objects with the same name that the source declares before this object."""


class Root(NamedTuple):
    """Instance that a source declares."""

    source: str
    key: ObjectKey


def is_same_declaration(before: DeclaredObject | None, after: DeclaredObject | None) -> bool:
    """Return whether two declared objects are equal, with their places."""
    return before is after or (
        before is not None and after is not None and before == after and is_same(before.manifest, after.manifest)
    )


declaration: Final[Input[[Declaration], DeclaredObject | None]] = Input(
    "declaration", initial=None, starts_unread=False, same=is_same_declaration
)
"""Declared object, or None if the source does not declare the object."""


class _Entry(Enum):
    """Property of declared objects by which the index `_declared` finds them."""

    # Entries are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    OBJECT = "object"
    """The source of the entry declares the object of the entry."""
    KIND = "kind"
    """The source of the entry declares an object of the kind of the entry."""
    KEYS = "keys"
    """The source of the entry declares the object that is the contribution."""
    DECLARES = "declares"
    """The source that is the contribution declares the object of the entry."""
    ROOTS = "roots"
    """The object that is the contribution is an instance."""


@query
def is_instance_kind(graph: QueryGraph, kind: GroupKind) -> bool:
    """Return whether objects of a kind are instances, even if no definition of the kind is usable."""
    if definitions.current_revision(graph, kind):
        return True
    return bool(definitions.held_reason(graph, kind) or definitions.installed_definition(graph, kind)[0])


@query
def _entries(graph: QueryGraph, place: Declaration) -> Mapping[tuple[_Entry, Any, Any], Any]:
    """Return the contributions of a declared object to the entries of `_declared`."""
    found, (source, kind, *_) = declaration(graph, place), place
    if found is None:
        return {}
    scopes = Lookup(partial(definitions.namespaced, graph), "kinds")
    key = declared_key(found, namespaced=is_namespaced(kind, scopes))
    entries: dict[tuple[_Entry, Any, Any], Any] = {
        (_Entry.OBJECT, source, key): found,
        (_Entry.KIND, source, kind): None,
        (_Entry.KEYS, source, None): key,
        (_Entry.DECLARES, None, key): source,
    }
    return {**entries, (_Entry.ROOTS, None, None): Root(source, key)} if is_instance_kind(graph, kind) else entries


def _is_same_contribution(before: Any, after: Any) -> bool:
    return is_same_declaration(before, after) if isinstance(after, DeclaredObject) else bool(before == after)


_declared: Final[QueryIndex[Declaration, tuple[_Entry, Any, Any], Any, Contributions[Declaration, Any]]] = QueryIndex(
    "_declared",
    order=2,
    members=declaration,
    contributions=_entries,
    new_entry=Contributions[Declaration, Any],
    spreads_unread=True,
    same=_is_same_contribution,
)
"""Declared objects, by key, source and kind."""


@query
def declared_objects(graph: QueryGraph, source: str, key: ObjectKey) -> tuple[DeclaredObject, ...]:
    """Return all objects that a source declares under one key, in the order of Git."""
    found = _declared(graph, (_Entry.OBJECT, source, key)).values()
    return tuple(sorted(found, key=lambda one: (one.origin.file, one.origin.line)))


def declares(graph: QueryGraph, source: str, key: ObjectKey) -> bool:
    """Return whether a source declares an object."""
    return source in _declared(graph, (_Entry.DECLARES, None, key)).values()


@query
def declares_kind(graph: QueryGraph, source: str, kind: GroupKind) -> bool:
    """Return whether a source declares an object of a kind."""
    return bool(_declared(graph, (_Entry.KIND, source, kind)))


@query
def declared_keys(graph: QueryGraph, source: str) -> tuple[ObjectKey, ...]:
    """Return the keys of the objects that a source declares, sorted."""
    return tuple(sorted(set(_declared(graph, (_Entry.KEYS, source, None)).values())))


@query
def instance_roots(graph: QueryGraph) -> frozenset[Root]:
    """Return the instances that the sources declare."""
    return frozenset(_declared(graph, (_Entry.ROOTS, None, None)).values())


@query(same=is_same_node)
def declared_object_node(graph: QueryGraph, source: str, key: ObjectKey) -> RenderedNode | None:
    """Return a declared object as a node, or None. If a source declares the object twice, the node is in error."""
    found = declared_objects(graph, source, key)
    if not found:
        return None
    node = declared_node(found[0], namespaced=bool(key.namespace))
    return node if len(found) == 1 else refused_node(node, [one.origin for one in found])
