"""Writes in flight: requests that Levelgate has sent and the server has not answered yet.

A reconciliation collects answers as they arrive. After 0.1 to 1 s without an answer the reconciliation proceeds, and
unanswered writes stay pending. While a write of an object is pending, Levelgate neither writes the object again nor
starts a dependent of the object.

If the server postpones a write (429, 503, no connection), the reconciliation that began the write retries the write
with growing waits. After this reconciliation has ended and the wait is over, a later reconciliation retries the write.
So only requests that Levelgate has sent outlive a reconciliation, and no request rests on an outdated decision. If a
webhook does not answer, only later reconciliations retry the write. If the server postpones a write for minutes, the
write counts as failed, and the retries continue.
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
"""Maximum number of actions in progress at once. A separate limit of the cluster adapter applies to requests in
flight.
"""

MIN_ANSWER_TIMEOUT_SECONDS, MAX_ANSWER_TIMEOUT_SECONDS = 0.1, 1.0
"""Range of the time without any answer, in seconds, after which unanswered writes stay pending. See `AdaptiveTimeout`.
"""

MAX_PAUSE_SECONDS = 10.0
"""Longest time without an answer, in seconds, that a reconciliation waits because its decisions take long."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, RETRY_BUDGET_SECONDS = 0.5, 60.0, 30.0
"""Seconds for retries of a postponed write: the first wait, the longest wait, and the sum of waits. When the waits
exceed this sum, a later reconciliation retries the write.
"""

FAILED_AFTER_SECONDS = 300.0
"""Seconds of postponed attempts after which a person has to find the cause. Transient causes, such as a webhook whose
Pods restart, end sooner.
"""


class PendingAction(NamedTuple):
    """Action on an object, before the action begins."""

    key: ObjectKey
    run: Callable[[], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PostponedWrite:
    """Write that the server has postponed at every attempt so far.

    All times are in seconds of the event loop.
    """

    result: Result
    error: ClusterError
    """Error of the last attempt."""
    since: float
    """Time of the first attempt."""
    until: float
    """Earliest time of the next attempt."""
    tries: int


@dataclass(eq=False)
class PendingWrites:
    """Writes in flight and postponed writes of one process and one cluster, over all its reconciliations."""

    on_late_answer: Callable[[Answer], bool] = lambda _: True
    """Function that receives each answer that arrives after the end of its reconciliation. The function returns whether
    the answer requires another reconciliation.
    """
    on_postponed: Callable[[Result, float], None] = lambda _result, _seconds: None
    """Function that receives the result of each write to requeue, and the seconds until the write is due."""
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
        """Return the objects with an unanswered write, each with the error that stands for the missing answer."""
        return {
            key: WriteInFlight(f"{key} is being written; the server has not answered yet") for key in self._open_writes
        }

    def blocked_objects(self, scope_keys: Collection[ObjectKey] | None = None) -> dict[ObjectKey, ClusterError]:
        """Return the objects that a new reconciliation may not write, each with its error.

        The write of a blocked object is in flight, is postponed, or has failed by a late answer. The method reports a
        late failure only once.

        Args:
            scope_keys: keys of parents or written objects whose late failures a partial reconciliation reports. If
                `scope_keys` is None, the method reports all late failures.

        Raises: the exception that stopped a late write.
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
        """Return the objects whose writes are in flight or postponed, each with its error.

        Raises: the exception that stopped a late write.
        """
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
        """Return the result of each postponed write, and the seconds until the write is due again."""
        now = _now()
        return [
            (postponed_write.result, postponed_write.until - now)
            for postponed_write in self._postponed.values()
            if now < postponed_write.until
        ]

    def count_tries(self, key: ObjectKey) -> int:
        """Return the number of times that the server has postponed the write of the object `key`."""
        return self._postponed[key].tries if key in self._postponed else 0

    def forget(self, key: ObjectKey) -> None:
        """Record that the server has accepted or refused the write of the object `key`."""
        self._postponed.pop(key, None)

    def postpone(self, result: Result, error: ClusterError, seconds: float, tries: int) -> Result:
        """Postpone the write of `result` for `seconds`, and return the result to report."""
        now, previous = _now(), self._postponed.get(result.key)
        since = previous.since if previous else now
        if now - since >= FAILED_AFTER_SECONDS:
            error = PostponedTooLong(
                f"{error}; the write has failed for more than {FAILED_AFTER_SECONDS / 60:.0f} minutes; "
                "find the cause in the log of the API server",
                status=error.status,
            )
        self._postponed[result.key] = PostponedWrite(result, error, since, now + seconds, tries)
        self.on_postponed(result, seconds)
        return replace(result, error=error)

    def retry_now(self) -> None:
        """Make all postponed writes due."""
        self._postponed = {
            key: replace(postponed_write, until=_now()) for key, postponed_write in self._postponed.items()
        }

    def keep_task(self, work: Awaitable[None]) -> None:
        """Run `work` as a task, and keep a reference until the task ends, because asyncio's references are weak."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_open(self, key: ObjectKey) -> bool:
        """Return whether a write of the object `key` is in flight."""
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
        """Return whether a write of Levelgate may have changed objects of `kind` since `since`.

        Writes of Levelgate's own records do not count.

        Args:
            since: time in seconds of the event loop.
        """
        return self._write_times.get(kind, 0.0) >= since or any(
            key.group_kind == kind and key.namespace != OWN_NAMESPACE for key in self._open_writes
        )

    def deliver(self, answer: Answer) -> None:
        """Store `answer`, which no reconciliation waits for.

        If the write is postponed, the time of its retry stays unchanged.
        """
        result = answer[1]
        needs_requeue = self.on_late_answer(answer)
        if result.key not in self._postponed:
            if result.error is not None:
                self._late_results[result.key] = result
            if needs_requeue:
                self.on_postponed(result, 0.0)

    def set_fatal_error(self, error: BaseException) -> None:
        """Store `error`, an exception of a late write that ends the process."""
        self._fatal_error = error

    async def wait_until_idle(self) -> None:
        """Wait until the server has answered all writes that are in flight now."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self, seconds: float) -> None:
        """Wait at most `seconds` for the writes in flight, then cancel the remaining writes."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        open_tasks = set(self._tasks)
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)


@dataclass(eq=False)
class WriteBatch:
    """Writes begun by a single reconciliation."""

    pending_writes: PendingWrites
    sleep: Callable[[float], Awaitable[None]]
    waits_for_responses: bool
    """True if the reconciliation waits at its end for the answers to all writes, and retries postponed writes until
    then.
    """
    patience_seconds: float = MIN_ANSWER_TIMEOUT_SECONDS
    """Shortest time without an answer after which the reconciliation proceeds."""
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
        """Begin `actions`, and return the answers when all are complete, or when no answer has arrived for some time.

        If `waits_for_responses` is true, the answers include the answers to postponed writes. Each action creates its
        request just before sending, so that the request contains fresh values.

        The time without an answer is at least twice the duration of the last decision. Otherwise frequent decisions
        would make a slow server or machine slower. As more writes complete, this time shrinks, so that a few late
        answers do not delay the next decision.

        Raises: exceptions of actions other than ClusterError.
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
                # The waits are short because each answer changes the time at which collecting ends.
                async with asyncio.timeout(min(remaining_seconds, MIN_ANSWER_TIMEOUT_SECONDS)):
                    await self._idle.wait()
        self._actions, self._is_collecting, self._returned_at = iter(()), False, _now()
        if self._fatal_error:
            raise self._fatal_error
        answers, self._answers = self._answers, []
        return answers

    def _give_up_time(self, pause: float) -> float:
        """Return the time at which collecting ends if no answer arrives earlier, in seconds of the event loop."""
        share = self._awaited_count / (self._awaited_count + len(self._answers))
        return self._last_answer_time + max(
            pause * share, self.pending_writes.answer_timeout.seconds, self.patience_seconds
        )

    @property
    def _awaited_count(self) -> int:
        return self._open_count if self.waits_for_responses else self._open_count - len(self._pausing_tasks)

    async def collect_remaining(self) -> list[Answer]:
        """Return the next answers when no further action is to begin.

        If `waits_for_responses` is false, these answers are the last answers of the batch. Then later reconciliations
        retry postponed writes, and writes in flight stay pending.
        """
        while self.waits_for_responses and self._open_count:
            if answers := await self.start_and_collect():
                return answers
        self._ended.set()
        if self._pausing_tasks:
            await asyncio.wait(set(self._pausing_tasks))
        return await self.start_and_collect() if self._answers else []

    def abandon(self) -> None:
        """End the reconciliation, so that `PendingWrites` receives all later answers."""
        self._is_abandoned = True
        self._ended.set()

    async def attempt(self, result: Result, send: Callable[[], Awaitable[Object | None]]) -> Answer:
        """Send a write with `send`, and return its answer.

        While the server postpones the write, retry the write until the reconciliation ends.
        """
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
        """Run `action`, then further actions in sequence while any are left."""
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
        """Stop the reconciliation with `error`, which is not a ClusterError.

        If the reconciliation is over, stop the next reconciliation.
        """
        if self._is_abandoned:
            self.pending_writes.set_fatal_error(error)
        self._fatal_error = error
        self._idle.set()

    async def _pause(self, seconds: float) -> bool:
        """Sleep for `seconds`. If the reconciliation ends during the sleep, return False."""
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
