"""Nodes of the graph, and the edges between nodes.

A node belongs to an input, a query, a timed query or an entry of an index, with certain arguments. If no transaction
has set an input with `starts_unread`, the input is unread. A transaction or a later change can also make an input
unread. A proof is an input with `is_proof`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, Protocol

CLEAN, CHECK, DIRTY = 0, 1, 2
"""States of a node.

The value of a CLEAN node is current. A CHECK node depends on a marked node. A DIRTY node has to be computed, for
example because a node that it has read has changed.
"""


class _Mark(Enum):
    ABSENT = "absent"
    UNCHANGED = "unchanged"


ABSENT: Final = _Mark.ABSENT
"""Placeholder for the value of a node that was never computed, or for a dropped volatile value."""

UNCHANGED: Final = _Mark.UNCHANGED
"""Placeholder in a transaction for the present value of an input."""


class Fault(Exception):
    """Error that the function of a query raised. The node of the query holds the fault instead of a value.

    Every query that reads the failed query has the same fault.

    Args:
        number: number of the fault in the log, which contains the traceback of `error`.
        place: node of the failed query.
        error: exception of the function, which becomes `__cause__`.
    """

    def __init__(self, number: int, place: str, error: Exception) -> None:
        super().__init__(f"InternalError {number} in {place}: {type(error).__name__}: {error}")
        self.number = number
        self.__cause__ = error


class CyclicQuery(Exception):
    """Programming error: a query reads its own result, directly or through other queries."""


class NodeReader(Protocol):
    """Reader of nodes in a graph. When the graph marks a node, the graph marks the readers of the node too."""

    def mark(self, state: int) -> bool:
        """Record the mark `state`, and return whether the graph has to mark the readers of this reader too."""


class Family(Protocol):
    """Declaration of nodes: a name, and the functions that compare and digest the values of the nodes."""

    name: str

    def same(self, before: Any, after: Any) -> bool: ...

    def digest(self, value: Any) -> Any: ...


NO_NODES: Final[frozenset[Node]] = frozenset()


_MAX_LISTED_READERS: Final = 64


class Node:
    """Value or fault of one declaration with certain arguments, and the nodes that the computation read."""

    __slots__ = (
        "_readers",
        "args",
        "changed_at",
        "depth",
        "family",
        "fault",
        "has_proofs",
        "is_busy",
        "is_unread_stale",
        "kept_digest",
        "reads",
        "state",
        "unread",
        "value",
    )

    def __init__(self, family: Family, args: tuple[Any, ...], value: Any, state: int) -> None:
        self.family = family
        self.args = args
        self.value = value
        self.kept_digest: Any = ABSENT
        self.fault: Fault | None = None
        self.unread: frozenset[Node] = NO_NODES
        """Unread inputs on which the value depends."""
        self.depth = 0
        """Highest order of an index on which the value depends, or 0 if the value depends on no index."""
        self.state = state
        self.changed_at = 0
        """Number of the graph's revision in which the value last changed."""
        self.is_busy = False
        """True while the graph checks or computes the node."""
        self.is_unread_stale = False
        """True if the unread inputs behind a read value have changed, and `unread` does not show the change yet."""
        self.has_proofs = False
        """True if the node itself read a proof."""
        self.reads: tuple[Node, ...] = ()
        # None, the only reader, a short list, or a set. Most nodes have few readers, and a set of six takes 728 bytes.
        self._readers: NodeReader | list[NodeReader] | set[NodeReader] | None = None

    def __repr__(self) -> str:
        return f"{self.family.name}({', '.join(map(repr, self.args))})"

    @property
    def is_in_cycle(self) -> bool:
        """Return whether the fault of the node comes from a query that depends on its own result."""
        return self.fault is not None and isinstance(self.fault.__cause__, CyclicQuery)

    @property
    def readers(self) -> Iterable[NodeReader]:
        readers = self._readers
        return () if readers is None else readers if isinstance(readers, (list, set)) else (readers,)

    @property
    def is_needed(self) -> bool:
        """Return whether a query, index or root reads the node."""
        return self._readers is not None

    def add_reader(self, reader: NodeReader) -> None:
        """Add a reader that does not read the node yet."""
        readers = self._readers
        if readers is None:
            self._readers = reader
        elif isinstance(readers, list):
            readers.append(reader)
            if len(readers) > _MAX_LISTED_READERS:
                self._readers = set(readers)
        elif isinstance(readers, set):
            readers.add(reader)
        else:
            self._readers = [readers, reader]

    def remove_reader(self, reader: NodeReader) -> None:
        """Remove a reader, if it reads the node."""
        readers = self._readers
        if readers is reader:
            self._readers = None
        elif isinstance(readers, list):
            if reader in readers:
                readers.remove(reader)
        elif isinstance(readers, set):
            readers.discard(reader)
        if not readers:
            self._readers = None

    def mark(self, state: int) -> bool:
        was_clean = self.state == CLEAN
        if self.state < state:
            self.state = state
        return was_clean


def union_of_unread(nodes: Iterable[Node]) -> frozenset[Node]:
    """Return all unread inputs on which `nodes` depend.

    If one node has all of these inputs, return the set of that node, so that nodes with equal sets share one set.
    """
    found = NO_NODES
    for node in nodes:
        if node.unread and not node.unread <= found:
            found = node.unread if found <= node.unread else found | node.unread
    return found
