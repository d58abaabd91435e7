"""Whether a cluster answers: the table of the breaker, by examples and from any history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.fleet.reach import (
    MAX_FAILURES,
    MAX_SILENCE_SECONDS,
    SLOW_SECONDS,
    Reach,
    ReachState,
    begin_probe,
    begin_reach,
    clear_trouble,
    describe_troubles,
    end_probe,
    probe_wait,
    reach_state,
    record_answer,
    record_failure,
    record_trouble,
)

Event = Literal["answer", "failure", "begin", "answered probe", "failed probe", "trouble", "clear"]
EVENTS: tuple[Event, ...] = ("answer", "failure", "begin", "answered probe", "failed probe", "trouble", "clear")
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(EVENTS) | st.just("failure"),
        st.floats(0, 90, allow_nan=False),
        st.floats(0, 1, exclude_max=True, allow_nan=False),
    ),
    max_size=60,
)


def play(history: Sequence[tuple[str, float, float]]) -> tuple[Reach, float, int]:
    """Where a history leads, when that is, and how many probes are under way then; what must hold on the way is looked at."""
    found, now, under_way = begin_reach(0.0), 0.0, 0
    for event, seconds, jitter in history:
        now += seconds
        before = found
        match event:
            case "answer":
                found = record_answer(found, seconds=seconds)
            case "failure":
                found = record_failure(found, now, jitter=jitter)
            case "begin" if (probing := begin_probe(found, now)) is not None:
                assert before.is_open
                found, under_way = probing, under_way + 1
            case "answered probe" | "failed probe" if under_way:
                found, under_way = (
                    end_probe(found, now, is_answered=event == "answered probe", jitter=jitter),
                    under_way - 1,
                )
            case "trouble":
                found = record_trouble(found, "Secret", "may not be listed")
            case "clear":
                found = clear_trouble(found, "Secret")
        assert under_way <= 1
        assert found.is_probing == bool(under_way)
        if found.is_open and not before.is_open:
            assert found.failures >= MAX_FAILURES
            assert found.silent_since is not None
            assert now - found.silent_since >= MAX_SILENCE_SECONDS
        if found.is_open and found.probe_at != before.probe_at:
            assert found.probe_at - now == pytest.approx(30.5, abs=29.5 + 1e-6)  # 1 to 60
        if before.is_open and not found.is_open:
            assert event in {"answer", "answered probe"}
    return found, now, under_way


@given(HISTORIES)
def test_from_any_history_one_answer_leads_back(history: Sequence[tuple[str, float, float]]) -> None:
    found, _, _ = play(history)
    back = record_answer(found)
    assert not back.is_open
    assert (back.failures, back.silent_since) == (0, None)
    state = reach_state(clear_trouble(back, "Secret"), is_paused=False, is_removed=False)
    assert state is ReachState.ENGAGED


@given(HISTORIES)
def test_from_any_history_a_probe_leads_back_and_at_most_one_request_is_under_way(
    history: Sequence[tuple[str, float, float]],
) -> None:
    found, now, under_way = play(history)
    if not found.is_open:
        return
    if not under_way:
        later = max(now, found.probe_at)
        probing = begin_probe(found, later)
        assert probing is not None
        found, now = probing, later
    assert begin_probe(found, now + 1e6) is None
    assert not end_probe(found, now, is_answered=True, jitter=0.0).is_open


def test_five_failures_in_a_row_and_ten_seconds_open_it() -> None:
    found = record_answer(begin_reach(0.0))
    for second in (100.0, 100.0, 100.0, 100.0, 100.1, 109.9):  # at once is one event, however many there are
        found = record_failure(found, second, jitter=0.5)
        assert not found.is_open
    found = record_failure(found, 110.0, jitter=0.5)
    assert (found.opened_at, found.silent_since, found.probe_at) == (110.0, 100.0, 111.5)
    four = record_answer(begin_reach(0.0))
    for second in (0.0, 10.0, 20.0, 30.0):
        four = record_failure(four, second, jitter=0.5)
    assert not four.is_open
    assert not record_failure(record_answer(four), 40.0, jitter=0.5).is_open


def test_probes_come_less_and_less_often() -> None:
    assert [probe_wait(failed, 0.0) for failed in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert probe_wait(100, 0.999) < 60.0


def open_breaker() -> Reach:
    found = record_answer(begin_reach(0.0))
    for second in (0.0, 1.0, 2.0, 3.0, 10.0):
        found = record_failure(found, second, jitter=0.0)
    assert found.is_open
    return found


def test_a_call_from_before_counts_where_it_is_answered_and_not_where_it_fails() -> None:
    found = open_breaker()
    assert record_failure(found, 1000.0, jitter=0.0) == found
    probing = begin_probe(found, 11.0)
    assert probing is not None
    closed = record_answer(probing)
    assert not closed.is_open
    assert end_probe(closed, 12.0, is_answered=False, jitter=0.0).failures == 1


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (begin_reach(0.0), ReachState.UNREACHABLE),  # nothing is known yet
        (record_failure(begin_reach(0.0), 1.0, jitter=0.0), ReachState.UNREACHABLE),
        (record_answer(begin_reach(0.0)), ReachState.ENGAGED),
        (record_failure(record_answer(begin_reach(0.0)), 1.0, jitter=0.0), ReachState.ENGAGED),
        (record_trouble(record_answer(begin_reach(0.0)), "Secret", "denied"), ReachState.DEGRADED),
        (replace(record_answer(begin_reach(0.0)), slow_answers=3), ReachState.DEGRADED),
        (record_trouble(open_breaker(), "Secret", "denied"), ReachState.UNREACHABLE),
    ],
)
def test_the_five_states(found: Reach, state: ReachState) -> None:
    assert reach_state(found, is_paused=False, is_removed=False) is state
    assert reach_state(found, is_paused=True, is_removed=False) is ReachState.PAUSED
    assert reach_state(found, is_paused=True, is_removed=True) is ReachState.REMOVED


def test_three_slow_answers_in_a_row_are_a_slow_cluster() -> None:
    found = begin_reach(0.0)
    for _ in range(3):
        assert not found.is_slow
        found = record_answer(found, seconds=SLOW_SECONDS)
    assert describe_troubles(record_trouble(found, "Secret", "may not be listed")) == (
        "Secret: may not be listed",
        "its last answers took more than 10 s each",
    )
    assert not record_answer(found, seconds=0.1).is_slow


def test_a_cluster_may_be_silent_for_as_long_as_it_is_given() -> None:
    """`timeouts.unreachable`: with five failures in a row, and again after an answer."""
    for begun in (
        begin_reach(0.0, max_silence_seconds=60.0),
        record_answer(begin_reach(0.0, max_silence_seconds=60.0)),
    ):
        found = begun
        for second in (0.0, 10.0, 20.0, 30.0, 40.0, 59.9):
            found = record_failure(found, second, jitter=0.0)
        assert not found.is_open
        assert record_failure(found, 60.0, jitter=0.0).is_open
