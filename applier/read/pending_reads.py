"""Reads that are under way: asked, and not answered yet.

Nobody waits long for one. A kind of which a question has no answer when nothing has been answered for a while, or what was asked long after it has,
is silent: it cannot be read, and that costs what is of this kind and no more. The question goes on being asked, ever more rarely, while nobody waits
for it; what it comes to is told to who asks next. Only our own records are waited for: without them nothing can be decided.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from applier.backoff import AdaptiveTimeout
from applier.cluster import Cluster, Discovery, Object
from applier.errors import Unavailable
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

T = TypeVar("T")

MIN_ANSWER_TIMEOUT_SECONDS: Final = 2.0
MAX_ANSWER_TIMEOUT_SECONDS: Final = 10.0
"""Seconds without any answer after which a kind that has not answered is silent, by those between answers lately."""

FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Seconds before a silent kind that failed is asked again: the first time, and at most."""


MAX_SILENT_REQUESTS: Final = 2
"""Silent kinds that are asked at a time, so that what never answers does not take the places of what does."""


@dataclass(eq=False)
class _SilentKind:
    """A kind of which a question is open: since when it is asked (seconds of the event loop), why it cannot be read, and the answer to come."""

    question: Hashable
    request: asyncio.Future[Any]
    asked_at: float
    message: str
    answer: asyncio.Future[Any] = field(init=False)


@dataclass(eq=False)
class PendingReads:
    """Of one process and one cluster, for all its passes; see `Reader`. What is silent raises Unavailable.

    Who `insists` waits for every answer. `is_outdated` says of a kind whether anything of it was written since a time: then what was asked before is
    asked again. `heard` is told of kinds that answer again.
    """

    cluster: Cluster
    waits_for_responses: Callable[[], bool] = lambda: True
    is_outdated: Callable[[GroupKind, float], bool] = lambda _kind, _since: False
    on_answering_again: Callable[[GroupKind], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _answer_timeout: AdaptiveTimeout = field(
        default_factory=lambda: AdaptiveTimeout(MIN_ANSWER_TIMEOUT_SECONDS, MAX_ANSWER_TIMEOUT_SECONDS)
    )
    _silent_kinds: dict[GroupKind, _SilentKind] = field(default_factory=dict)
    _silent_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_SILENT_REQUESTS))
    _last_answer_time: float = 0.0
    _newest_request_time: float = 0.0

    @property
    def server_time(self) -> datetime | None:
        return self.cluster.server_time

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return await self.cluster.discover(refresh=refresh)

    def set_versions(self, versions: Mapping[GroupKind, str]) -> None:
        """From now on read objects of these kinds in these versions: see `Cluster.with_versions`."""
        self.cluster = self.cluster.with_versions(versions)

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        ask = partial(self.cluster.get, key, metadata_only=metadata_only)
        if key.namespace == OWN_NAMESPACE:
            return await ask()
        return await self._await_answer(key.group_kind, None, f"get {key}", ask)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        ask = partial(self.cluster.list, kind, namespace, selector=selector, metadata_only=metadata_only)
        if namespace == OWN_NAMESPACE:
            return await ask()
        return await self._await_answer(kind, None if namespace else (selector, metadata_only), f"list {kind}", ask)

    async def close(self) -> None:
        """Ask no more."""
        tasks = [
            task for silent_kind in self._silent_kinds.values() for task in (silent_kind.answer, silent_kind.request)
        ]
        self._silent_kinds.clear()
        for pending_task in tasks:
            pending_task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _await_answer(
        self, kind: GroupKind, question: Hashable, description: str, ask: Callable[[], Awaitable[T]]
    ) -> T:
        """`question` is what an answer that comes late is good for; None: for nothing but to know that it came."""
        if self.waits_for_responses():
            return await ask()
        if silent_kind := self._silent_kinds.get(kind):
            if not silent_kind.answer.done():
                raise Unavailable(silent_kind.message)
            del self._silent_kinds[kind]
            if (
                question is not None
                and silent_kind.question == question
                and not self.is_outdated(kind, silent_kind.asked_at)
            ):
                late_answer: T = silent_kind.answer.result()
                return late_answer
        task, asked_at = asyncio.ensure_future(ask()), _now()
        try:
            await self._wait_for(task, asked_at)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if task.done():
            return task.result()
        message = f"{description}: the server has not answered yet"
        if kind in self._silent_kinds:
            task.cancel()
        else:
            silent_kind = self._silent_kinds[kind] = _SilentKind(question, task, asked_at, message)
            silent_kind.answer = asyncio.create_task(self._retry_in_background(silent_kind, ask), name=description)
            silent_kind.answer.add_done_callback(partial(self._on_background_answer, kind))
        raise Unavailable(message)

    async def _wait_for(self, task: asyncio.Future[Any], asked_at: float) -> None:
        """Until it is answered, or nothing has been for too long, or what was asked so much later has."""
        while not task.done():
            timeout_seconds = self._answer_timeout.seconds
            remaining_seconds = max(self._last_answer_time, asked_at) + timeout_seconds - _now()
            if remaining_seconds <= 0 or self._newest_request_time > asked_at + timeout_seconds:
                return
            await asyncio.wait([task], timeout=remaining_seconds)
        self._answer_timeout.record_gap(_now() - max(self._last_answer_time, asked_at))
        self._last_answer_time, self._newest_request_time = _now(), max(self._newest_request_time, asked_at)

    async def _retry_in_background(self, silent_kind: _SilentKind, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer; what the server cannot give now is asked for again. Raises what else it says."""
        retry_seconds, needs_new_request = FIRST_RETRY_SECONDS, self._silent_slots.locked()
        if needs_new_request:
            silent_kind.request.cancel()
        while True:
            try:
                async with self._silent_slots:
                    if needs_new_request:
                        silent_kind.asked_at, silent_kind.request = _now(), asyncio.ensure_future(ask())
                    needs_new_request = True
                    response = await silent_kind.request
            except Unavailable as error:
                silent_kind.message = str(error)
                await self.sleep(max(retry_seconds, error.retry_after or 0.0))
                retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
            else:
                if (
                    answer_seconds := _now() - silent_kind.asked_at
                ) <= MAX_ANSWER_TIMEOUT_SECONDS:  # a longer one is not worth the wait of others
                    self._answer_timeout.record_gap(answer_seconds)
                return response

    def _on_background_answer(self, kind: GroupKind, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        answer.exception()  # it is raised to whoever asks next
        self.on_answering_again(kind)


def _now() -> float:
    return asyncio.get_running_loop().time()
