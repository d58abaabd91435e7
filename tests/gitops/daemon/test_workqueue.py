"""The work queue against a model of plain lists (client-go's contract, priorities, delays, backoff): properties Q1 to Q13, and S2-3 to S2-5,
S2-11. What is true after every operation of the model is S2-6 to S2-9: S2-6 (three sets), S2-7 (add), S2-8 (get), S2-9 (done)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gitops.daemon.workqueue import (
    MAX_BACKOFF_SECONDS,
    MIN_BACKOFF_SECONDS,
    PRIORITY_CHANGE,
    PRIORITY_RESYNC,
    PRIORITY_WINDOW,
    KeyNotProcessing,
    WorkQueue,
)

PRIORITIES = (PRIORITY_CHANGE, PRIORITY_WINDOW, PRIORITY_RESYNC)


@dataclass
class Time:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Key(NamedTuple):
    cluster: str
    name: str


def queue(time: Callable[[], float] | None = None, chance: float = 1.0) -> WorkQueue[Key]:
    return WorkQueue(lambda key: key.cluster, lambda: None, time or Time(), random_fraction=lambda: chance)


A, B, C, D = (Key("c1", name) for name in "abcd")
FAR = Key("c2", "a")


class Asked(NamedTuple):
    """A key in the model's line."""

    key: Key
    priority: int
    since: float
    number: int


@dataclass
class Model:
    """What section 4.1 says, in plain lists: nothing is kept in order, everything is searched."""

    time: Time
    line: list[Asked] = field(default_factory=list)
    held: set[Key] = field(default_factory=set)
    again: dict[Key, int] = field(default_factory=dict)
    delays: dict[Key, tuple[float, int]] = field(default_factory=dict)
    failures: dict[Key, int] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)
    closed: bool = False
    pushes: int = 0

    def add(self, key: Key, priority: int, since: float | None = None) -> None:
        if self.closed:
            return
        if since is None and key in self.delays:
            priority = max(priority, self.delays.pop(key)[1])
        if key in self.held:
            self.again[key] = max(priority, self.again.get(key, priority))
            return
        before = next((asked for asked in self.line if asked.key == key), None)
        if before is None or before.priority < priority:
            self.line = [asked for asked in self.line if asked.key != key]
            self.push(key, priority, self.time.seconds if since is None else since)

    def push(self, key: Key, priority: int, since: float) -> None:
        self.pushes += 1
        self.line.append(Asked(key, priority, since, self.pushes))

    def add_after(self, key: Key, seconds: float, priority: int) -> None:
        if self.closed:
            return
        if seconds <= 0 or key in self.again or any(asked.key == key for asked in self.line):
            self.add(key, priority)
            return
        due, known = self.time.seconds + seconds, self.delays.get(key, (float("inf"), priority))
        if due < known[0]:
            self.delays.pop(key, None)  # of those due at one time, in the order in which that was said
        self.delays[key] = min(due, known[0]), max(priority, known[1])

    def fall_due(self) -> None:
        for key, (due, priority) in sorted(self.delays.items(), key=lambda item: item[1][0]):
            if due <= self.time.seconds:
                del self.delays[key]
                self.add(key, priority, due)

    def class_of(self, asked: Asked) -> int:
        aged = asked.priority < 0 and asked.since - asked.priority <= self.time.seconds
        return 0 if aged else asked.priority

    def get(self) -> Key | None:
        self.fall_due()

        def rank(asked: Asked) -> tuple[float, int]:
            return asked.since - asked.priority, asked.number

        firsts = [
            min((asked for asked in self.line if asked.key.cluster == cluster), key=rank)
            for cluster in sorted({asked.key.cluster for asked in self.line})
        ]
        if not firsts:
            return None
        top = self.class_of(min(firsts, key=rank))
        last = {cluster: at for at, cluster in enumerate(self.turns)}
        best = min(
            (asked for asked in firsts if self.class_of(asked) == top),
            key=lambda asked: (last.get(asked.key.cluster, -1), rank(asked)),
        )
        self.line.remove(best)
        self.turns.append(best.key.cluster)
        self.held.add(best.key)
        return best.key

    def done(self, key: Key) -> None:
        self.held.remove(key)
        if key in self.again:
            self.push(key, self.again.pop(key), self.time.seconds)


KEYS = st.builds(Key, st.sampled_from(["c1", "c2", "c3"]), st.sampled_from("abc"))


class Queues(RuleBasedStateMachine):
    """The queue and the model, told the same. Q4, Q5, Q7, Q8, Q9, Q11: whatever is done, both hand out the same keys in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.queue, self.model = queue(self.time), Model(self.time)
        self.owed: set[Key] = set()

    @rule(key=KEYS, priority=st.sampled_from(PRIORITIES))
    def add(self, key: Key, priority: int) -> None:
        self.queue.add(key, priority)
        self.model.add(key, priority)
        if not self.model.closed:
            self.owed.add(key)

    @rule(key=KEYS, seconds=st.sampled_from([-1.0, 0.5, 3.0, 70.0]), priority=st.sampled_from(PRIORITIES))
    def add_after(self, key: Key, seconds: float, priority: int) -> None:
        self.queue.add_after(key, seconds, priority)
        self.model.add_after(key, seconds, priority)

    @rule(key=KEYS)
    def add_rate_limited(self, key: Key) -> None:
        failures = self.model.failures.get(key, 0)
        self.model.failures[key] = failures + 1
        self.queue.add_rate_limited(key)
        self.model.add_after(key, min(MIN_BACKOFF_SECONDS * 2**failures, MAX_BACKOFF_SECONDS), PRIORITY_CHANGE)

    @rule(key=KEYS)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @rule(seconds=st.sampled_from([0.001, 1.0, 49.0, 60.0]))
    def advance(self, seconds: float) -> None:
        self.time.seconds += seconds

    @rule()
    def get(self) -> None:
        found = self.queue.get()
        assert found == self.model.get()
        if found:
            self.owed.discard(found)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.held)))
        self.queue.done(key)
        self.model.done(key)

    @rule(key=KEYS)
    def misuse(self, key: Key) -> None:
        """Q13."""
        if key not in self.model.held:
            with pytest.raises(KeyNotProcessing):
                self.queue.done(key)

    @rule(sure=st.integers(0, 9))
    def close(self, sure: int) -> None:
        if sure == 0:
            self.queue.close()
            self.model.closed = True
            self.model.delays.clear()

    @invariant()
    def structures(self) -> None:
        """Q1, Q6: I1 to I4 of section 4.1, of the queue itself and against the model."""
        queued = set(self.queue._queued)
        assert queued == {asked.key for asked in self.model.line}
        assert len(self.queue) == len(queued) == len(self.model.line)
        assert queued <= self.queue.dirty
        assert not queued & self.queue.processing
        assert self.queue.dirty == queued | self.model.again.keys()
        assert self.queue.processing == self.model.held >= self.model.again.keys()
        assert self.queue.next_due_at == min((due for due, _ in self.model.delays.values()), default=None)
        assert self.queue.failure_count(A) == self.model.failures.get(A, 0)

    def teardown(self) -> None:
        """Q4, Q9: what was accepted is handed out in the end, also when the queue was closed; drained once all of that is done."""
        for _ in range(100):
            for key in sorted(self.model.held):
                self.queue.done(key)
                self.model.done(key)
            self.get()
            if not self.model.held:
                break
        assert not self.owed
        assert not self.queue.processing
        assert not self.queue.dirty


Queues.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestQueues = Queues.TestCase


def test_q1_no_key_is_held_twice() -> None:
    """S2-3."""
    line = queue()
    line.add(A)
    assert line.get() == A
    line.add(A)
    assert line.get() is None


def test_q2_many_adds_before_it_is_taken_are_one_run() -> None:
    """S2-4."""
    line = queue()
    for _ in range(5):
        line.add(A)
    assert (line.get(), line.get()) == (A, None)
    line.done(A)
    assert line.get() is None


def test_q3_adds_while_it_is_worked_on_are_one_more_run() -> None:
    """S2-5."""
    line = queue()
    line.add(A)
    line.get()
    for _ in range(3):
        line.add(A)
    line.done(A)
    assert line.get() == A
    line.done(A)
    assert line.get() is None


def test_the_three_scenarios_of_the_text() -> None:
    """S2-11: A is queued and changes again; C changes while it is worked on; D changes while nobody does anything."""
    line = queue()
    for key in (A, B, C, A):
        line.add(key)
    assert [line.get() for _ in range(3)] == [A, B, C]
    line.add(C)
    for key in (A, B, C):
        line.done(key)
    assert line.get() == C
    line.done(C)
    line.add(D)
    assert line.get() == D


def test_q5_what_is_asked_for_while_it_is_worked_on_queues_up_when_it_is_done() -> None:
    line = queue()
    line.add(A)
    line.get()
    line.add(A)
    line.add(B)
    line.done(A)
    assert [line.get(), line.get()] == [B, A]


def test_q7_what_is_delayed_comes_when_it_is_due() -> None:
    """The earlier of two delays counts; an immediate add takes the place of the delay."""
    time = Time()
    line = queue(time)
    line.add_after(A, 5)
    line.add_after(A, 9)
    line.add_after(B, 1)
    assert (line.get(), line.next_due_at) == (None, time.seconds + 1)
    time.seconds += 5
    assert [line.get(), line.get()] == [B, A]
    line.done(A)
    line.add_after(A, 5)
    line.add(A)
    assert line.get() == A
    line.done(A)
    time.seconds += 5
    assert (line.get(), line.next_due_at) == (None, None)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_q8_backoff_doubles_up_to_a_cap_and_is_forgotten(chance: float) -> None:
    """5 ms to 1000 s, of the upper half a part by chance; keys apart."""
    time = Time()
    line = queue(time, chance)
    for failures in range(30):
        line.add_rate_limited(A)
        assert line.next_due_at is not None
        longest = min(0.005 * 2**failures, 1000)
        assert line.next_due_at - time.seconds == pytest.approx(longest * (0.5 + chance / 2), abs=1e-9)
        time.seconds = line.next_due_at
        assert line.get() == A
        line.done(A)
    assert (line.failure_count(A), line.failure_count(B)) == (30, 0)
    line.forget(A)
    line.add_rate_limited(A)
    assert line.next_due_at == pytest.approx(time.seconds + 0.005 * (0.5 + chance / 2), abs=1e-9)


def test_q9_a_closed_queue_accepts_nothing_and_hands_out_what_it_has() -> None:
    line = queue()
    line.add(A)
    line.add_after(B, 1)
    line.close()
    line.add(C)
    line.add_after(C, 1)
    assert line.next_due_at is None
    assert [line.get(), line.get()] == [A, None]
    assert line.processing == {A}
    line.done(A)
    assert not line.processing


def test_q10_nobody_is_woken_while_nothing_happens() -> None:
    """One call for each key that can be taken, or earlier than before; none for what is there already."""
    calls: list[None] = []
    line = queue()
    line.on_change = lambda: calls.append(None)
    assert (line.get(), line.next_due_at, calls) == (None, None, [])
    line.add(A)
    line.add(A)
    assert len(calls) == 1
    line.get()
    line.add(A)
    assert len(calls) == 1
    line.done(A)
    assert len(calls) == 2
    line.add_after(B, 5)
    line.add_after(B, 6)
    assert len(calls) == 3


def test_q11_priorities_and_aging() -> None:
    """A higher class first; a lower one rises by one for each second until it is a common one, so that nothing waits for ever."""
    time = Time()
    line = queue(time)
    for key, priority in ((A, PRIORITY_RESYNC), (B, PRIORITY_WINDOW), (C, PRIORITY_CHANGE)):
        line.add(key, priority)
    assert [line.get() for _ in range(3)] == [C, B, A]
    for key in (A, B, C):
        line.done(key)
    line.add(A, PRIORITY_RESYNC)
    time.seconds += 99
    line.add(B)
    assert line.get() == B
    line.done(B)
    time.seconds += 1.5
    line.add(B)
    assert line.get() == A


def test_q11_a_key_that_is_asked_for_more_urgently_goes_to_the_end_of_that_class() -> None:
    line = queue()
    line.add(A, PRIORITY_RESYNC)
    line.add(B)
    line.add(A)
    assert [line.get(), line.get()] == [B, A]


def test_q12_clusters_take_turns() -> None:
    """A cluster with many keys, all of whose calls time out, costs another one's key one turn, not the line before it (S2-14)."""
    line = queue()
    for number in range(100):
        line.add(Key("c1", str(number)))
    assert line.get() == Key("c1", "0")
    line.add(FAR)
    line.done(Key("c1", "0"))
    assert line.get() == FAR


def test_the_age_of_the_longest_waiting_key() -> None:
    """S2-2: also of one that became more urgent meanwhile."""
    time = Time()
    line = queue(time)
    line.add(A, PRIORITY_RESYNC)
    time.seconds += 7
    line.add(A, PRIORITY_CHANGE)
    line.add(B)
    assert (len(line), line.oldest_age_seconds) == (2, 7)
