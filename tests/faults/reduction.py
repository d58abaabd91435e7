"""All histories of the model at once: the same protocol and the same checks as `model.explore`, over far fewer states.

- *Open histories*: what a commit finds does not depend on how it came about. So each commit starts from all states that any commits before it
  can leave; `Live.commit` is 1 for the commit that is explored and 0 for all before it.
- *Whole rounds*: commits, finalizers and health come between rounds, of which any part is carried out. In the middle of one they change nothing
  that its writes look at, or make the checks easier. A person is the exception, and comes in the middle, too.
- *Names*: of states that differ in the names of the objects only, one is explored.
- *The last commit*: nothing comes after it, so of what objects use and record only that counts which may still be deleted (`forgotten`).

`test_reduction.py` holds all this against the unreduced model where that is small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations

from tests.faults.graphs import Graph, graphs, renamed
from tests.faults.model import (
    ALL,
    Breach,
    Foreign,
    Found,
    Live,
    Rules,
    Slot,
    State,
    Write,
    carried_out,
    check_rest,
    decide,
    meddling,
    passing,
    path,
    reached,
)

Names = tuple[int, ...]
"""For each object its new name."""

Visit = Callable[[Graph, State], None]


def explore_all(
    size: int,
    commits: int,
    rules: Rules = ALL,
    *,
    meddle: bool,
    forget: bool = True,
    visit: Visit = lambda graph, state: None,
) -> Found:
    """All histories of so many commits over up to `size` objects. `visit` is shown each state of the last commit; `forget`: as the last point above
    says.
    """
    boundary = {State((None,) * size, commit=1, meddled=not meddle)}
    states = 0
    for commit in range(commits):
        is_last = commit == commits - 1
        starts = Starts(boundary, forget=forget and is_last)
        left: set[State] = set()
        for graph in shapes(size):
            found, seen = explore_one(graph, starts.of(graph), rules)
            states += found.states
            if found.breach:
                return replace(found, states=states)
            for state in seen if is_last else ():
                visit(graph, state)
            left |= {_past(state) for state in seen} if not is_last else set()
        every = list(permutations(range(size)))
        boundary = {canonical(state, every) for state in left}
    return Found(states)


def shapes(size: int) -> list[Graph]:
    """All graphs but for names. The commit wants the first of the objects."""
    return [
        graph
        for graph in graphs(size)
        if graph == min((renamed([graph], names)[0] for names in permutations(range(size))), key=_graph_order)
    ]


def _graph_order(graph: Graph) -> list[list[int]]:
    return [[len(graph)] if uses is None else [-1, *sorted(uses)] for uses in graph]


def explore_one(graph: Graph, starts: Iterable[State], rules: Rules) -> tuple[Found, Iterable[State]]:
    """All states between rounds that this commit can lead to from any of `starts`, and what was found."""
    seen: dict[State, tuple[State, str] | None] = dict.fromkeys(starts)
    pending = list(seen)
    while pending:
        state = pending.pop()
        try:
            for name, after in _steps(state, graph, rules):
                if after not in seen:
                    seen[after] = (state, name)
                    pending.append(after)
        except Breach as breach:
            steps, start = path(seen, state), _start(seen, state)
            return Found(len(seen), f"{breach}, from {start} with {graph}", steps), seen
    return Found(len(seen)), seen


def _start(seen: dict[State, tuple[State, str] | None], state: State) -> State:
    while found := seen[state]:
        state = found[0]
    return state


def _steps(state: State, graph: Graph, rules: Rules) -> Iterator[tuple[str, State]]:
    """What may happen next, up to the end of a round. Raises Breach."""
    yield from passing(state)
    yield from meddling(state)
    writes = decide(state, graph, rules)
    if not writes:
        check_rest(state, graph)
    for part in _parts(writes):
        yield from _round(state, part, graph, rules)
    if not state.meddled:
        yield from _disturbed(state, writes, graph, rules)


def _disturbed(state: State, writes: frozenset[Write], graph: Graph, rules: Rules) -> Iterator[tuple[str, State]]:
    """Rounds in the middle of which a person comes. What is written elsewhere before that may as well be written after it."""
    for node in range(len(graph)):
        there = frozenset(write for write in writes if write.node == node)
        for before in {frozenset(), there}:
            middle = dict(_round(state, before, graph, rules)) if before else {"": state}
            for name, now in middle.items():
                for meddled, after in meddling(now):
                    if after.slots[node] != now.slots[node]:
                        for part in _parts(writes - before):
                            for rest, end in _round(after, part, graph, rules):
                                yield ", ".join(filter(None, (name, meddled, rest))), end


def _round(state: State, writes: Iterable[Write], graph: Graph, rules: Rules) -> Iterator[tuple[str, State]]:
    for write in writes:
        state = carried_out(state, write, (graph, graph), rules)
    yield ", ".join(map(str, writes)), state


def _parts(writes: frozenset[Write]) -> Iterator[tuple[Write, ...]]:
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
        every = list(permutations(range(len(graph))))
        same = [names for names in every if renamed([graph], names) == (graph,)]
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
        for wanted in combinations(nodes, count):
            order = [*wanted, *(node for node in nodes if node not in wanted)]
            names = tuple(order.index(node) for node in nodes)
            found.add(forgotten(renamed_state(state, names), frozenset(range(count))))
    keeping = _keeping(count, len(nodes))
    return (canonical(state, keeping) for state in found)


def forgotten(state: State, wanted: frozenset[int]) -> State:
    """Without what makes no difference when nothing comes after a commit that wants these.

    Orphans are deleted, nothing else is. So records of use of others do not count; nor does use of others, unless it may be part of a circle with
    an orphan; nor a scope in which nothing is or will be; nor how deep those are that stay.
    """
    live = {node: slot for node, slot in enumerate(state.slots) if isinstance(slot, Live)}
    orphans = live.keys() - wanted
    uses = {node: set(wanted if node in wanted else ()) for node in wanted | live.keys()}
    for node, slot in live.items():
        uses[node] |= slot.using
    below = orphans.union(*(reached(uses, orphan) for orphan in orphans))
    users = {node: {user for user in uses if node in uses[user]} for node in range(len(state.slots))}
    above = orphans.union(*(reached(users, orphan) for orphan in orphans))

    def rest(node: int, slot: Slot) -> Slot:
        if not isinstance(slot, Live):
            return slot
        counting = orphans | (above if node in below else frozenset())
        return slot._replace(
            wants=slot.wants & counting,
            using=slot.using & counting,
            recorded=slot.recorded & orphans,
            level=0 if node in wanted else slot.level,
        )

    slots = tuple(rest(node, slot) for node, slot in enumerate(state.slots))
    return state._replace(slots=slots, scope=state.scope & (wanted | live.keys()))


def canonical(state: State, apart: Iterable[Names]) -> State:
    """The first of those that differ in these names only."""
    return min(
        (renamed_state(state, names) for names in apart),
        key=lambda form: ([_slot_order(slot) for slot in form.slots], sorted(form.scope)),
    )


@cache
def _slot_order(slot: Slot) -> list[object]:
    match slot:
        case None:
            return [0]
        case Foreign():
            return [1]
    uses = [sorted(some) for some in (slot.wants, slot.recorded, slot.using)]
    return [2, slot.commit, slot.level, slot.going, uses]


def renamed_state(state: State, names: Names) -> State:
    slots: list[Slot] = [None] * len(names)
    for node, slot in enumerate(state.slots):
        slots[names[node]] = _renamed_slot(slot, names)
    return state._replace(slots=tuple(slots), scope=_renamed_set(state.scope, names))


@cache
def _renamed_slot(slot: Slot, names: Names) -> Slot:
    if not isinstance(slot, Live):
        return slot
    wants, recorded, using = (_renamed_set(some, names) for some in (slot.wants, slot.recorded, slot.using))
    return slot._replace(wants=wants, recorded=recorded, using=using)


@cache
def _renamed_set(nodes: frozenset[int], names: Names) -> frozenset[int]:
    return frozenset(names[node] for node in nodes)
