"""Declarations of the values that a graph holds: inputs, queries, timed queries, indexes and roots.

A declaration is a module-level constant, because a graph recognizes a declaration by identity. A declaration holds no
value. A call of the declaration with a graph and arguments reads the value in that graph. If a query makes the call,
the graph records that the query depends on the value. Arguments are positional and hashable.

An input is unread while its value is missing or doubtful. An unread input still has a value, so queries compute results
from the value. Each result names the unread inputs on which the result depends.

A proof is an input that vouches for the other values that a root reads. For example, a complete list of a kind proves
that the known objects of the kind are all objects. If an object changes after the list, the proof becomes unread.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from gitops.queries.nodes import UNCHANGED

if TYPE_CHECKING:
    from gitops.queries.graph import QueryGraph
    from gitops.queries.nodes import Fault, Node

# Each `__call__` has a parameter `**_`, because PEP 612 permits `P.args` only together with `P.kwargs`. The graph
# ignores keyword arguments.
P = ParamSpec("P")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
# For indexes and roots: K is the key of a member, E an entry, C a contribution, and R the reducer of an entry.
K = TypeVar("K", bound=Hashable)
E = TypeVar("E", bound=Hashable)
C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
R = TypeVar("R", bound="Reducer[Any, Any]")

Same = Callable[[Any, Any], bool]
"""Function of the previous value and a new value that returns whether the values are equivalent.

If the two values are equivalent, the graph does not recompute the readers of the value.
"""

FAILED: Final = ("failed members",)
"""Key of the entry in which each index keeps the faults of its members. `QueryIndex.failed` reads this entry."""


class InputKey(NamedTuple, Generic[V]):
    """Declaration and arguments that name one input of a graph."""

    family: Input[Any, V]
    args: tuple[Any, ...]


class Input(Generic[P, V]):
    """Declaration of values that come from outside of the graph: from Git, the cluster, or the process.

    Before a transaction sets an input, the input has the value `initial`. Every value that is computed from an unread
    input names this input as unread.

    Only a root, or a query that no other query reads, may read a proof. If another value that the query reads has
    changed after the last change of the proof, the computation of the query makes the proof unread. So a proof never
    vouches for a state that is newer than the proof.

    Args:
        name: name in messages and costs.
        initial: value of the input before the first transaction.
        starts_unread: True if the input counts as unread until a transaction sets the input.
        is_proof: True for a proof, which always starts unread.
        same: comparison of a new value with the previous value.
    """

    def __init__(
        self,
        name: str,
        *,
        initial: V,
        starts_unread: bool,
        is_proof: bool = False,
        same: Same = operator.eq,
    ) -> None:
        self.name = name
        self.initial = initial
        self.starts_unread = starts_unread or is_proof
        self.is_proof = is_proof
        self.same = same

    def __call__(self, graph: QueryGraph, *args: P.args, **_: P.kwargs) -> V:
        """Return the value of the input in `graph`. Raises: OutOfTurn."""
        value: V = graph.read(self, args)
        return value

    def at(self, *args: P.args, **_: P.kwargs) -> InputKey[V]:
        """Return the key of the input with these arguments."""
        return InputKey(self, args)

    def digest(self, value: V) -> V:
        return value

    def is_unset(self, node: Node) -> bool:
        """Return whether `node` is in its initial state, so that the graph can drop the node and make it again."""
        return self.is_initial(node.value, bool(node.unread))

    def is_initial(self, value: Any, is_unread: bool) -> bool:
        """Return whether an input with this value, or with its present value, is in its initial state."""
        is_same = value is UNCHANGED or bool(self.same(value, self.initial))
        return is_unread == self.starts_unread and is_same


class Query(Generic[P, V_co]):
    """Declaration of a pure function of inputs and other queries.

    The function returns a result for all arguments. An exception is a programming error: the graph keeps a `Fault` in
    place of the result, and all readers of the query have the same fault.

    The graph keeps the results of the function, which must be immutable. A query with `digest_of` is volatile: after
    `QueryGraph.end_round`, the graph keeps only the digest of its result. If a reader needs the result, the graph
    recomputes the result.

    Args:
        function: function of the graph and the arguments. Its name is the name of the query in messages and costs.
        same: comparison of the previous result with a new result. For a volatile query, the digests decide instead.
        digest_of: digest of a result, which makes the query volatile. Equal digests mean equal results.
        hides_unread: True if the result does not count as unread, whatever the function reads. Use this argument only
            if all readers may rely on a result that later reads can change.
    """

    def __init__(
        self,
        function: Callable[Concatenate[QueryGraph, P], V_co],
        *,
        same: Same = operator.eq,
        digest_of: Callable[[V_co], Any] | None = None,
        hides_unread: bool = False,
    ) -> None:
        self.name = function.__name__
        self.function = function
        self.same = same
        self.is_volatile = digest_of is not None
        self.digest = digest_of or _itself
        self.hides_unread = hides_unread
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __call__(self, graph: QueryGraph, *args: P.args, **_: P.kwargs) -> V_co:
        """Return the result of the query in `graph`.

        Raises: Fault if the query failed, CyclicQuery if the query depends on its own result, OutOfTurn.
        """
        value: V_co = graph.read(self, args)
        return value


@overload
def query(function: Callable[Concatenate[QueryGraph, P], V], /) -> Query[P, V]: ...


@overload
def query(
    *, same: Same = operator.eq, digest_of: Callable[[Any], Any] | None = None, hides_unread: bool = False
) -> Callable[[Callable[Concatenate[QueryGraph, P], V]], Query[P, V]]: ...


def query(
    function: Callable[Concatenate[QueryGraph, P], V] | None = None,
    /,
    *,
    same: Same = operator.eq,
    digest_of: Callable[[Any], Any] | None = None,
    hides_unread: bool = False,
) -> Query[P, V] | Callable[[Callable[Concatenate[QueryGraph, P], V]], Query[P, V]]:
    """Declare the decorated function as a query: `@query`, or `@query(same=..., digest_of=...)`. See `Query`."""
    if function is not None:
        return Query(function)
    return lambda decorated: Query(decorated, same=same, digest_of=digest_of, hides_unread=hides_unread)


class Until(NamedTuple, Generic[V]):
    """Value of a timed query, and the time until which the value holds."""

    value: V
    end: datetime | None
    """First time in UTC at which the value may change, or None for a constant value."""


class TimedQuery(Generic[P, V_co]):
    """Declaration of a pure function of the present time and its arguments.

    The function also returns the time until which its result holds. The function reads no other query. When the result
    no longer holds, the graph recomputes the result. If the clock moves backwards, the graph recomputes all results.

    Args:
        function: function of the present time in UTC and the arguments.
    """

    def __init__(self, function: Callable[Concatenate[datetime, P], Until[V_co]]) -> None:
        self.name = function.__name__
        self.function = function
        self.same: Same = operator.eq
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __call__(self, graph: QueryGraph, *args: P.args, **_: P.kwargs) -> V_co:
        """Return the value of the query at the present time of `graph`.

        Raises: Fault if the query failed, OutOfTurn.
        """
        value: V_co = graph.read(self, args)
        return value

    def digest(self, value: Any) -> Any:
        return value


@TimedQuery
def has_passed(now: datetime, moment: datetime) -> Until[bool]:
    """Return whether the present time is `moment` or later."""
    return Until(True, None) if now >= moment else Until(False, moment)


def recompute_at(graph: QueryGraph, moment: datetime | None) -> None:
    """Let the query that makes the call depend on the time at which its result may change, in UTC.

    If `moment` is None, time alone does not change the result.
    """
    if moment is not None:
        has_passed(graph, moment)


class Reducer(Protocol[K_contra, C_contra]):
    """Value of one entry of an index, with operations that add and remove the contributions of members.

    The graph calls the operations for different members in any order. For one member, the graph removes the earlier
    contribution before it adds another contribution.
    """

    def add(self, member: K_contra, contribution: C_contra) -> None: ...

    def remove(self, member: K_contra, contribution: C_contra) -> None: ...


class Contributions(dict[K, C]):
    """Reducer that holds the contributions to an entry, by key of the member."""

    def add(self, member: K, contribution: C) -> None:
        self[member] = contribution

    def remove(self, member: K, contribution: C) -> None:
        del self[member]


class QueryIndex(Generic[K, E, C, R]):
    """Declaration of an aggregate over the results that one query has for many members.

    If the result of a member changes, the graph updates the aggregate. The graph then marks only the readers of entries
    to which the contribution of the member has changed. The value of an entry is a reducer that changes in place. So
    readers copy the data that they need and keep no reference to the reducer.

    If a member depends on unread inputs, the member may contribute to any entry after the inputs are read. With
    `spreads_unread`, every entry then counts as unread. Otherwise, only the entries to which the member contributes now
    count as unread. A root that relies on one of the other entries then has to read a proof as well. The graph does not
    check that the root reads the proof.

    Args:
        name: name in messages and costs.
        order: place in the order in which indexes settle, the lowest first. A member may read only indexes of lower
            orders. The order 0 stands for a value that reads no index, so the lowest order of an index is 1.
        members: query for the keys of the members, or a declaration of inputs with one argument. The arguments of all
            inputs that the graph holds are then the members, except inputs in their initial state.
        contributions: query for the contributions of a member, by entry.
        new_entry: function that returns an empty reducer.
        spreads_unread: True if a member with unread inputs makes every entry unread.
        same: comparison of a new contribution with the previous contribution.

    Raises: ValueError if `order` is below 1.
    """

    def __init__(
        self,
        name: str,
        *,
        order: int,
        members: Query[[], Set[K]] | Input[[K], Any],
        contributions: Query[[K], Mapping[E, C]],
        new_entry: Callable[[], R],
        spreads_unread: bool,
        same: Same = operator.eq,
    ) -> None:
        if order < 1:
            raise ValueError(f"index {name} has the order {order}; give it an order of at least 1")
        self.name = name
        self.order = order
        self.members = members
        self.contributions = contributions
        self.new_entry = new_entry
        self.spreads_unread = spreads_unread
        self.same = same

    def __call__(self, graph: QueryGraph, entry: E) -> R:
        """Return the reducer of an entry, or an empty reducer for an entry without contributions.

        Raises: Fault if the query for the keys of the members failed, OutOfTurn.
        """
        value: R = graph.read(self, (entry,))
        return value

    def contribution_of(self, graph: QueryGraph, member: K, entry: E) -> C | None:
        """Return the contribution of one member to an entry that holds `Contributions`, or None if there is none.

        Raises: Fault of the member, and of the query for the keys of the members, OutOfTurn.
        """
        found: Mapping[K, C] = graph.read(self, (entry,))
        if member in found:
            return found[member]
        if fault := self.failed(graph).get(member):
            raise fault
        return None

    def failed(self, graph: QueryGraph) -> Mapping[K, Fault]:
        """Return the faults of the members whose contributions are unknown, by key of the member.

        The entries lack the contributions of these members. So a query that decides about a deletion has to read the
        faults too.

        Raises: Fault if the query for the keys of the members failed, OutOfTurn.
        """
        value: Mapping[K, Fault] = graph.read(self, (FAILED,))
        return value

    def digest(self, value: R) -> R:
        return value


class Roots(Generic[K, V]):
    """Declaration of queries whose changed results the graph reports: `result` for each key that `members` returns.

    Args:
        name: name in costs.
        order: place among the indexes. A root may read only indexes of lower orders, and only these are brought up to
            date for it.
    """

    def __init__(self, name: str, *, order: int, members: Query[[], Set[K]], result: Query[[K], V]) -> None:
        self.name = name
        self.order = order
        self.members = members
        self.result = result


class Answer(NamedTuple, Generic[K, V]):
    """Result of a root or of another query, with everything that makes the result uncertain.

    If `unread` is not empty or `fault` is not None, a reconciliation may start nothing for the root.
    """

    key: K
    """Key of the root, or arguments of the query."""
    value: V | None
    """Result, or None for a query with a fault and for a former root.

    A result may also be None. To recognize a result, read `fault` and `is_gone`.
    """
    unread_nodes: frozenset[Node]
    """Nodes of the unread inputs on which the result depends."""
    fault: Fault | None
    """Fault of the query, or None for a query with a result and for a former root."""
    is_gone: bool
    """True for a root that is no longer a member."""

    @property
    def unread(self) -> frozenset[InputKey[Any]]:
        """Return the unread inputs on which the result depends."""
        return frozenset(InputKey(node.family, node.args) for node in self.unread_nodes)  # type: ignore[arg-type]

    def unread_of(self, family: Input[Any, Any]) -> list[tuple[Any, ...]]:
        """Return the arguments of the unread inputs of a declaration on which the result depends."""
        return [node.args for node in self.unread_nodes if node.family is family]


def _itself(value: Any) -> Any:
    return value
