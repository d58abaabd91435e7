"""All histories of the model at once: the same protocol and the same checks as `model.explore`, over far fewer states.

- *Open histories*: what a commit finds does not depend on how it came about. So each commit starts from all states that any commits before it
  can leave; `Live.commit` is 1 for the commit that is explored and 0 for all before it.
- *Whole rounds*: commits, finalizers and health come between rounds, of which any part is carried out. In the middle of one they change nothing
  that its writes look at, or make the checks easier. A person is the exception, and comes in the middle, too.
- *Names*: of states that differ in the names of the objects only, one is explored; likewise while a commit is explored, of names that make no
  difference to its graph.
- *The last commit*: nothing comes after it, so of what objects use and record only that counts which may still be deleted (`forgotten`).
- *The person*: who has come does not come again, and from then on less is checked. So a state after that is explored only where the same one does
  not come about without him (`explore_one`).

`test_reduction.py` holds all this against the unreduced model where that is small enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, permutations
from typing import Any

from tests.support.faults.graphs import Graph, graphs, renamed, wanted
from tests.support.faults.model import (
    ALL,
    Breach,
    Found,
    Live,
    ModelWrite,
    Rules,
    Slot,
    State,
    carried_out,
    check_rest,
    decide,
    meddling,
    meddling_with,
    passing,
    path,
    reached,
)

Names = tuple[int, ...]
"""For each object its new name."""

Visit = Callable[[Graph, State], None]

Explored = Callable[[int, int, int, int], None]
"""Of which commit (from 1) how many graphs, out of how many, were explored, and how many states were met by then."""

_NUMBERS = itertools.count()


def explore_all(
    size: int,
    commits: int,
    rules: Rules = ALL,
    *,
    meddle: bool,
    forget: bool = True,
    visit: Visit = lambda graph, state: None,
    explored: Explored = lambda commit, graphs, of, states: None,
) -> Found:
    """All histories of so many commits over up to `size` objects. `visit` is shown each state of the last commit; `forget`: as the last two points
    above say. `explored` hears how far it has come.
    """
    boundary = {State((None,) * size, commit=1)}
    states = 0
    for commit in range(commits):
        is_last = commit == commits - 1
        starts = Starts(boundary, forget=forget and is_last)
        left: set[State] = set()
        every = shapes(size)
        for number, graph in enumerate(every, 1):
            fades = wanted(graph) if forget and is_last else None
            form = partial(_formed, fades=fades, alike=Alike(automorphisms(graph)))
            begin = map(form, starts.of(graph))
            found, seen = explore_one(graph, begin, rules, form=form, meddle=meddle, forget=forget)
            states += found.states
            explored(commit + 1, number, len(every), states)
            if found.breach:
                return replace(found, states=states)
            for state in seen if is_last else ():
                visit(graph, state)
            left |= {_past(state) for state in seen} if not is_last else set()
        boundary = set(map(Alike(list(permutations(range(size)))).first, left))
    return Found(states)


def automorphisms(graph: Graph) -> list[Names]:
    """The names that leave the graph as it is."""
    return [names for names in permutations(range(len(graph))) if renamed([graph], names) == (graph,)]


def shapes(size: int) -> list[Graph]:
    """All graphs but for names. The commit wants the first of the objects."""
    return [
        graph
        for graph in graphs(size)
        if graph == min((renamed([graph], names)[0] for names in permutations(range(size))), key=_graph_order)
    ]


def _graph_order(graph: Graph) -> list[list[int]]:
    return [[len(graph)] if uses is None else [-1, *sorted(uses)] for uses in graph]


def explore_one(
    graph: Graph,
    starts: Iterable[State],
    rules: Rules,
    *,
    form: Callable[[State], State],
    meddle: bool,
    forget: bool,
) -> tuple[Found, Iterable[State]]:
    """All states between rounds, each in its `form`, that this commit can lead to from any of `starts`, and what was found. First what comes about
    without a person; to `forget` is to leave out what he brings about no more than that.
    """
    seen: dict[State, tuple[State, str] | None] = dict.fromkeys(starts)
    without: set[tuple[object, ...]] = set()
    for meddled in (False, True):
        if meddled and forget:
            without = {_apart_from_person(state) for state in seen if not state.meddled}
            seen = {s: way for s, way in seen.items() if not s.meddled or _apart_from_person(s) not in without}
        pending = [state for state in seen if state.meddled == meddled]
        while pending:
            state = pending.pop()
            try:
                for name, step in _steps(state, graph, rules, meddle=meddle):
                    after = form(step)
                    if after not in seen and _apart_from_person(after) not in without:
                        seen[after] = (state, name)
                        if after.meddled == meddled:
                            pending.append(after)
            except Breach as breach:
                steps, start = path(seen, state), _start(seen, state)
                return Found(len(seen), f"{breach}, from {start} with {graph}", steps), seen
    return Found(len(seen)), seen


def _formed(state: State, *, fades: frozenset[int] | None, alike: Alike) -> State:
    return alike.first(state if fades is None else fading(state, fades))


def _apart_from_person(state: State) -> tuple[object, ...]:
    return state.slots, state.scope


def _start(seen: dict[State, tuple[State, str] | None], state: State) -> State:
    while found := seen[state]:
        state = found[0]
    return state


def _steps(state: State, graph: Graph, rules: Rules, *, meddle: bool) -> Iterator[tuple[str, State]]:
    """What may happen next, up to the end of a round. Raises Breach."""
    yield from passing(state)
    if meddle:
        yield from meddling(state)
    writes = decide(state, graph, rules)
    if not writes:
        check_rest(state, graph)
    for part in _parts(writes):
        yield from _round(state, part, graph, rules)
    if meddle and not state.meddled:
        yield from _disturbed(state, writes, graph, rules)


def _disturbed(state: State, writes: frozenset[ModelWrite], graph: Graph, rules: Rules) -> Iterator[tuple[str, State]]:
    """Rounds in the middle of which a person comes. What is written elsewhere before that may as well be written after it."""
    for node in range(len(graph)):
        there = frozenset(write for write in writes if write.node == node)
        for before in {frozenset(), there}:
            middle = dict(_round(state, before, graph, rules)) if before else {"": state}
            for name, now in middle.items():
                for meddled, after in meddling_with(now, node):
                    for part in _parts(writes - before):
                        for rest, end in _round(after, part, graph, rules):
                            yield ", ".join(filter(None, (name, meddled, rest))), end


def _round(state: State, writes: Iterable[ModelWrite], graph: Graph, rules: Rules) -> Iterator[tuple[str, State]]:
    for write in writes:
        state = carried_out(state, write, (graph, graph), rules)
    yield ", ".join(map(str, writes)), state


def _parts(writes: frozenset[ModelWrite]) -> Iterator[tuple[ModelWrite, ...]]:
    for count in range(1, len(writes) + 1):
        yield from combinations(writes, count)


def _past(state: State) -> State:
    """As the next commit finds it."""
    return state._replace(
        commit=1, slots=tuple(slot._replace(commit=0) if isinstance(slot, Live) else slot for slot in state.slots)
    )


class Starts:
    """What a commit may find, under as many names as its graph can tell apart."""

    def __init__(self, boundary: Iterable[State], *, forget: bool) -> None:
        self._boundary = set(boundary)
        self._forget = forget
        self._forgotten: dict[int, set[State]] = {}

    def of(self, graph: Graph) -> set[State]:
        count = sum(uses is not None for uses in graph)
        every, same = list(permutations(range(len(graph)))), automorphisms(graph)
        if self._forget and count not in self._forgotten:
            self._forgotten[count] = set(_forgotten_all(self._boundary, count))
        states = self._forgotten[count] if self._forget else self._boundary
        apart = [names for names in _keeping(count, len(graph)) if self._forget] or every
        firsts = [names for names in apart if names == min(tuple(other[name] for name in names) for other in same)]
        return {renamed_state(state, names) for names in firsts for state in states}


def _keeping(count: int, size: int) -> list[Names]:
    """Names that leave the first so many objects among themselves."""
    return [(*first, *rest) for first in permutations(range(count)) for rest in permutations(range(count, size))]


def _forgotten_all(boundary: Iterable[State], count: int) -> Iterator[State]:
    """What a commit that wants the first so many objects may find."""
    found = set()
    for state in boundary:
        nodes = range(len(state.slots))
        for firsts in combinations(nodes, count):
            order = [*firsts, *(node for node in nodes if node not in firsts)]
            names = tuple(order.index(node) for node in nodes)
            found.add(forgotten(renamed_state(state, names), frozenset(range(count))))
    return map(Alike(_keeping(count, len(nodes))).first, found)


def forgotten(state: State, wanted: frozenset[int]) -> State:
    """Without what makes no difference when nothing comes after a commit that wants these.

    Orphans are deleted, nothing else is. So records of use of others do not count; nor does use of others, unless it may be part of a circle with
    an orphan; nor a scope in which nothing is or will be; nor how deep those are that stay.
    """
    found = fading(state, wanted)
    orphans = frozenset(node for node, slot in enumerate(found.slots) if isinstance(slot, Live)) - wanted
    slots = tuple(
        slot._replace(recorded=slot.recorded & orphans) if isinstance(slot, Live) else slot for slot in found.slots
    )
    return found._replace(slots=slots, scope=found.scope & (wanted | orphans))


def fading(state: State, wanted: frozenset[int]) -> State:
    """The same in the middle of that commit: it still has to put right what it records itself, and the scope."""
    using = tuple(slot.using if isinstance(slot, Live) else None for slot in state.slots)
    orphans, counting = _counting(using, wanted)
    slots = tuple(
        _without(slot, orphans, counts, is_orphan=node not in wanted)
        for node, (slot, counts) in enumerate(zip(state.slots, counting, strict=True))
    )
    return State(slots, state.scope, state.commit, state.round, state.meddled)


@cache
def _counting(
    using: tuple[frozenset[int] | None, ...], wanted: frozenset[int]
) -> tuple[frozenset[int], tuple[frozenset[int], ...]]:
    """The orphans of objects that use these, and for each object the use of which others still counts."""
    live = frozenset(node for node, used in enumerate(using) if used is not None)
    orphans = live - wanted
    uses = {node: {*(using[node] or ()), *(wanted if node in wanted else ())} for node in wanted | live}
    users = {node: {user for user in uses if node in uses[user]} for node in range(len(using))}
    below, above = (orphans.union(*(reached(edges, orphan) for orphan in orphans)) for edges in (uses, users))
    return orphans, tuple(orphans | (above if node in below else frozenset()) for node in range(len(using)))


@cache
def _without(slot: Slot, orphans: frozenset[int], counting: frozenset[int], *, is_orphan: bool) -> Slot:
    if not isinstance(slot, Live):
        return slot
    wants, using, level = slot.wants & counting, slot.using & counting, slot.level if is_orphan else 0
    recorded = slot.recorded if slot.commit else slot.recorded & orphans
    return slot._replace(wants=wants, using=using, recorded=recorded, level=level)


class Alike:
    """Which of the states that differ in some names only stands for all of them."""

    def __init__(self, names: Sequence[Names]) -> None:
        self._names = names
        self._nodes = [tuple(map(one.index, range(len(one)))) for one in names]
        self._ranks: dict[Slot | frozenset[int], tuple[Any, ...]] = {}

    def first(self, state: State) -> State:
        ranks, scopes = [self._rank(slot) for slot in state.slots], self._scope(state.scope)
        keys = [(*[ranks[node][at] for node in nodes], scopes[at]) for at, nodes in enumerate(self._nodes)]
        return renamed_state(state, self._names[keys.index(min(keys))])

    def _rank(self, slot: Slot) -> tuple[int, ...]:
        """The number of a slot under each of the names."""
        if slot not in self._ranks:
            self._ranks[slot] = tuple(_number(_renamed_slot(slot, one)) for one in self._names)
        return self._ranks[slot]

    def _scope(self, scope: frozenset[int]) -> tuple[list[int], ...]:
        if scope not in self._ranks:
            self._ranks[scope] = tuple(sorted(_renamed_set(scope, one)) for one in self._names)
        return self._ranks[scope]


@cache
def _number(_: Slot) -> int:
    """Slots in the order in which they are first met."""
    return next(_NUMBERS)


def renamed_state(state: State, names: Names) -> State:
    if names == tuple(range(len(names))):
        return state
    slots: list[Slot] = [None] * len(names)
    for node, slot in enumerate(state.slots):
        slots[names[node]] = _renamed_slot(slot, names)
    return State(tuple(slots), _renamed_set(state.scope, names), state.commit, state.round, state.meddled)


@cache
def _renamed_slot(slot: Slot, names: Names) -> Slot:
    if not isinstance(slot, Live):
        return slot
    wants, recorded, using = (_renamed_set(some, names) for some in (slot.wants, slot.recorded, slot.using))
    return slot._replace(wants=wants, recorded=recorded, using=using)


@cache
def _renamed_set(nodes: frozenset[int], names: Names) -> frozenset[int]:
    return frozenset(names[node] for node in nodes)
