"""Reads in flight: requests that the server has not answered yet.

If a request about a kind has no answer for some time, the kind is silent, even if the server answers other requests.
Levelgate cannot read a silent kind, and only objects of that kind are affected. Levelgate repeats the request in the
background with growing waits, and gives the answer to the next reader. Reads of Levelgate's own records always wait for
the answer, because every decision needs the records.
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
"""Shortest and longest time, in seconds, after which a kind with an unanswered request counts as silent. See
`AdaptiveTimeout`.
"""

FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Shortest and longest wait, in seconds, before Levelgate repeats the request of a silent kind."""


MAX_SILENT_REQUESTS: Final = 2
"""Maximum number of silent kinds with a request in flight, so that slots remain for kinds that answer."""


@dataclass(eq=False)
class _SilentKind:
    """Kind whose request has no answer yet."""

    question: Hashable
    """Value that identifies the request. Equal requests have equal values."""
    request: asyncio.Future[Any]
    asked_at: float
    """Time of the request, in seconds of the event loop's clock."""
    message: str
    """Message of the error to raise until the answer arrives."""
    answer: asyncio.Future[Any] = field(init=False)
    """Future that receives the answer."""


@dataclass(eq=False)
class PendingReads:
    """Reader of a cluster for all reconciliations of a process. Reads of silent kinds raise Unavailable."""

    cluster: Cluster
    waits_for_responses: Callable[[], bool] = lambda: True
    """Function that returns true if each read has to wait for its answer."""
    is_outdated: Callable[[GroupKind, float], bool] = lambda _kind, _since: False
    """Function that returns whether Levelgate wrote objects of a kind since a given time, in seconds of the event
    loop's clock. If the function returns true, the reader discards a late answer.
    """
    on_answering_again: Callable[[GroupKind], None] = lambda _: None
    """Function that receives each kind that answers again."""
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
        """From now on, read objects of each kind in `versions` in the given version. See `Cluster.with_versions`."""
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
        """Cancel all requests in flight."""
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
        """Return the answer to `ask`, or a late answer to an equal `question`.

        If `question` is None, a late answer only proves that the kind answers again.

        Raises: Unavailable if the kind is silent, or another ClusterError if the server refuses the request.
        """
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
        """Wait until `task` is done, or has waited too long.

        A wait is too long in two cases:

        - The server has answered no request at all for as long as the timeout.
        - The server has answered a newer request, which started after `task` by more than the timeout.
        """
        while not task.done():
            timeout_seconds = self._answer_timeout.seconds
            remaining_seconds = max(self._last_answer_time, asked_at) + timeout_seconds - _now()
            if remaining_seconds <= 0 or self._newest_request_time > asked_at + timeout_seconds:
                return
            await asyncio.wait([task], timeout=remaining_seconds)
        self._answer_timeout.record_gap(_now() - max(self._last_answer_time, asked_at))
        self._last_answer_time, self._newest_request_time = _now(), max(self._newest_request_time, asked_at)

    async def _retry_in_background(self, silent_kind: _SilentKind, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat the request of `silent_kind` while the server is unavailable, and return the answer.

        Raises: ClusterError, except Unavailable, after which the reader repeats the request.
        """
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
                # A longer gap must not extend the wait for other kinds.
                if (answer_seconds := _now() - silent_kind.asked_at) <= MAX_ANSWER_TIMEOUT_SECONDS:
                    self._answer_timeout.record_gap(answer_seconds)
                return response

    def _on_background_answer(self, kind: GroupKind, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        answer.exception()  # then asyncio logs no unretrieved exception; the next reader gets it
        self.on_answering_again(kind)


def _now() -> float:
    return asyncio.get_running_loop().time()
