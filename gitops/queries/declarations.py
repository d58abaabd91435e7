"""Declarations of what a graph holds: inputs, queries, values of time, indexes and roots.

A declaration is made once, in a module; it holds no value. Calling it with a graph and arguments reads the value there,
and records that whoever is being computed depends on it. Arguments are positional and hashable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from gitops.queries.graph import QueryGraph
    from gitops.queries.nodes import Fault

P = ParamSpec("P")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
K = TypeVar("K", bound=Hashable)
E = TypeVar("E", bound=Hashable)
C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
R = TypeVar("R", bound="Reducer[Any, Any]")

Same = Callable[[Any, Any], bool]
"""A comparison of a value with the one before: if they say the same, nothing behind them is computed again."""

FAILED: Final = ("failed members",)
"""Entry of every index: the faults of its members by key."""


class InputKey(NamedTuple, Generic[V]):
    """One input of a graph, to be set in a transaction."""

    family: Input[Any, V]
    args: tuple[Any, ...]


class Input(Generic[P, V]):
    """Values that come from outside: of Git, the cluster, the process.

    An input that nobody has set has the value `initial`. With `starts_unread` it also counts as unread until it is set:
    every value computed from it says so. A proof (`is_proof`) becomes unread again as soon as a query that reads it is
    marked: it never vouches for a later state than the one that it was read for.
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
        value: V = graph.read(self, args)
        return value

    def at(self, *args: P.args, **_: P.kwargs) -> InputKey[V]:
        """Return the key of one input."""
        return InputKey(self, args)

    def digest(self, value: V) -> V:
        return value


class Query(Generic[P, V_co]):
    """A pure, total function of inputs and other queries. The graph keeps its results, which must be immutable.

    A volatile query (`digest_of`) keeps only a digest of its result between two rounds: an equal digest means an equal
    result, and the result is computed again if a reader needs it.
    """

    def __init__(
        self,
        function: Callable[Concatenate[QueryGraph, P], V_co],
        *,
        same: Same = operator.eq,
        digest_of: Callable[[V_co], Any] | None = None,
    ) -> None:
        self.name = function.__name__
        self.function = function
        self.same = same
        self.is_volatile = digest_of is not None
        self.digest = digest_of or _itself
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __call__(self, graph: QueryGraph, *args: P.args, **_: P.kwargs) -> V_co:
        value: V_co = graph.read(self, args)
        return value


@overload
def query(function: Callable[Concatenate[QueryGraph, P], V], /) -> Query[P, V]: ...


@overload
def query(
    *, same: Same = operator.eq, digest_of: Callable[[Any], Any] | None = None
) -> Callable[[Callable[Concatenate[QueryGraph, P], V]], Query[P, V]]: ...


def query(
    function: Callable[Concatenate[QueryGraph, P], V] | None = None,
    /,
    *,
    same: Same = operator.eq,
    digest_of: Callable[[Any], Any] | None = None,
) -> Query[P, V] | Callable[[Callable[Concatenate[QueryGraph, P], V]], Query[P, V]]:
    """Declare the decorated function as a query: `@query`, or `@query(same=..., digest_of=...)`."""
    if function is not None:
        return Query(function)
    return lambda decorated: Query(decorated, same=same, digest_of=digest_of)


class Until(NamedTuple, Generic[V]):
    """A value that holds before `end`; None: for ever."""

    value: V
    end: datetime | None


class TimedQuery(Generic[P, V_co]):
    """A pure function of the present time and its arguments, which says until when its result holds.

    It reads no other query. The graph computes it again at the end that it named, or when the clock was set back.
    """

    def __init__(self, function: Callable[Concatenate[datetime, P], Until[V_co]]) -> None:
        self.name = function.__name__
        self.function = function
        self.same: Same = operator.eq
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __call__(self, graph: QueryGraph, *args: P.args, **_: P.kwargs) -> V_co:
        value: V_co = graph.read(self, args)
        return value

    def digest(self, value: Any) -> Any:
        return value


@TimedQuery
def has_passed(now: datetime, moment: datetime) -> Until[bool]:
    """Return whether the present time is *moment* or later."""
    return Until(True, None) if now >= moment else Until(False, moment)


class Reducer(Protocol[K_contra, C_contra]):
    """The value of one entry of an index: it takes contributions in and out, in any order."""

    def add(self, member: K_contra, contribution: C_contra) -> None: ...

    def remove(self, member: K_contra, contribution: C_contra) -> None: ...


class Contributions(dict[K, C]):
    """The plain reducer: the contributions to an entry by member."""

    def add(self, member: K, contribution: C) -> None:
        self[member] = contribution

    def remove(self, member: K, contribution: C) -> None:
        del self[member]


class QueryIndex(Generic[K, E, C, R]):
    """An aggregate over a family of queries, kept by difference.

    Each of `members` contributes to the entries that `contributions` names. A change of a member marks only the readers
    of entries to which it contributes something else than before. An entry is a live reducer: readers take from it
    what they need and keep no reference.

    Indexes settle by `order`, the lowest first: a member may read indexes of lower orders only. `spreads_unread` says
    what a member with unread inputs behind it makes unread: every entry, because it may come to contribute to any; or
    only those to which it contributes as things stand, where a proof covers the others.
    """

    def __init__(
        self,
        name: str,
        *,
        order: int,
        members: Query[[], Collection[K]],
        contributions: Query[[K], Mapping[E, C]],
        new_entry: Callable[[], R],
        spreads_unread: bool,
        same: Same = operator.eq,
    ) -> None:
        if order < 1:
            raise ValueError(f"index {name}: the order of an index is 1 or more")
        self.name = name
        self.order = order
        self.members = members
        self.contributions = contributions
        self.new_entry = new_entry
        self.spreads_unread = spreads_unread
        self.same = same

    def __call__(self, graph: QueryGraph, entry: E) -> R:
        value: R = graph.read(self, (entry,))
        return value

    def failed(self, graph: QueryGraph) -> Mapping[K, Fault]:
        """Return the members whose contributions are unknown because of a fault. Guards read it before they act."""
        value: Mapping[K, Fault] = graph.read(self, (FAILED,))
        return value

    def digest(self, value: R) -> R:
        return value


class Roots(Generic[K, V]):
    """Queries whose change is work: one for each of `members`."""

    def __init__(self, name: str, *, members: Query[[], Collection[K]], result: Query[[K], V]) -> None:
        self.name = name
        self.members = members
        self.result = result


class Answer(NamedTuple, Generic[K, V]):
    """What has become of a root. With `unread` inputs behind it, or a fault, nothing may be started for it.

    `value` is None where there is a fault, or where the root `is_gone`.
    """

    key: K
    value: V | None
    unread: frozenset[InputKey[Any]]
    fault: Fault | None
    is_gone: bool


def _itself(value: Any) -> Any:
    return value
