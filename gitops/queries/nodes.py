"""Nodes of the graph: one for each input, query result, moment and index entry, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, Protocol

CLEAN, CHECK, DIRTY = 0, 1, 2
"""States of a node: its value holds; something behind it was marked; something that it read has another value."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""Value of a node that was never computed, or whose volatile value was dropped."""


class Fault(Exception):
    """An error inside a query, kept in place of its value. Every query that reads it has the same fault.

    `number` identifies the fault in the log, where the exception that caused it (`__cause__`) is explained.
    """

    def __init__(self, number: int, place: str, error: Exception) -> None:
        super().__init__(f"InternalError {number} in {place}: {type(error).__name__}: {error}")
        self.number = number
        self.__cause__ = error


class CyclicQuery(Exception):
    """A query that reads its own result, directly or through others. It is a programming error."""


class NodeReader(Protocol):
    """A part of the graph that is marked when a node that it reads is marked."""

    def mark(self, state: int) -> bool:
        """Take the mark, and return whether the readers of this reader have to be marked as well."""


class Family(Protocol):
    """A declaration: what all its nodes have in common."""

    name: str

    def same(self, before: Any, after: Any) -> bool: ...

    def digest(self, value: Any) -> Any: ...


NO_NODES: Final[frozenset[Node]] = frozenset()


class Node:
    """One value with what it was made of.

    `unread` holds the inputs behind the value that are still to be read. `depth` is the largest order of an index
    behind it, 0 for none. `changed_at` is the revision in which the value last changed. `is_busy` is set while
    the node is checked or computed. `has_proofs` says that the node itself read a proof.
    """

    __slots__ = (
        "_readers",
        "args",
        "changed_at",
        "depth",
        "family",
        "fault",
        "has_proofs",
        "is_busy",
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
        self.depth = 0
        self.state = state
        self.changed_at = 0
        self.is_busy = False
        self.has_proofs = False
        self.reads: tuple[Node, ...] = ()
        # None, the only reader, or a set of them: most nodes have at most one, and a set takes 216 bytes.
        self._readers: NodeReader | set[NodeReader] | None = None

    def __repr__(self) -> str:
        return f"{self.family.name}({', '.join(map(repr, self.args))})"

    @property
    def is_in_circle(self) -> bool:
        """Return whether the value is missing because a query depends on itself."""
        return self.fault is not None and isinstance(self.fault.__cause__, CyclicQuery)

    @property
    def readers(self) -> Iterable[NodeReader]:
        readers = self._readers
        return () if readers is None else readers if isinstance(readers, set) else (readers,)

    @property
    def is_needed(self) -> bool:
        """Return whether anything reads the node."""
        return self._readers is not None

    def add_reader(self, reader: NodeReader) -> None:
        readers = self._readers
        if readers is None:
            self._readers = reader
        elif isinstance(readers, set):
            readers.add(reader)
        elif readers is not reader:
            self._readers = {readers, reader}

    def remove_reader(self, reader: NodeReader) -> None:
        readers = self._readers
        if readers is reader:
            self._readers = None
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
    """Return every unread input behind these nodes. Nodes with equal sets share one."""
    found = NO_NODES
    for node in nodes:
        if node.unread and not node.unread <= found:
            found = found | node.unread if found else node.unread
    return found
