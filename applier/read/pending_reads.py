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

SHORTEST: Final = 2.0
LONGEST: Final = 10.0
"""Seconds without any answer after which a kind that has not answered is silent, by those between answers lately."""

FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
"""Seconds before a silent kind that failed is asked again: the first time, and at most."""


ASKED_ON: Final = 2
"""Silent kinds that are asked at a time, so that what never answers does not take the places of what does."""


@dataclass(eq=False)
class _Silent:
    """A kind of which a question is open: since when it is asked (seconds of the event loop), why it cannot be read, and the answer to come."""

    question: Hashable
    asked: asyncio.Future[Any]
    since: float
    why: str
    answer: asyncio.Future[Any] = field(init=False)


@dataclass(eq=False)
class PendingReads:
    """Of one process and one cluster, for all its passes; see `Reader`. What is silent raises Unavailable.

    Who `insists` waits for every answer. `is_outdated` says of a kind whether anything of it was written since a time: then what was asked before is
    asked again. `heard` is told of kinds that answer again.
    """

    cluster: Cluster
    insists: Callable[[], bool] = lambda: True
    is_outdated: Callable[[GroupKind, float], bool] = lambda _kind, _since: False
    heard: Callable[[GroupKind], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _patience: AdaptiveTimeout = field(default_factory=lambda: AdaptiveTimeout(SHORTEST, LONGEST))
    _silent: dict[GroupKind, _Silent] = field(default_factory=dict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ASKED_ON))
    _moved: float = 0.0
    _newest: float = 0.0

    @property
    def server_time(self) -> datetime | None:
        return self.cluster.server_time

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return await self.cluster.discover(refresh=refresh)

    def show(self, versions: Mapping[GroupKind, str]) -> None:
        """From now on read objects of these kinds in these versions: see `Cluster.showing`."""
        self.cluster = self.cluster.showing(versions)

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        ask = partial(self.cluster.get, key, metadata_only=metadata_only)
        if key.namespace == OWN_NAMESPACE:
            return await ask()
        return await self._answer(key.group_kind, None, f"get {key}", ask)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        ask = partial(self.cluster.list, kind, namespace, selector=selector, metadata_only=metadata_only)
        if namespace == OWN_NAMESPACE:
            return await ask()
        return await self._answer(kind, None if namespace else (selector, metadata_only), f"list {kind}", ask)

    async def end(self) -> None:
        """Ask no more."""
        left = [task for one in self._silent.values() for task in (one.answer, one.asked)]
        self._silent.clear()
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, kind: GroupKind, question: Hashable, about: str, ask: Callable[[], Awaitable[T]]) -> T:
        """`question` is what an answer that comes late is good for; None: for nothing but to know that it came."""
        if self.insists():
            return await ask()
        if silent := self._silent.get(kind):
            if not silent.answer.done():
                raise Unavailable(silent.why)
            del self._silent[kind]
            if question is not None and silent.question == question and not self.is_outdated(kind, silent.since):
                found: T = silent.answer.result()
                return found
        task, since = asyncio.ensure_future(ask()), _now()
        try:
            await self._wait(task, since)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if task.done():
            return task.result()
        why = f"{about}: the server has not answered yet"
        if kind in self._silent:
            task.cancel()
        else:
            silent = self._silent[kind] = _Silent(question, task, since, why)
            silent.answer = asyncio.create_task(self._go_on(silent, ask), name=about)
            silent.answer.add_done_callback(partial(self._is_over, kind))
        raise Unavailable(why)

    async def _wait(self, task: asyncio.Future[Any], since: float) -> None:
        """Until it is answered, or nothing has been for too long, or what was asked so much later has."""
        while not task.done():
            patience = self._patience.seconds
            left = max(self._moved, since) + patience - _now()
            if left <= 0 or self._newest > since + patience:
                return
            await asyncio.wait([task], timeout=left)
        self._patience.waited(_now() - max(self._moved, since))
        self._moved, self._newest = _now(), max(self._newest, since)

    async def _go_on(self, silent: _Silent, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer; what the server cannot give now is asked for again. Raises what else it says."""
        wait, anew = FIRST_WAIT, self._places.locked()
        if anew:
            silent.asked.cancel()
        while True:
            try:
                async with self._places:
                    if anew:
                        silent.since, silent.asked = _now(), asyncio.ensure_future(ask())
                    anew = True
                    found = await silent.asked
            except Unavailable as error:
                silent.why = str(error)
                await self.sleep(max(wait, error.retry_after or 0.0))
                wait = min(2 * wait, LONGEST_WAIT)
            else:
                if (took := _now() - silent.since) <= LONGEST:  # a longer one is not worth the wait of others
                    self._patience.waited(took)
                return found

    def _is_over(self, kind: GroupKind, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        answer.exception()  # it is raised to whoever asks next
        self.heard(kind)


def _now() -> float:
    return asyncio.get_running_loop().time()
