"""Families of members: the members of an index, or roots. If a member changes, its family is updated.

A marked member of an index does not mark the readers of the index at once. The member waits in `pending` until the
graph settles. Then the graph marks only the readers of entries to which the contribution of the member has changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from gitops.queries.cost import Cost
from gitops.queries.declarations import FAILED, Contributions, Input, Query, QueryIndex, Roots
from gitops.queries.nodes import NO_NODES, CyclicQuery, Fault, Node, union_of_unread

_NOTHING: Final[Mapping[Any, Any]] = {}


class Evaluator(Protocol):
    """Functions of a graph that a family needs to compute members and to mark the readers of entries."""

    revision: int
    cost: Cost

    @property
    def now(self) -> datetime: ...

    def elapsed(self) -> float:
        """Return the seconds of a monotonic clock."""

    def obtain(self, family: Any, args: tuple[Any, ...]) -> Node:
        """Return the node of the declaration `family` with these arguments."""

    def refresh(self, node: Node) -> None:
        """Make the value of `node` current."""

    def entries_of(self, index: QueryIndex[Any, Any, Any, Any]) -> Mapping[tuple[Any], Node]:
        """Return the node of each entry of `index` that has readers, by a tuple that holds only the entry."""

    def change(self, node: Node) -> None:
        """Mark the readers of `node`, whose value has changed."""

    def change_unread(self, node: Node) -> None:
        """Mark the readers of `node`, whose unread inputs have changed, but not its value."""

    def release(self, node: Node) -> None:
        """Drop `node` at the next settling of the graph, unless a node reads `node` by then."""

    def fail(self, node: Node, error: Exception) -> Fault:
        """Return a fault of `node` with a number for `error`, and log the fault."""


class Computation(NamedTuple):
    """Computation of a root."""

    revision: int
    """Revision of the graph."""
    at: datetime
    """Time of the graph, in UTC."""
    evaluations: int
    """Number of queries that the computation evaluated, or 0 if other roots had evaluated all of them before."""
    seconds: float


class FamilyMember:
    """Member of a family. A mark of the member means that the result of its query may have changed."""

    __slots__ = ("contributions", "family", "key", "last", "node", "reported_at", "unread")

    def __init__(self, family: MemberFamily, key: Hashable, node: Node) -> None:
        self.family = family
        self.key = key
        self.node = node
        self.contributions: Mapping[Any, Any] = _NOTHING
        self.unread: frozenset[Node] = NO_NODES
        self.reported_at = -1
        self.last: Computation | None = None
        """Last computation of a root."""

    def mark(self, _state: int) -> bool:
        self.family.pending[self] = None
        return False


class MemberFamily:
    """Members of an index or of roots, and the marks of these members.

    If a query returns the keys of the members, the family itself is a reader of that query. If the members are inputs,
    the graph tells the family about each input that it sets.
    """

    def __init__(self, member_keys: Query[[], Set[Any]] | Input[[Any], Any], result: Query[[Any], Any]) -> None:
        self._member_keys = member_keys
        self._result = result
        self._are_keys_marked = not isinstance(member_keys, Input)
        self._arrivals: dict[Hashable, bool] = {}
        """True for an input that was set and belongs to the members, by the argument of the input."""
        self.keys_node: Node | None = None
        self.members: dict[Hashable, FamilyMember] = {}
        self.pending: dict[FamilyMember, None] = {}
        self.doubtful: dict[FamilyMember, None] = {}
        self.departed: list[FamilyMember] = []

    def mark(self, _state: int) -> bool:
        self._are_keys_marked = True
        return False

    def follow(self, node: Node) -> None:
        """Note that a transaction has set the input of `node`. The argument of the input is the key of a member."""
        family: Any = node.family
        self._arrivals[node.args[0]] = not family.is_unset(node)

    @property
    def is_settled(self) -> bool:
        return not (self._are_keys_marked or self._arrivals or self.pending or self.doubtful or self.departed)

    def update_members(self, graph: Evaluator) -> None:
        """Add and remove members according to the inputs that were set, or to the query that returns their keys.

        If the query has a fault, the members stay as they are.
        """
        self.pending.update(self.doubtful)
        self.doubtful.clear()
        if self._arrivals:
            arrivals, self._arrivals = self._arrivals, {}
            self._remove_members(graph, [key for key, belongs in arrivals.items() if not belongs])
            self._add_members(graph, (key for key, belongs in arrivals.items() if belongs))
        if self._are_keys_marked:
            self._update_from_query(graph)

    def _update_from_query(self, graph: Evaluator) -> None:
        if self.keys_node is None:
            self.keys_node = graph.obtain(self._member_keys, ())
            self.keys_node.add_reader(self)
        graph.refresh(self.keys_node)
        self._are_keys_marked = False
        if self.keys_node.fault is None:
            keys = self.keys_node.value
            self._remove_members(graph, [key for key in self.members if key not in keys])
            self._add_members(graph, keys)

    def _remove_members(self, graph: Evaluator, keys: Iterable[Hashable]) -> None:
        for key in keys:
            if (member := self.members.pop(key, None)) is None:
                continue
            self.pending.pop(member, None)
            self.departed.append(member)
            member.node.remove_reader(member)
            graph.release(member.node)

    def _add_members(self, graph: Evaluator, keys: Iterable[Hashable]) -> None:
        for key in keys:
            if key not in self.members:
                member = self.members[key] = FamilyMember(self, key, graph.obtain(self._result, (key,)))
                member.node.add_reader(member)
                self.pending[member] = None

    def note_doubt(self, member: FamilyMember) -> None:
        """If the query of `member` is in a cycle, recompute it at the next update, because no mark passes a cycle."""
        if member.node.is_in_cycle:
            self.doubtful[member] = None


class RootFamily(MemberFamily):
    """Members of one declaration of roots in one graph."""

    def __init__(self, roots: Roots[Any, Any]) -> None:
        super().__init__(roots.members, roots.result)
        self.name = roots.name

    def refreshing(self, graph: Evaluator) -> Iterator[None]:
        """Compute the marked roots, one in each step. `take_changed` still returns those that have changed."""
        self.update_members(graph)
        for member in list(self.pending):
            self.refresh(graph, member)
            yield

    def refresh(self, graph: Evaluator, member: FamilyMember) -> None:
        """Make the value of a root current, and note what that took."""
        node, before, begun = member.node, graph.cost.evaluation_count, graph.elapsed()
        graph.refresh(node)
        made = graph.cost.evaluation_count - before
        if made or member.last is None or node.changed_at > member.last.revision:
            seconds = graph.elapsed() - begun if made else 0.0
            member.last = Computation(graph.revision, graph.now, made, seconds)

    def take_changed(self, graph: Evaluator) -> FamilyMember | None:
        """Return a former root, or a root whose result differs from the last reported result.

        If no such root exists, return None. The returned root counts as reported.
        """
        self.update_members(graph)
        if self.departed:
            return self.departed.pop()
        while self.pending:
            member = next(iter(self.pending))
            del self.pending[member]
            self.refresh(graph, member)
            self.note_doubt(member)
            if member.node.changed_at > member.reported_at:
                member.reported_at = graph.revision
                return member
        return None


class IndexState(MemberFamily):
    """Members and entries of one index in one graph."""

    def __init__(self, index: QueryIndex[Any, Any, Any, Any]) -> None:
        super().__init__(index.members, index.contributions)
        self.index = index
        self.order = index.order
        self._reducers: dict[Any, Any] = {}
        self._contributor_counts: dict[Any, int] = {}
        self._unread_members: dict[Any, dict[Hashable, frozenset[Node]]] = {}
        self._unread_everywhere: frozenset[Node] = NO_NODES
        self._all_unread: dict[Hashable, frozenset[Node]] = {}
        self.keys_fault: Fault | None = None
        """Fault of the query that returns the keys of the members, or None if the query has no fault."""

    def settle(self, graph: Evaluator) -> Iterator[None]:
        """Compute the marked members, one in each step.

        After the last step, mark the readers of the changed entries.
        """
        touched, unread_touched = dict[Any, None](), dict[Any, None]()
        try:
            self.update_members(graph)
            while self.departed:
                self._contribute(self.departed.pop(), _NOTHING, NO_NODES, touched, unread_touched)
            while self.pending:
                member = next(iter(self.pending))
                del self.pending[member]
                self._take(graph, member, touched, unread_touched)
                yield
        finally:  # Even if the caller stops before the last step, some entries have changed.
            self._publish(graph, touched, unread_touched)

    def current(self, entry: Any) -> Any:
        """Return the reducer of `entry`, or an empty reducer if no member contributes to `entry`."""
        return self._reducers[entry] if entry in self._reducers else self._new_reducer(entry)

    def unread_behind(self, entry: Any) -> frozenset[Node]:
        """Return the unread inputs that, once read, may change `entry`."""
        of_members = self._unread_members.get(entry)
        if not of_members:
            return self._unread_everywhere
        return self._unread_everywhere.union(*of_members.values())

    def _take(
        self, graph: Evaluator, member: FamilyMember, touched: dict[Any, None], unread_touched: dict[Any, None]
    ) -> None:
        node = member.node
        if not node.is_busy:
            graph.refresh(node)
        if node.is_busy or (node.fault is None and node.depth >= self.order):
            error = CyclicQuery(
                f"member {member.key!r} of index {self.index.name} reads an index whose order is not lower; "
                f"raise the order of {self.index.name}"
            )
            contributions: Mapping[Any, Any] = {FAILED: graph.fail(node, error)}
        else:
            contributions = node.value if node.fault is None else {FAILED: node.fault}
        self._contribute(member, contributions, node.unread, touched, unread_touched)
        self.note_doubt(member)

    def _contribute(
        self,
        member: FamilyMember,
        contributions: Mapping[Any, Any],
        unread: frozenset[Node],
        touched: dict[Any, None],
        unread_touched: dict[Any, None],
    ) -> None:
        before, key, same = member.contributions, member.key, self.index.same
        if contributions is not before:
            for entry, contribution in before.items():
                if entry not in contributions or not same(contribution, contributions[entry]):
                    self._remove(entry, key, contribution)
                    touched[entry] = None
            for entry, contribution in contributions.items():
                if entry not in before or not same(before[entry], contribution):
                    self._add(entry, key, contribution)
                    touched[entry] = None
        if unread != member.unread or (unread and contributions.keys() != before.keys()):
            self._note_unread(member, contributions, unread, unread_touched)
        member.contributions, member.unread = contributions, unread

    def _add(self, entry: Any, key: Hashable, contribution: Any) -> None:
        if entry not in self._reducers:
            self._reducers[entry] = self._new_reducer(entry)
        self._reducers[entry].add(key, contribution)
        self._contributor_counts[entry] = self._contributor_counts.get(entry, 0) + 1

    def _remove(self, entry: Any, key: Hashable, contribution: Any) -> None:
        self._reducers[entry].remove(key, contribution)
        self._contributor_counts[entry] -= 1
        if not self._contributor_counts[entry]:
            del self._contributor_counts[entry], self._reducers[entry]

    def _new_reducer(self, entry: Any) -> Any:
        return Contributions() if entry == FAILED else self.index.new_entry()

    def _note_unread(
        self,
        member: FamilyMember,
        contributions: Mapping[Any, Any],
        unread: frozenset[Node],
        touched: dict[Any, None],
    ) -> None:
        if self.index.spreads_unread:
            if unread:
                self._all_unread[member.key] = unread
            else:
                self._all_unread.pop(member.key, None)
            return
        if member.unread:
            for entry in member.contributions:
                if of_members := self._unread_members.get(entry):
                    of_members.pop(member.key, None)
                    touched[entry] = None
                    if not of_members:
                        del self._unread_members[entry]
        if unread:
            for entry in contributions:
                self._unread_members.setdefault(entry, {})[member.key] = unread
                touched[entry] = None

    def _publish(self, graph: Evaluator, touched: dict[Any, None], unread_touched: dict[Any, None]) -> None:
        """Mark the readers of entries that have changed, in their values or only in the unread inputs behind them."""
        keys = self.keys_node
        unread_everywhere = union_of_unread([keys] if keys else ()).union(*self._all_unread.values())
        keys_fault = keys.fault if keys else None
        nodes = graph.entries_of(self.index)
        if unread_everywhere != self._unread_everywhere or keys_fault is not self.keys_fault:
            self._unread_everywhere, self.keys_fault = unread_everywhere, keys_fault
            concerned: Iterable[Any] = [entry for (entry,) in nodes]
        else:
            concerned = {**touched, **unread_touched}
        for entry in concerned:
            if (node := nodes.get((entry,))) is None:
                continue
            unread = self.unread_behind(entry)
            if entry in touched or keys_fault is not node.fault:
                node.value, node.unread, node.fault = self.current(entry), unread, keys_fault
                graph.change(node)
            elif unread != node.unread:
                node.unread = unread
                graph.change_unread(node)
