"""Graph of queries that recomputes a result only after a change of an input on which the result depends.

A transaction sets inputs and marks all values that depend on the inputs, directly or indirectly. A read checks only
marked values. If a value that a query read has changed, the graph recomputes the query. If the new result is equal to
the previous result, the graph does not recompute the values that depend on the result. Evaluation is synchronous and
belongs to one thread.

Sources: the algorithms of Salsa (early cut-off, dependencies checked in the order of reading), Skyframe and Adapton
(marks pushed, values pulled).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

from gitops.queries.cost import Cost
from gitops.queries.declarations import Answer, Input, InputKey, Query, QueryIndex, Roots, TimedQuery
from gitops.queries.membership import IndexState, RootFamily
from gitops.queries.moments import Moments
from gitops.queries.nodes import (
    ABSENT,
    CHECK,
    CLEAN,
    DIRTY,
    NO_NODES,
    UNCHANGED,
    CyclicQuery,
    Fault,
    Node,
    union_of_unread,
)

V = TypeVar("V")
K = TypeVar("K", bound=Hashable)

_log: Final = logging.getLogger(__name__)


class OutOfTurn(RuntimeError):
    """Programming error: a read of a value, or a change of an input, while the graph computes a value."""


class Transaction:
    """Values of inputs that are set together."""

    def __init__(self) -> None:
        self.values: dict[InputKey[Any], tuple[Any, bool]] = {}
        """Value of each input, and whether the input counts as unread."""
        self.now: datetime | None = None
        """New present time in UTC, or None if the present time stays as it is."""

    def set(self, key: InputKey[V], value: V) -> None:
        """Set the input `key` to `value`, so that it counts as read."""
        self.values[key] = value, False

    def doubt(self, key: InputKey[Any]) -> None:
        """Make the input `key` unread, and keep its value until the input is set again.

        An index over `key.family` keeps the contribution of the input, but the entries of the index count as unread.
        """
        value, _ = self.values.get(key, (UNCHANGED, True))
        self.values[key] = value, True

    def drop(self, key: InputKey[Any]) -> None:
        """Set the input `key` back to its initial value.

        If the declaration of the input has `starts_unread`, the input counts as unread again.
        """
        self.values[key] = key.family.initial, key.family.starts_unread


class QueryGraph:
    """Values of all inputs and queries of one cluster, one plan or one simulation.

    Args:
        now: present time in UTC.
        elapsed: function that returns the seconds of a monotonic clock, to time evaluations.
    """

    def __init__(self, now: datetime, *, elapsed: Callable[[], float]) -> None:
        self.revision = 0
        self.cost = Cost()
        self.elapsed = elapsed
        self._moments = Moments(now)
        self._nodes: dict[Any, dict[tuple[Any, ...], Node]] = {}
        self._indexes: dict[QueryIndex[Any, Any, Any, Any], IndexState] = {}
        self._input_indexes: dict[Any, list[IndexState]] = {}
        """Indexes whose members are inputs, by the declaration of these inputs."""
        self._roots: dict[Roots[Any, Any], RootFamily] = {}
        self._frames: list[dict[Node, None]] = []
        self._released: dict[Node, None] = {}
        self._volatile: dict[Node, None] = {}
        self._to_verify: list[Node] = []
        self._fault_count = 0
        self._is_in_turn = False
        self._are_proofs_used = False

    # -- Changes

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Collect inputs in a transaction, and set the inputs together at the end of the block.

        If the block raises an error, the transaction sets no input.

        Raises: OutOfTurn.
        """
        self._refuse_out_of_turn()
        transaction = Transaction()
        yield transaction
        self._refuse_out_of_turn()
        self._commit(transaction)

    @contextmanager
    def supposing(self, values: Mapping[InputKey[Any], Any]) -> Iterator[None]:
        """Set inputs to `values` for the block, and restore the previous values at the end of the block.

        A read within the block returns the value that a query would have with these inputs.
        """
        nodes = [self.obtain(key.family, key.args) for key in values]
        before = {key: (node.value, bool(node.unread)) for key, node in zip(values, nodes, strict=True)}
        with self.transaction() as transaction:
            for key, value in values.items():
                transaction.set(key, value)
        try:
            yield
        finally:
            with self.transaction() as transaction:
                transaction.values.update(before)

    def advance(self, now: datetime) -> None:
        """Make `now` the present time."""
        with self.transaction() as transaction:
            transaction.now = now

    @property
    def now(self) -> datetime:
        return self._moments.now

    @property
    def next_moment(self) -> datetime | None:
        """Return the earliest time in UTC at which a timed query may get another value, or None if there is none."""
        return self._moments.next_moment

    def next_moment_of(self, query: TimedQuery[Any, Any]) -> datetime | None:
        """Return the earliest time in UTC at which the timed query `query` may get another value, or None."""
        return self._moments.next_of(query)

    @property
    def size(self) -> int:
        """Return the number of values that the graph keeps."""
        return sum(map(len, self._nodes.values()))

    def _commit(self, transaction: Transaction) -> None:
        # Functions of declarations are called first: if one of them raises an error, no input may be set.
        changes: list[tuple[Node, Any, bool, bool]] = []
        for key, (new_value, is_unread) in transaction.values.items():
            if self.find(key) is None and key.family.is_initial(new_value, is_unread):
                continue  # A missing node has the initial state, and nothing depends on it.
            node = self.obtain(key.family, key.args)
            value = node.value if new_value is UNCHANGED else new_value
            # A proof that is set again proves a later state, even if its value is equal.
            is_equal = not key.family.is_proof and key.family.same(node.value, value)
            if bool(node.unread) != is_unread or not is_equal:
                changes.append((node, value, is_equal, is_unread))
        moment_changes = [] if transaction.now is None else self._moments.advance(transaction.now, self.fail)
        self.revision += 1
        for node, value, is_equal, is_unread in changes:
            node.value, node.unread = value, frozenset((node,)) if is_unread else NO_NODES
            if is_equal:
                self.change_unread(node)
            else:
                self.change(node)
            for state in self._input_indexes.get(node.family, ()):
                state.follow(node)
        for node, value, fault in moment_changes:
            node.value, node.fault = value, fault
            self.change(node)

    def change(self, node: Node) -> None:
        """Mark the readers of `node`, whose value has changed, as DIRTY, and all indirect readers as CHECK."""
        node.changed_at = self.revision
        self._mark_readers(node, DIRTY)

    def change_unread(self, node: Node) -> None:
        """Mark the readers of `node`, whose unread inputs have changed, but not its value.

        No reader computes its value again, because queries see values only.
        """
        node.changed_at = self.revision
        for reader in node.readers:
            if isinstance(reader, Node):
                reader.is_unread_stale = True
        self._mark_readers(node, CHECK)

    def _mark_readers(self, node: Node, state: int) -> None:
        """Mark the readers of `node` with `state`, and all indirect readers with CHECK, up to indexes and roots.

        The marks stop at a node that is already marked, because the readers of such a node are marked too.
        """
        marks, pending = self.cost.marks, [node]
        while pending:
            for reader in pending.pop().readers:
                if reader.mark(state) and isinstance(reader, Node):
                    marks[reader.family.name] += 1
                    pending.append(reader)
            if state == DIRTY:
                state = CHECK

    # -- Questions

    def read(self, family: Any, args: tuple[Any, ...]) -> Any:
        """Return the value of the declaration `family` with these arguments.

        Raises: Fault if the query failed, OutOfTurn.
        """
        if self._frames:
            return self._read_inside(family, args)
        self.settle()
        with self._turn():
            return self._value_of(self._obtain_current(family, args))

    def answer(self, family: Query[Any, V], *args: Any) -> Answer[tuple[Any, ...], V]:
        """Return the value or the fault of the query `family` with these arguments, and the unread inputs behind it."""
        self.settle()
        with self._turn():
            return self._answer(args, self._obtain_current(family, args))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let the block read many values. What one read has computed stays for the other reads of the block.

        The block may not set inputs.
        """
        self.settle()
        with self._turn():
            self._frames.append({})
            try:
                yield
            finally:
                for node in self._frames.pop():
                    self.release(node)

    def changed(self, roots: Roots[K, V]) -> Iterator[Answer[K, V]]:
        """Yield the answer of each root whose result differs from the last reported result.

        Each step settles the indexes that the roots may read, and computes one root. So the caller can let other tasks
        run between two steps. The answers include changes between two steps.

        Raises: OutOfTurn if a root reads an index whose order is not lower than the order of the roots.
        """
        family = self._roots.setdefault(roots, RootFamily(roots))
        while True:
            self.settle(roots.order)
            with self._turn():
                member = family.take_changed(self)
                if member is None:
                    return
                is_gone = member.key not in family.members
                found: Answer[Any, Any] = (
                    Answer(member.key, None, frozenset(), None, True)
                    if is_gone
                    else self._answer_of_root(roots, member.key, member.node)
                )
            self.cost.reports[roots.name] += 1
            yield found

    def prepare(self, *indexes: QueryIndex[Any, Any, Any, Any]) -> None:
        """Settle *indexes* with the other indexes, and not all their members at once when the first entry is read."""
        for index in indexes:
            if index not in self._indexes:
                self._add_index(index)

    def refreshing(self, roots: Roots[Any, Any]) -> Generator[None]:
        """Bring roots up to date, with the indexes that they read, one member in each step. `changed` reports them.

        Before the last step, the caller may neither set inputs nor read values. See `changed` for the errors.
        """
        yield from self.settling(roots.order)
        with self._turn():
            yield from self._roots.setdefault(roots, RootFamily(roots)).refreshing(self)

    def answer_of(self, roots: Roots[K, V], key: K) -> Answer[K, V]:
        """Return the answer of one root, whether its result has changed or not. See `changed` for the errors."""
        self.settle(roots.order)
        with self._turn():
            family = self._roots.get(roots)
            member = family.members.get(key) if family else None
            if family and member:
                family.refresh(self, member)
            node = member.node if member else self._obtain_current(roots.result, (key,))
            return self._answer_of_root(roots, key, node)

    def settle(self, order: int | None = None) -> None:
        """Bring indexes up to date, and drop released nodes that nothing reads.

        Args:
            order: order below which indexes are settled, or None for all indexes. See `settling`.
        """
        for _ in self.settling(order):
            pass

    def settling(self, order: int | None = None) -> Generator[None]:
        """Settle the graph, one member in each step.

        Before the last step, the caller may neither set inputs nor read values.
        """
        states = [state for state in self._indexes.values() if order is None or state.order < order]
        if not self._released and all(state.is_settled for state in states):
            return
        with self._turn():
            for state in sorted(states, key=lambda state: state.order):
                if not state.is_settled:
                    yield from state.settle(self)
            self._drop_released()

    def end_round(self) -> None:
        """Drop the values of volatile queries, but keep their digests and edges."""
        for node in self._volatile:
            if node.state == CLEAN and node.fault is None:
                node.kept_digest, node.value = node.family.digest(node.value), ABSENT
        self._volatile = {node: None for node in self._volatile if node.value is not ABSENT}

    def verify(self, count: int) -> list[str]:
        """Compute up to `count` results again, and return the names of the nodes whose results differ.

        The function marks these nodes, so that the next read recomputes them. Successive calls cover the whole graph.
        """
        self.settle()
        if not self._to_verify:
            self._to_verify = [node for nodes in self._nodes.values() for node in nodes.values()]
        mismatches = []
        with self._turn():
            while self._to_verify and count > 0:
                node = self._to_verify.pop()
                is_kept = self._nodes.get(node.family, {}).get(node.args) is node
                if not is_kept or not isinstance(node.family, Query) or node.state != CLEAN:
                    continue
                count -= 1
                if not self._is_reproducible(node):
                    mismatches.append(repr(node))
                    node.state, node.kept_digest = DIRTY, ABSENT
                    self.revision += 1
                    self._mark_readers(node, CHECK)
        return mismatches

    # -- Evaluation

    def obtain(self, family: Any, args: tuple[Any, ...]) -> Node:
        """Return the node of the declaration `family` with these arguments. If no such node exists, make the node."""
        nodes = self._nodes.get(family)
        if nodes is None:
            nodes = self._nodes[family] = {}
        node = nodes.get(args)
        if node is None:
            node = nodes[args] = self._create(family, args)
        return node

    def find(self, key: InputKey[Any]) -> Node | None:
        """Return the node of an input, or None if nobody has set or read the input."""
        return self._nodes.get(key.family, {}).get(key.args)

    def contributors(self, node: Node) -> Iterator[Node]:
        """Yield the members that contribute to the entry of an index. No other node has members."""
        if state := self._indexes.get(node.family):  # type: ignore[call-overload]
            (entry,) = node.args
            yield from (member.node for member in state.members.values() if entry in member.contributions)

    def entries_of(self, index: QueryIndex[Any, Any, Any, Any]) -> Mapping[tuple[Any], Node]:
        """Return the node of each entry of `index` that has readers, by a tuple that holds only the entry."""
        return self._nodes.get(index, {})

    def refresh(self, node: Node) -> None:
        """Make the value of `node` current.

        The check follows the order in which `node` read other nodes. If one of these nodes has changed, the graph
        recomputes `node`. The check is iterative, so that chains of a thousand queries do not exceed the recursion
        limit.
        """
        if node.state == CLEAN:
            return
        checks = self.cost.checks
        stack = [(node, iter(node.reads))]
        node.is_busy = True
        try:
            while stack:
                current, reads = stack[-1]
                if current.state == CHECK and (pending := self._first_marked(current, reads)) is not None:
                    checks[pending.family.name] += 1
                    pending.is_busy = True
                    stack.append((pending, iter(pending.reads)))
                    continue
                if current.state == DIRTY:
                    self._evaluate(current)
                elif current.is_unread_stale:
                    self._update_unread(current)
                # Marks cannot pass a cycle in any order, so the faults of its nodes are computed again each time.
                current.state = DIRTY if current.is_in_cycle else CLEAN
                current.is_busy = False
                stack.pop()
        finally:
            for left, _ in stack:
                left.is_busy = False

    def release(self, node: Node) -> None:
        """Drop `node` at the next settling of the graph, unless a node reads `node` by then."""
        if not node.is_needed:
            self._released[node] = None

    def fail(self, node: Node, error: Exception) -> Fault:
        """Return a fault of `node` with a new number for `error`, and log the fault.

        If `node` already has a fault with an equal error, return that fault.
        """
        if node.fault is not None and repr(node.fault.__cause__) == repr(error):
            return node.fault
        self._fault_count += 1
        fault = Fault(self._fault_count, repr(node), error)
        _log.error("%s", fault, exc_info=error)
        return fault

    def _obtain_current(self, family: Any, args: tuple[Any, ...]) -> Node:
        """Return the node of a declaration, with the current value, for a reader outside of the graph."""
        node = self.obtain(family, args)
        self.refresh(node)
        self.release(node)
        return node

    def _first_marked(self, node: Node, reads: Iterator[Node]) -> Node | None:
        """Return the next marked node in `reads`, or None if no node is marked or `node` has become dirty."""
        for dependency in reads:
            if dependency.state != CLEAN:
                if dependency.is_busy:  # A cycle: computing the node again raises CyclicQuery, which becomes its fault.
                    node.state = DIRTY
                    return None
                return dependency
            if node.state == DIRTY:
                return None
        return None

    def _create(self, family: Any, args: tuple[Any, ...]) -> Node:
        if isinstance(family, Query):
            return Node(family, args, ABSENT, DIRTY)
        if isinstance(family, Input):
            node = Node(family, args, family.initial, CLEAN)
            self._are_proofs_used |= family.is_proof
            if family.starts_unread:
                node.unread = frozenset((node,))
            return node
        if isinstance(family, TimedQuery):
            node = Node(family, args, ABSENT, CLEAN)
            node.value, node.fault = self._moments.begin(node, self.fail)
            return node
        return self._create_entry(family, args)

    def _create_entry(self, index: QueryIndex[Any, Any, Any, Any], args: tuple[Any, ...]) -> Node:
        state = self._indexes.get(index)
        if state is None:
            state = self._add_index(index)
            for _ in state.settle(self):
                pass
        (entry,) = args
        node = Node(index, args, state.current(entry), CLEAN)
        node.depth, node.fault, node.unread = index.order, state.keys_fault, state.unread_behind(entry)
        return node

    def _add_index(self, index: QueryIndex[Any, Any, Any, Any]) -> IndexState:
        state = self._indexes[index] = IndexState(index)
        if isinstance(index.members, Input):
            self._input_indexes.setdefault(index.members, []).append(state)
            for node in self._nodes.get(index.members, {}).values():
                state.follow(node)
        return state

    def _read_inside(self, family: Any, args: tuple[Any, ...]) -> Any:
        """Return a value to the query in progress, and record that the query depends on the value.

        Raises: CyclicQuery, Fault, OutOfTurn.
        """
        node = self.obtain(family, args)
        self._frames[-1][node] = None
        if node.is_busy:
            raise CyclicQuery("a query depends on its own result; remove the cycle")
        if node.state != CLEAN:
            self.refresh(node)
        if node.has_proofs:
            raise OutOfTurn(f"{node!r} reads a proof, which only a root may do; move the read to a root")
        return self._value_of(node)

    def _value_of(self, node: Node) -> Any:
        if node.fault is not None:
            raise node.fault
        if node.value is ABSENT:
            node.value, _, _ = self._run(node)
            self._volatile[node] = None
        return node.value

    def _evaluate(self, node: Node) -> None:
        value, fault, reads = self._run(node)
        if self._are_proofs_used:
            proofs = [read for read in reads if isinstance(read.family, Input) and read.family.is_proof]
            if proofs and self._drop_stale_proofs(proofs, reads):
                value, fault, reads = self._run(node)
            node.has_proofs = bool(proofs)
        self._connect(node, tuple(reads))
        is_first = node.value is ABSENT and node.kept_digest is ABSENT and node.fault is None
        if is_first or fault is not node.fault or not self._holds(node, value, fault):
            node.value, node.fault, node.unread, node.kept_digest = value, fault, _unread_behind(node, reads), ABSENT
            node.is_unread_stale = False
            self.change(node)
        else:
            if node.value is ABSENT and fault is None:
                node.value = value
            self._update_unread(node)
        if isinstance(node.family, Query) and node.family.is_volatile:
            self._volatile[node] = None

    def _update_unread(self, node: Node) -> None:
        """Bring the unread inputs behind `node` up to date, whose value is current."""
        node.is_unread_stale = False
        unread = _unread_behind(node, node.reads)
        if unread != node.unread:
            node.unread = unread
            self.change_unread(node)

    def _run(self, node: Node) -> tuple[Any, Fault | None, dict[Node, None]]:
        """Compute the query of `node`, and return its result, its fault, and the nodes that it read."""
        frame: dict[Node, None] = {}
        self._frames.append(frame)
        was_busy, node.is_busy = node.is_busy, True
        begun = self.elapsed()
        try:
            value, fault = node.family.function(self, *node.args), None  # type: ignore[attr-defined]
        except Fault as below:
            value, fault = ABSENT, below
        except Exception as error:
            value, fault = ABSENT, self.fail(node, error)
        finally:
            node.is_busy = was_busy
            self._frames.pop()
        self.cost.note_evaluation(node, self.elapsed() - begun)
        return value, fault, frame

    def _holds(self, node: Node, value: Any, fault: Fault | None) -> bool:
        """Return whether the new result of `node` is equivalent to its previous result."""
        if fault is not None:
            return True
        family: Any = node.family
        if node.value is ABSENT:
            return bool(family.digest(value) == node.kept_digest)
        if family.is_volatile:
            return bool(family.digest(value) == family.digest(node.value))
        return bool(family.same(node.value, value))

    def _drop_stale_proofs(self, proofs: Sequence[Node], reads: Iterable[Node]) -> bool:
        """Make unread each of `proofs` that is older than another node in `reads`.

        Return whether the function has found such a proof.
        """
        newest = max((read.changed_at for read in reads if read not in proofs), default=0)
        stale = [proof for proof in proofs if not proof.unread and proof.changed_at < newest]
        for proof in stale:
            proof.value, proof.unread = proof.family.initial, frozenset((proof,))  # type: ignore[attr-defined]
            self.change(proof)
        return bool(stale)

    def _connect(self, node: Node, reads: tuple[Node, ...]) -> None:
        """Replace the edges of `node` by edges to `reads`, the nodes that the last computation of `node` read."""
        node.depth = max((read.depth for read in reads), default=0)
        if reads == node.reads:
            return
        before, after = set(node.reads), set(reads)
        for read in reads:
            if read not in before:
                read.add_reader(node)
        for read in node.reads:
            if read not in after:
                read.remove_reader(node)
                self.release(read)
        node.reads = reads

    def _is_reproducible(self, node: Node) -> bool:
        value, fault, reads = self._run(node)
        if fault is not None or node.fault is not None:
            return fault is not None and node.fault is not None
        return _unread_behind(node, reads) == node.unread and self._holds(node, value, fault)

    def _drop_released(self) -> None:
        while self._released:
            node, _ = self._released.popitem()
            if node.is_needed:
                continue
            family: Any = node.family
            if isinstance(family, Input) and not family.is_unset(node):
                continue
            nodes = self._nodes.get(family)
            if nodes is None or nodes.get(node.args) is not node:
                continue
            del nodes[node.args]
            self._moments.end(node)
            self._volatile.pop(node, None)
            for read in node.reads:
                read.remove_reader(node)
                self.release(read)

    def _answer_of_root(self, roots: Roots[Any, Any], key: Any, node: Node) -> Answer[Any, Any]:
        if node.depth >= roots.order:
            raise OutOfTurn(f"root {key!r} of {roots.name} reads an index of order {node.depth}; raise the order")
        return self._answer(key, node)

    def _answer(self, key: Any, node: Node) -> Answer[Any, Any]:
        value = None if node.fault is not None else self._value_of(node)
        return Answer(key, value, node.unread, node.fault, False)

    # -- Turns

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._refuse_out_of_turn()
        self._is_in_turn = True
        try:
            yield
        finally:
            self._is_in_turn = False

    def _refuse_out_of_turn(self) -> None:
        if self._is_in_turn or self._frames:
            raise OutOfTurn("the graph is computing a value; set inputs and read values after it has finished")


def _unread_behind(node: Node, reads: Iterable[Node]) -> frozenset[Node]:
    """Return the unread inputs that count for the result of the query of `node`, which has read `reads`."""
    return NO_NODES if node.family.hides_unread else union_of_unread(reads)  # type: ignore[attr-defined]
