"""Writes that are under way: begun, and not answered yet.

Nobody waits long for one. A pass takes the answers as they come; what is still open when none has come for a while stays open, and others go on.
Of its object it is known only that it is being written: nothing writes it a second time, and nothing starts that depends on it.

What the server puts off (429, 503, no connection) is tried again by the pass that began it, ever more rarely. A pass that ends leaves that to a
later one, which does not try before the time; so only what was sent outlives a pass, and nothing is sent on a decision that no longer stands. A
webhook that does not answer is left to later passes at once. What was put off for minutes is told as failed, and goes on being tried.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from typing import NamedTuple

from applier.backoff import AdaptiveTimeout, exponential_backoff
from applier.cluster import Object
from applier.errors import ClusterError, PostponedTooLong, Unavailable, WriteInFlight
from applier.execute.results import Answer, Result
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

MAX_STARTED_ACTIONS = 256
"""So many actions are begun at once; how many requests are in flight is for the cluster to say."""

MIN_ANSWER_TIMEOUT_SECONDS, MAX_ANSWER_TIMEOUT_SECONDS = 0.1, 1.0
"""Seconds without any answer after which what is still open is left open, by those between answers lately."""

MAX_PAUSE_SECONDS = 10.0
"""Seconds without any answer that are waited for at most because it takes long to decide anew."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, RETRY_BUDGET_SECONDS = 0.5, 60.0, 30.0
"""Seconds: before an object that was put off is tried again, most between two tries, and after which a pass gives it up."""

FAILED_AFTER_SECONDS = 300.0
"""Seconds in which an object was put off at every try; then somebody has to look why. What comes back by itself, a webhook whose Pods are replaced
say, is back sooner.
"""


class PendingAction(NamedTuple):
    """One action on an object, to be begun."""

    key: ObjectKey
    run: Callable[[], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PostponedWrite:
    """What the server said of an object, since when at every try, and how often; it is not written before `until`. Times are of the event loop."""

    result: Result
    error: ClusterError
    since: float
    until: float
    tries: int


@dataclass(eq=False)
class PendingWrites:
    """Of one process and one cluster, for all its passes. `heard` is told of answers that come when no pass waits for them any more, and says whether
    that is worth another look; `again` hears what is, in how many seconds.
    """

    on_late_answer: Callable[[Answer], bool] = lambda _: True
    on_postponed: Callable[[Result, float], None] = lambda _result, _seconds: None
    _open_writes: Counter[ObjectKey] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _postponed: dict[ObjectKey, PostponedWrite] = field(default_factory=dict)
    _late_results: dict[ObjectKey, Result] = field(default_factory=dict)
    _write_times: dict[GroupKind, float] = field(default_factory=dict)
    _fatal_error: BaseException | None = None
    answer_timeout: AdaptiveTimeout = field(
        default_factory=lambda: AdaptiveTimeout(MIN_ANSWER_TIMEOUT_SECONDS, MAX_ANSWER_TIMEOUT_SECONDS)
    )

    @property
    def unanswered_writes(self) -> dict[ObjectKey, ClusterError]:
        """What is being written."""
        return {
            key: WriteInFlight(f"{key} is being written; the server has not answered yet") for key in self._open_writes
        }

    def blocked_objects(self, scope_keys: Collection[ObjectKey] | None = None) -> dict[ObjectKey, ClusterError]:
        """What a pass that begins may not write, and why: it is being written, it was put off, or the answer that came late was a failure, which is
        told once. A pass over a `part` tells those of its sets and objects. Raises what ended a late write for good.
        """
        reported_keys = [
            key
            for key, late_result in self._late_results.items()
            if scope_keys is None or late_result.set in scope_keys or key in scope_keys
        ]
        late_errors = {key: error for key in reported_keys if (error := self._late_results.pop(key).error)}
        return late_errors | self.unwritable_objects

    @property
    def unwritable_objects(self) -> dict[ObjectKey, ClusterError]:
        """What is being written or was put off. Raises what ended a late write for good."""
        if fatal_error := self._fatal_error:
            self._fatal_error = None
            raise fatal_error
        now = _now()
        self._postponed = {
            key: postponed_write
            for key, postponed_write in self._postponed.items()
            if now < postponed_write.until + MAX_RETRY_SECONDS
        }
        return {
            key: postponed_write.error
            for key, postponed_write in self._postponed.items()
            if now < postponed_write.until
        } | self.unanswered_writes

    @property
    def postponed_results(self) -> list[tuple[Result, float]]:
        """What was put off, and in how many seconds it is worth another look."""
        now = _now()
        return [
            (postponed_write.result, postponed_write.until - now)
            for postponed_write in self._postponed.values()
            if now < postponed_write.until
        ]

    def count_tries(self, key: ObjectKey) -> int:
        """How often it was put off."""
        return self._postponed[key].tries if key in self._postponed else 0

    def forget(self, key: ObjectKey) -> None:
        """It was answered, whatever the answer is."""
        self._postponed.pop(key, None)

    def postpone(self, result: Result, error: ClusterError, seconds: float, tries: int) -> Result:
        """Not to be tried again before so many seconds: what is told of it."""
        now, previous = _now(), self._postponed.get(result.key)
        since = previous.since if previous else now
        if now - since >= FAILED_AFTER_SECONDS:
            error = PostponedTooLong(
                f"{error}; failed for more than {FAILED_AFTER_SECONDS / 60:.0f} minutes", status=error.status
            )
        self._postponed[result.key] = PostponedWrite(result, error, since, now + seconds, tries)
        self.on_postponed(result, seconds)
        return replace(result, error=error)

    def retry_now(self) -> None:
        """What was put off may be tried at once."""
        self._postponed = {
            key: replace(postponed_write, until=_now()) for key, postponed_write in self._postponed.items()
        }

    def keep_task(self, work: Awaitable[None]) -> None:
        """Hold on to this task until it ends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_open(self, key: ObjectKey) -> bool:
        """Is it being written?"""
        return key in self._open_writes

    def open_write(self, key: ObjectKey) -> None:
        self._open_writes[key] += 1

    def close_write(self, key: ObjectKey) -> None:
        if key.namespace != OWN_NAMESPACE:
            self._write_times[key.group_kind] = _now()
        self._open_writes[key] -= 1
        if not self._open_writes[key]:
            del self._open_writes[key]

    def has_written(self, kind: GroupKind, since: float) -> bool:
        """May anything of this kind, our own records aside, be otherwise than it was then (seconds of the event loop) by what was begun here?"""
        return self._write_times.get(kind, 0.0) >= since or any(
            key.group_kind == kind and key.namespace != OWN_NAMESPACE for key in self._open_writes
        )

    def deliver(self, answer: Answer) -> None:
        """It came when nobody waited any more. What was put off is looked at in its time."""
        result = answer[1]
        needs_requeue = self.on_late_answer(answer)
        if result.key not in self._postponed:
            if result.error is not None:
                self._late_results[result.key] = result
            if needs_requeue:
                self.on_postponed(result, 0.0)

    def set_fatal_error(self, error: BaseException) -> None:
        """A late write ended in something that ends the process."""
        self._fatal_error = error

    async def wait_until_idle(self) -> None:
        """Until what is open now is answered."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self, seconds: float) -> None:
        """Wait for what is open, at most so long; then break it off."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        open_tasks = set(self._tasks)
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)


@dataclass(eq=False)
class WriteBatch:
    """What one pass begins. One that `insists` waits at its end until all is answered, and tries again until then what was put off.

    `patience_seconds` without any answer are waited at least.
    """

    pending_writes: PendingWrites
    sleep: Callable[[float], Awaitable[None]]
    waits_for_responses: bool
    patience_seconds: float = MIN_ANSWER_TIMEOUT_SECONDS
    _actions: Iterator[PendingAction] = field(default_factory=lambda: iter(()))
    _answers: list[Answer] = field(default_factory=list)
    _open_count: int = 0
    _last_answer_time: float = 0.0
    _returned_at: float | None = None
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _pausing_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _is_collecting: bool = False
    _is_abandoned: bool = False
    _fatal_error: BaseException | None = None

    async def start_and_collect(self, actions: Iterable[PendingAction] = ()) -> list[Answer]:
        """Begin these; the answers that come until nothing is open or none has come for a while. What the server has put off
        is waited for by who insists. No act is made long before it can be sent.

        While nothing is answered, a while is at least twice as long as it took to decide what to begin: where a server, or this machine, is
        slow, deciding anew all the time would make it slower. It is shorter by the share that is answered: the fewer are late, the more wait.

        Raises what an act raised that is no failure of its own.
        """
        self._actions, self._last_answer_time, self._is_collecting = iter(actions), _now(), True
        pause = (
            0.0
            if self._returned_at is None
            else min(MAX_PAUSE_SECONDS, 2 * (self._last_answer_time - self._returned_at))
        )
        for action in islice(self._actions, MAX_STARTED_ACTIONS):
            self._begin(action)
        while (
            self._awaited_count
            and not self._fatal_error
            and (remaining_seconds := self._give_up_time(pause) - _now()) > 0
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    min(remaining_seconds, MIN_ANSWER_TIMEOUT_SECONDS)
                ):  # the end comes nearer with each answer
                    await self._idle.wait()
        self._actions, self._is_collecting, self._returned_at = iter(()), False, _now()
        if self._fatal_error:
            raise self._fatal_error
        answers, self._answers = self._answers, []
        return answers

    def _give_up_time(self, pause: float) -> float:
        """The time at which nobody waits any more, if nothing is answered until then."""
        share = self._awaited_count / (self._awaited_count + len(self._answers))
        return self._last_answer_time + max(
            pause * share, self.pending_writes.answer_timeout.seconds, self.patience_seconds
        )

    @property
    def _awaited_count(self) -> int:
        return self._open_count if self.waits_for_responses else self._open_count - len(self._pausing_tasks)

    async def collect_remaining(self) -> list[Answer]:
        """Nothing more is to be begun: the next answers. Where one does not insist these are the last ones: what was put off is given up, and what
        was sent stays open.
        """
        while self.waits_for_responses and self._open_count:
            if answers := await self.start_and_collect():
                return answers
        self._ended.set()
        if self._pausing_tasks:
            await asyncio.wait(set(self._pausing_tasks))
        return await self.start_and_collect() if self._answers else []

    def abandon(self) -> None:
        """The pass is over; what is still open is nobody's any more."""
        self._is_abandoned = True
        self._ended.set()

    async def attempt(self, result: Result, send: Callable[[], Awaitable[Object | None]]) -> Answer:
        """Carry it out; what the server puts off is tried again as long as the pass lasts."""
        spent_seconds, tries = 0.0, self.pending_writes.count_tries(result.key)
        while True:
            try:
                stored = await send()
            except Unavailable as error:
                backoff = exponential_backoff(tries, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
                seconds, tries = max(error.retry_after or 0.0, backoff), tries + 1
                spent_seconds += seconds
                if error.is_transient and spent_seconds <= RETRY_BUDGET_SECONDS and await self._pause(seconds):
                    continue
                if self.waits_for_responses:
                    return None, replace(result, error=error)
                return None, self.pending_writes.postpone(result, error, seconds, tries)
            except ClusterError as error:
                self.pending_writes.forget(result.key)
                return None, replace(result, error=error)
            else:
                self.pending_writes.forget(result.key)
                return stored, result

    def _begin(self, action: PendingAction) -> None:
        self._open_count += 1
        self._idle.clear()
        self.pending_writes.open_write(action.key)
        self.pending_writes.keep_task(self._work(action))

    async def _work(self, action: PendingAction | None) -> None:
        """One after the other, as long as there are any."""
        while action is not None:
            try:
                answer = await action.run()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._stop_with(error)
                return
            finally:
                self._open_count -= 1
                self.pending_writes.close_write(action.key)
            self._record_answer_time()
            if self._is_abandoned:
                self.pending_writes.deliver(answer)
            else:
                self._answers.append(answer)
            if (action := next(self._actions, None)) is not None:
                self._open_count += 1
                self.pending_writes.open_write(action.key)
        if not self._awaited_count:
            self._idle.set()

    def _record_answer_time(self) -> None:
        previous_time, self._last_answer_time = self._last_answer_time, _now()
        if self._is_collecting:
            self.pending_writes.answer_timeout.record_gap(self._last_answer_time - previous_time)

    def _stop_with(self, error: BaseException) -> None:
        """What is no failure of an act ends the pass, or, where that is over, the next one."""
        if self._is_abandoned:
            self.pending_writes.set_fatal_error(error)
        self._fatal_error = error
        self._idle.set()

    async def _pause(self, seconds: float) -> bool:
        """Sleep; False where the pass is over before."""
        task = asyncio.current_task()
        assert task is not None
        self._pausing_tasks.add(task)
        if not self._awaited_count:
            self._idle.set()
        waits = [asyncio.ensure_future(wait_task) for wait_task in (self.sleep(seconds), self._ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait_task in waits:
                wait_task.cancel()
            self._pausing_tasks.discard(task)
            self._idle.clear()
        return not self._ended.is_set()


def _now() -> float:
    return asyncio.get_running_loop().time()
