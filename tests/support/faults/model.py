"""The apply and prune protocol as a small state machine, explored exhaustively: every interleaving, with a crash anywhere.

The world has up to four objects, each of a kind of its own, and a parent with a scope. A commit is a graph over some of them. The process reads
the world, decides a round of writes, and carries them out in any order; it may die, a newer commit may come, a person may delete a member or put
an object of his own in a free place, and what is deleted stays until its finalizer goes. Checked at every write: the scope covers what is live
(I1), nothing foreign is touched (I2), what is applied rests on what is applied already (I3), and nothing goes that is still used (I4). Checked at
every rest: the world is as the commit says (I7).

This is the protocol, not the program: `decide` is `applier.plan` and `applier.plan.prune_decision` in a few lines, without
their reasons to wait. The rules can
be switched off one by one, to see that the checks see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.support.faults.graphs import Graph, ancestors, level, wanted


class Live(NamedTuple):
    """An object: which commit it was written from, what that says it uses, what its record says, what it really still uses, how deep it is in the
    graph of its commit, whether it is being deleted.
    """

    commit: int
    wants: frozenset[int]
    recorded: frozenset[int]
    using: frozenset[int]
    level: int = 0
    going: bool = False

    @property
    def is_healthy(self) -> bool:
        """It no longer uses what only the commit before wanted."""
        return self.using == self.wants


class Foreign(NamedTuple):
    """Somebody else's."""

    mark: str = "foreign"


Slot = Live | Foreign | None


class ModelWrite(NamedTuple):
    """One write of a round, decided when the slot was `seen`: apply, record, delete; or cover and shrink of the parent's scope.

    `cut` are the users that a deletion does without, since they were in a circle with the object when it was decided.
    """

    verb: str
    node: int = -1
    commit: int = -1
    seen: Slot = None
    scope: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.verb} {self.node}"


class State(NamedTuple):
    slots: tuple[Slot, ...]
    scope: frozenset[int] = frozenset()
    commit: int = 0
    round: frozenset[ModelWrite] = frozenset()
    meddled: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What the protocol is made of; all of it in force unless said otherwise."""

    superset_first: bool = True
    wait_for_absence: bool = True
    recorded_dependencies: bool = True
    keep_dropped: bool = True
    preconditions: bool = True
    member_proof: bool = True
    ancestors_first: bool = True


ALL = Rules()


@dataclass(frozen=True, slots=True)
class Found:
    """States that were seen, and the first breach with the way that led there."""

    states: int
    breach: str = ""
    path: tuple[str, ...] = ()


class Breach(Exception):
    """An invariant does not hold."""


def explore(
    history: Sequence[Graph],
    rules: Rules = ALL,
    *,
    meddle: bool = True,
    visit: Callable[[State], None] = lambda _: None,
) -> Found:
    """All states that these commits can lead to; `meddle`: a person may come; `visit` is shown each of them once."""
    start = State((None,) * len(history[0]))
    seen: dict[State, tuple[State, str] | None] = {start: None}
    pending = [start]
    while pending:
        state = pending.pop()
        visit(state)
        try:
            for name, after in _steps(state, history, rules, meddle=meddle):
                if after not in seen:
                    seen[after] = (state, name)
                    pending.append(after)
        except Breach as breach:
            return Found(len(seen), str(breach), path(seen, state))
    return Found(len(seen))


def path(seen: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps = []
    while found := seen[state]:
        state, name = found
        steps.append(name)
    return tuple(reversed(steps))


def _steps(state: State, history: Sequence[Graph], rules: Rules, *, meddle: bool) -> Iterator[tuple[str, State]]:
    """What may happen next. Raises Breach."""
    if state.commit + 1 < len(history):
        yield "commit", state._replace(commit=state.commit + 1)
    yield from passing(state)
    if meddle:
        yield from meddling(state)
    if state.round:
        yield "crash", state._replace(round=frozenset())
        for write in state.round:
            after = carried_out(state._replace(round=state.round - {write}), write, history, rules)
            yield str(write), after
    elif writes := decide(state, history[state.commit], rules):
        yield "round", state._replace(round=writes)
    else:
        check_rest(state, history[state.commit])


def passing(state: State) -> Iterator[tuple[str, State]]:
    """What time brings: finalizers go, and what was written becomes healthy."""
    for node, slot in enumerate(state.slots):
        if isinstance(slot, Live):
            if slot.going:
                yield f"{node} is gone", _with(state, node, None)
            if not slot.is_healthy:
                yield f"{node} is healthy", _with(state, node, slot._replace(using=slot.wants))


def meddling(state: State) -> Iterator[tuple[str, State]]:
    """What a person may do, once."""
    for node in range(0 if state.meddled else len(state.slots)):
        yield from meddling_with(state, node)


def meddling_with(state: State, node: int) -> Iterator[tuple[str, State]]:
    slot = state.slots[node]
    if isinstance(slot, Live) and not slot.going:
        yield f"person deletes {node}", _with(state, node, slot._replace(going=True), meddled=True)
        yield f"person replaces {node}", _with(state, node, Foreign(), meddled=True)
    elif slot is None:
        yield f"foreign {node}", _with(state, node, Foreign(), meddled=True)


def decide(state: State, graph: Graph, rules: Rules) -> frozenset[ModelWrite]:
    """One round: the scope first, then what may be applied, then what may go, then the scope again."""
    desired = wanted(graph)
    if rules.superset_first and not desired <= state.scope:
        return frozenset({ModelWrite("cover", scope=state.scope | desired)})
    writes = frozenset(_applies(state, graph, rules))
    if writes:
        return writes
    live = {node: slot for node, slot in enumerate(state.slots) if isinstance(slot, Live)}
    orphans = live.keys() - desired
    if not rules.member_proof:
        orphans |= {node for node, slot in enumerate(state.slots) if isinstance(slot, Foreign)} - desired
    going = frozenset(_deletion(state, node) for node in wave(live, orphans, rules))
    if going or orphans:
        return going
    exact = desired.union(live)
    return frozenset({ModelWrite("shrink", scope=exact)}) if exact != state.scope else frozenset()


def _deletion(state: State, node: int) -> ModelWrite:
    """Raises Breach when it is decided against users that are in no circle with it."""
    _check_users(state, node)
    cut = frozenset(
        user for user, slot in enumerate(state.slots) if isinstance(slot, Live) and node in slot.using and user != node
    )
    return ModelWrite("delete", node, seen=state.slots[node], cut=cut)


def _applies(state: State, graph: Graph, rules: Rules) -> Iterator[ModelWrite]:
    for node, uses in enumerate(graph):
        slot = state.slots[node]
        if uses is None or isinstance(slot, Foreign) or (slot is not None and slot.going):
            continue
        if slot is None or slot.commit != state.commit:
            above = ancestors(graph, node) if rules.ancestors_first else frozenset()
            if all(_is_current(state.slots[other], state.commit) for other in above):
                yield ModelWrite("apply", node, state.commit, slot)
        elif slot.recorded != uses and slot.is_healthy:
            yield ModelWrite("record", node, state.commit, slot)


def _is_current(slot: Slot, commit: int) -> bool:
    return isinstance(slot, Live) and slot.commit == commit and not slot.going


def wave(live: dict[int, Live], orphans: set[int], rules: Rules) -> set[int]:
    """Orphans that no live member records; where there are none, the deepest of each circle of mixed generations."""
    users = {
        node: {
            user
            for user, slot in live.items()
            if user != node and node in slot.recorded and (rules.wait_for_absence or not slot.going)
        }
        for node in orphans
    }
    able = {node for node in orphans if not (isinstance(slot := live.get(node), Live) and slot.going)}
    if not rules.recorded_dependencies:
        return able
    free = {node for node in able if not users[node]}
    return free or _circle(able, users, live)


def _circle(able: set[int], users: dict[int, set[int]], live: dict[int, Live]) -> set[int]:
    above = {node: reached(users, node) for node in able}
    closed = [node for node in able if all(user in able and node in above[user] for user in above[node])]
    used_by = {node: {user for user in users[node] if node in live[user].using} for node in closed}
    over = {node: reached(used_by, node) for node in closed}
    return {
        node
        for node in closed
        if all(node in over[user] and live[user].level <= live[node].level for user in over[node])
    }


def reached(edges: dict[int, set[int]], start: int) -> set[int]:
    """All that edges lead to from there, itself if they come back."""
    found: set[int] = set()
    pending = [*edges.get(start, ())]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += edges.get(node, ())
    return found


def carried_out(state: State, write: ModelWrite, history: Sequence[Graph], rules: Rules) -> State:
    """What the server makes of one write, whatever has happened since it was decided. Raises Breach."""
    if write.verb in {"cover", "shrink"}:
        return _covered(state._replace(scope=write.scope), write)
    slot = state.slots[write.node]
    if rules.preconditions and write.verb == "delete" and slot != write.seen:
        return state  # 409: uid or resourceVersion is another
    if isinstance(slot, Foreign):
        if write.verb == "delete":
            raise Breach(f"I2: {write.verb} {write.node}, which is not ours")
        return state  # 409: its fields are somebody else's
    if write.verb == "delete":
        if slot is None or slot.going:
            return state
        _check_users(state, write.node, without=write.cut)
        return _with(state, write.node, slot._replace(going=True))
    if (slot is None) != (write.seen is None):
        return state  # 409: the uid is another, or gone; or another was first
    return _applied(state, write, slot, history, rules)


def _applied(state: State, write: ModelWrite, slot: Live | None, history: Sequence[Graph], rules: Rules) -> State:
    graph = history[write.commit]
    uses = graph[write.node]
    assert uses is not None
    if write.verb == "record":
        return _with(state, write.node, slot._replace(recorded=uses)) if slot else state
    for other in uses:
        before = state.slots[other]
        if not state.meddled and not (isinstance(before, Live) and before.commit >= write.commit and not before.going):
            raise Breach(f"I3: {write.node} is applied before {other}")
    kept = slot.using if slot else frozenset()
    recorded = uses | (slot.recorded if slot and rules.keep_dropped else frozenset())
    depth, going = level(graph, write.node), bool(slot and slot.going)
    live = Live(write.commit, uses, recorded, uses | kept, depth, going)
    return _covered(_with(state, write.node, live), write)


def _covered(state: State, write: ModelWrite) -> State:
    for node, slot in enumerate(state.slots):
        if isinstance(slot, Live) and node not in state.scope:
            raise Breach(f"I1: after {write.verb} {write.node} the scope does not cover {node}")
    return state


def _check_users(state: State, gone: int, *, without: frozenset[int] = frozenset()) -> None:
    """A circle has to be cut somewhere; all others go before what they use."""
    uses = {node: set(slot.using) for node, slot in enumerate(state.slots) if isinstance(slot, Live)}
    for user, used in uses.items():
        if user not in without | {gone} and gone in used and user not in reached(uses, gone):
            raise Breach(f"I4: {gone} is deleted while {user} uses it")


def check_rest(state: State, graph: Graph) -> None:
    """Where time brings nothing any more. Raises Breach."""
    if any(True for _ in passing(state)):
        return
    if any(uses is not None and isinstance(slot, Foreign) for uses, slot in zip(graph, state.slots, strict=True)):
        return  # what is below it waits for a person
    for node, uses in enumerate(graph):
        slot = state.slots[node]
        if isinstance(slot, Foreign):
            continue
        if (uses is None) != (slot is None) or (
            isinstance(slot, Live) and (slot.commit != state.commit or slot.recorded != uses)
        ):
            raise Breach(f"I7: at rest, {node} is {slot}")
    if state.scope != wanted(graph):
        raise Breach(f"I7: at rest, the scope is {set(state.scope)}")


def _with(state: State, node: int, slot: Slot, *, meddled: bool = False) -> State:
    slots = (*state.slots[:node], slot, *state.slots[node + 1 :])
    return State(slots, state.scope, state.commit, state.round, meddled or state.meddled)
