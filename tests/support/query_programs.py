"""Random programs of queries, and an oracle that computes their results from the inputs alone.

A program has three strata of cells. A cell reads inputs, times, cells before it in its stratum or in lower strata, and
entries of the indexes over lower strata. The oracle follows the same rules without a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, Roots, Until, has_passed, query
from gitops.queries.declarations import FAILED, TimedQuery

WIDTH: Final = 4
"""Cells in each stratum."""

STRATA: Final = 3
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
MODULUS: Final = 3
"""Entries of each index: a cell contributes its value to the entry of the remainder."""

Expression = tuple[Any, ...]
Cell = tuple[int, int]
"""Stratum and number."""

number: Input[[int], int] = Input("number", initial=0, starts_unread=False)
looked_up: Input[[int], int] = Input("looked_up", initial=0, starts_unread=True)
is_member: Input[[int, int], bool] = Input("is_member", initial=True, starts_unread=False)

_program: ContextVar[Program] = ContextVar("program")


@TimedQuery
def hour(now: datetime) -> Until[int]:
    start = now.replace(minute=0, second=0, microsecond=0)
    return Until(start.hour, start + timedelta(hours=1))


@dataclass(frozen=True)
class Program:
    """What each cell computes, and which of them are volatile."""

    cells: Mapping[Cell, Expression]
    volatile: frozenset[Cell]

    @contextmanager
    def running(self) -> Any:
        token = _program.set(self)
        try:
            yield
        finally:
            _program.reset(token)


@query
def cell(graph: QueryGraph, stratum: int, place: int) -> int:
    program = _program.get()
    read = durable if (stratum, place) not in program.volatile else fleeting
    return read(graph, stratum, place)


@query
def durable(graph: QueryGraph, stratum: int, place: int) -> int:
    return _evaluated(graph, _program.get().cells[stratum, place])


@query(digest_of=hash)
def fleeting(graph: QueryGraph, stratum: int, place: int) -> int:
    return _evaluated(graph, _program.get().cells[stratum, place])


@query(hides_unread=True)
def hiding(graph: QueryGraph, expression: Expression) -> int:
    return _evaluated(graph, expression)


@query
def noted_of(graph: QueryGraph, place: int) -> Mapping[int, int]:
    value = looked_up(graph, place)
    return {value % MODULUS: value}


noted: Final[QueryIndex[int, int, int, Contributions[int, int]]] = QueryIndex(
    "noted",
    order=1,
    members=looked_up,
    contributions=noted_of,
    new_entry=Contributions[int, int],
    spreads_unread=False,
)


def _evaluated(graph: QueryGraph, expression: Expression) -> int:
    match expression:
        case ("number", place):
            return number(graph, place)
        case ("looked up", place):
            return looked_up(graph, place)
        case ("cell", stratum, place):
            return cell(graph, stratum, place)
        case ("passed", hours):
            return int(has_passed(graph, NOON + timedelta(hours=hours)))
        case ("hour",):
            return hour(graph)
        case ("noted", remainder):
            return sum(noted(graph, remainder).values())
        case ("entry", stratum, remainder):
            return sum(entries[stratum](graph, remainder).values())
        case ("failed", stratum):
            return len(entries[stratum].failed(graph))
        case ("if", condition, then, other):
            return _evaluated(graph, then if _evaluated(graph, condition) else other)
        case ("modulo", inner, divisor):
            return _evaluated(graph, inner) % int(divisor)
        case ("fail unless", inner):
            return 1 // min(1, abs(_evaluated(graph, inner)))
        case ("hide", inner):
            return hiding(graph, inner)
        case ("add", *parts):
            return sum(_evaluated(graph, part) for part in parts)
    raise AssertionError(expression)


def _index(stratum: int) -> QueryIndex[int, int, int, Contributions[int, int]]:
    @query
    def members(graph: QueryGraph) -> frozenset[int]:
        return frozenset(place for place in range(WIDTH) if is_member(graph, stratum, place))

    @query
    def contributed(graph: QueryGraph, place: int) -> Mapping[int, int]:
        value = cell(graph, stratum, place)
        return {value % MODULUS: value}

    members.name, contributed.name = f"members {stratum}", f"contributed {stratum}"
    return QueryIndex(
        f"entries {stratum}",
        order=stratum + 1,
        members=members,
        contributions=contributed,
        new_entry=Contributions[int, int],
        spreads_unread=stratum % 2 == 0,
    )


entries: Final = {stratum: _index(stratum) for stratum in range(STRATA - 1)}


@query
def _all_cells(graph: QueryGraph) -> frozenset[int]:
    return frozenset(place for place in range(STRATA * WIDTH) if is_member(graph, *divmod(place, WIDTH)))


@query
def _root(graph: QueryGraph, place: int) -> int:
    return cell(graph, *divmod(place, WIDTH))


ROOTS: Final = Roots("roots", order=99, members=_all_cells, result=_root)


@dataclass(frozen=True)
class CellOutcome:
    """A value, or None where there is a fault, and the unread inputs behind it."""

    value: int | None
    unread: frozenset[int]


@dataclass
class Oracle:
    """The results of a program, computed from scratch."""

    program: Program
    numbers: dict[int, int] = field(default_factory=dict)
    looked_up: dict[int, int] = field(default_factory=dict)
    doubted: set[int] = field(default_factory=set)
    absent: set[Cell] = field(default_factory=set)
    now: datetime = NOON

    def outcome(self, place: Cell) -> CellOutcome:
        unread: set[int] = set()
        try:
            return CellOutcome(self._value(self.program.cells[place], unread), frozenset(unread))
        except ZeroDivisionError:
            return CellOutcome(None, frozenset(unread))

    @property
    def roots(self) -> dict[int, CellOutcome]:
        cells = ((place, divmod(place, WIDTH)) for place in range(STRATA * WIDTH))
        return {place: self.outcome(cell) for place, cell in cells if cell not in self.absent}

    def _value(self, expression: Expression, unread: set[int]) -> int:
        match expression:
            case ("number", place):
                return self.numbers.get(place, 0)
            case ("looked up", place):
                if place not in self.looked_up or place in self.doubted:
                    unread.add(place)
                return self.looked_up.get(place, 0)
            case ("cell", stratum, place):
                return self._inner((stratum, place), unread)
            case ("passed", hours):
                return int(self.now >= NOON + timedelta(hours=hours))
            case ("hour",):
                return self.now.hour
            case ("noted", remainder):
                # A doubted input with the initial value is as if it was never set.
                values = {key: value for key, value in self.looked_up.items() if value or key not in self.doubted}
                members = {key: value for key, value in values.items() if value % MODULUS == remainder}
                unread |= members.keys() & self.doubted
                return sum(members.values())
            case ("entry", stratum, remainder):
                return sum(self._entry(stratum, remainder, unread))
            case ("failed", stratum):
                return len(self._entry(stratum, FAILED, unread))
            case ("if", condition, then, other):
                return self._value(then if self._value(condition, unread) else other, unread)
            case ("modulo", inner, divisor):
                return self._value(inner, unread) % int(divisor)
            case ("fail unless", inner):
                return 1 // min(1, abs(self._value(inner, unread)))
            case ("hide", inner):
                return self._value(inner, set())
            case ("add", *parts):
                return sum(self._value(part, unread) for part in parts)
        raise AssertionError(expression)

    def _inner(self, place: Cell, unread: set[int]) -> int:
        return self._value(self.program.cells[place], unread)

    def _entry(self, stratum: int, entry: Any, unread: set[int]) -> list[int]:
        contributed = []
        for place in range(WIDTH):
            if (stratum, place) in self.absent:
                continue
            found = self.outcome((stratum, place))
            own_entry = FAILED if found.value is None else found.value % MODULUS
            if entries[stratum].spreads_unread or own_entry == entry:
                unread |= found.unread
            if own_entry == entry:
                contributed.append(found.value or 0)
        return contributed


@cache  # To make a recursive strategy anew for each example takes longer than to draw from it.
def _expressions(stratum: int, place: int) -> st.SearchStrategy[Expression]:
    leaves: list[st.SearchStrategy[Expression]] = [
        st.tuples(st.just("number"), st.integers(0, 3)),
        st.tuples(st.just("looked up"), st.integers(0, 2)),
        st.tuples(st.just("passed"), st.integers(0, 3)),
        st.just(("hour",)),
    ]
    before = [(lower, other) for lower in range(stratum) for other in range(WIDTH)]
    before += [(stratum, other) for other in range(place)]
    if before:
        leaves += [st.sampled_from(before).map(lambda found: ("cell", *found))] * 2
    if stratum:
        leaves.append(st.tuples(st.just("entry"), st.integers(0, stratum - 1), st.integers(0, MODULUS - 1)))
        leaves.append(st.tuples(st.just("failed"), st.integers(0, stratum - 1)))
        leaves.append(st.tuples(st.just("noted"), st.integers(0, MODULUS - 1)))
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.tuples(st.just("if"), inner, inner, inner),
            st.tuples(st.just("modulo"), inner, st.integers(2, 3)),
            st.tuples(st.just("add"), inner, inner),
            st.tuples(st.just("fail unless"), inner),
            st.tuples(st.just("hide"), inner),
        ),
        max_leaves=5,
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw what each cell computes."""
    cells = {
        (stratum, place): draw(_expressions(stratum, place)) for stratum in range(STRATA) for place in range(WIDTH)
    }
    return Program(cells, frozenset(draw(st.sets(st.sampled_from(sorted(cells)), max_size=4))))
