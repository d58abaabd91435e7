"""Circuit breaker around a cluster. While the cluster is silent, calls fail at once.

The outcome of each call shows whether the cluster answers:

- If a call fails as unavailable or with an unknown outcome, and has no HTTP status, the cluster has not answered.
- A failure with an HTTP status is an answer.
- An error before the request, such as a write that the Lease forbids, shows nothing.
- A result from memory, such as cached discovery, shows nothing.
"""

from __future__ import annotations

import asyncio
import builtins
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final, NoReturn, TypeVar

from applier.cluster import Cluster, ClusterName, Discovery, Object, WatchEvent, WatchTarget
from applier.errors import ClusterError, ConfigurationError, Denied, Unavailable, UnknownOutcome
from gitops.clock import Clock
from gitops.fleet import reach
from gitops.fleet.reach import Reach
from gitops.timestamps import timestamp
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey

T = TypeVar("T")

PROBE_SECONDS: Final = 10.0
"""Timeout of a probe in seconds."""

_DISCOVERY: Final = "discovery"
"""Subject of the trouble for API groups whose API server does not list their kinds."""


@dataclass
class ReachMonitor:
    """Reachability of one cluster, shared by all users of its connection."""

    name: ClusterName
    probe: Callable[[], Awaitable[object]]
    """Function that sends one request without retries.

    If the request fails, the function raises ClusterError or ConfigurationError.
    """
    clock: Clock
    on_change: Callable[[], None] = lambda: None
    """Function to call after each change of the state."""
    delayed_requests: Callable[[], int] = lambda: 0
    """Function that returns the number of requests that flow control has delayed.

    The duration of a delayed call is not the response time of the server.
    """
    max_silence_seconds: float = reach.MAX_SILENCE_SECONDS
    """Value for the field `max_silence_seconds` of `Reach`."""
    elapsed: Callable[[], float] = time.monotonic
    """Function that returns the seconds of a monotonic clock."""
    rng: Callable[[], float] = random.random
    """Function that returns a random number in [0, 1)."""
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.reach = reach.begin_reach(self.elapsed(), max_silence_seconds=self.max_silence_seconds)
        self._opened = asyncio.Event()

    @property
    def unreachable_since(self) -> datetime | None:
        """Return the start of the silence of the cluster in UTC, or None if the cluster answers.

        The time is relative to the present setting of the wall clock.
        """
        begun = self.reach.silent_since
        is_silent = self.reach.is_open or not self.reach.has_answered
        if not is_silent or begun is None:
            return None
        return self.clock.now() - timedelta(seconds=self.elapsed() - begun)

    def check(self) -> None:
        """Check that the breaker is closed.

        Raises: Unavailable if the breaker is open.
        """
        if self.reach.is_open and (since := self.unreachable_since):
            raise Unavailable(
                f"cluster {self.name} has not answered since {timestamp(since)}; Levelgate probes the cluster, "
                "and sends nothing else until the cluster answers"
            )

    async def keep_probing(self) -> NoReturn:
        """Probe the cluster whenever the breaker is open, until the task is cancelled."""
        while True:
            await self._opened.wait()
            if (wait_seconds := self.reach.probe_at - self.elapsed()) > 0:
                await self.clock.sleep(wait_seconds)
            if not await self.probe_if_due():
                await self.clock.sleep(1.0)  # another caller has a probe in flight

    async def probe_if_due(self) -> bool:
        """Send a probe if a probe is due and no probe is in flight. Return whether the call has sent a probe."""
        if (probing := reach.begin_probe(self.reach, self.elapsed())) is None:
            return False
        self._set(probing)
        is_answered = False
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self.probe()
            is_answered = True
        except ClusterError as error:
            is_answered = not _is_silence(error)
        except (ConfigurationError, TimeoutError):
            pass
        finally:  # also after a cancellation: otherwise no further probe would be sent
            self._set(reach.end_probe(self.reach, self.elapsed(), is_answered=is_answered, jitter=self.rng()))
        return True

    async def observe(self, call: Awaitable[T], *, subject: str = "", tells_answer: bool = True) -> T:
        """Await a call, record whether the cluster has answered, and return the outcome.

        Args:
            subject: name of the kind or list that the call reads. If the server refuses the read, `subject` becomes a
                trouble. If the read succeeds, the trouble ends.
            tells_answer: whether success of the call proves that the server has answered.

        Raises: the error of the call, or Unavailable if the credentials are no longer readable.
        """
        begun, delayed = self.elapsed(), self.delayed_requests()
        try:
            outcome = await call
        except ClusterError as error:
            self._record_error(error, self._answer_seconds(begun, delayed), subject)
            raise
        except ConfigurationError as error:
            self.record_silence()
            raise Unavailable(f"cluster {self.name}: {error}") from None
        if tells_answer:
            self.record_answer(self._answer_seconds(begun, delayed))
        if subject:
            self._set(reach.clear_trouble(self.reach, subject))
        return outcome

    def record_answer(self, seconds: float = 0.0) -> None:
        """Record an answer that took `seconds`."""
        self._set(reach.record_answer(self.reach, seconds=seconds))

    def record_silence(self) -> None:
        """Record a call without an answer."""
        self._set(reach.record_failure(self.reach, self.elapsed(), jitter=self.rng()))

    def note_discovery(self, discovery: Discovery) -> None:
        """Record a trouble for groups whose API server does not list their kinds.

        If no such group exists, clear the trouble.
        """
        message = f"the API server of {', '.join(sorted(discovery.stale_groups))} does not answer; check its APIService"
        changed = (
            reach.record_trouble(self.reach, _DISCOVERY, message)
            if discovery.stale_groups
            else reach.clear_trouble(self.reach, _DISCOVERY)
        )
        self._set(changed)

    def _answer_seconds(self, begun: float, delayed: int) -> float:
        """Return the seconds since `begun`, or 0 if flow control has delayed a request since then.

        Args:
            delayed: count of delayed requests at `begun`.
        """
        return self.elapsed() - begun if self.delayed_requests() == delayed else 0.0

    def _record_error(self, error: ClusterError, seconds: float, subject: str) -> None:
        if _is_silence(error):
            self.record_silence()
        elif error.status:
            self.record_answer(seconds)
            if subject == _DISCOVERY or (subject and isinstance(error, Denied | Unavailable)):
                self._set(reach.record_trouble(self.reach, subject, str(error)))
            elif subject:  # an answer such as 404 shows that the read is permitted
                self._set(reach.clear_trouble(self.reach, subject))

    def _set(self, changed: Reach) -> None:
        if changed == self.reach:
            return
        self.reach = changed
        (self._opened.set if changed.is_open else self._opened.clear)()
        self.on_change()


def _is_silence(error: ClusterError) -> bool:
    """Return whether `error` means that the server has sent no answer."""
    return isinstance(error, Unavailable | UnknownOutcome) and not error.status


@dataclass
class ReachableCluster:
    """`applier.cluster.Cluster` behind the breaker of `monitor`. While the breaker is open, every call fails."""

    cluster: Cluster
    monitor: ReachMonitor
    tells_troubles: bool = True
    """True if a kind that Levelgate may not list or watch becomes a trouble of the cluster.

    For reads as another user, the value is False, because only that user lacks the permission.
    """
    name: ClusterName = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.cluster.name

    @property
    def server_time(self) -> datetime | None:
        return self.cluster.server_time

    async def discover(self, *, refresh: bool = False) -> Discovery:
        self.monitor.check()
        call = self.cluster.discover(refresh=refresh)
        discovery = await self.monitor.observe(call, subject=_DISCOVERY, tells_answer=refresh)
        self.monitor.note_discovery(discovery)
        return discovery

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        self.monitor.check()
        call = self.cluster.get(key, metadata_only=metadata_only)
        return await self.monitor.observe(call)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        self.monitor.check()
        call = self.cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)
        return await self.monitor.observe(call, subject=self._subject(kind, namespace or ""))

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        self.monitor.check()
        return await self.monitor.observe(
            self.cluster.apply(manifest, manager=manager, force=force, dry_run=dry_run, subresource=subresource)
        )

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        self.monitor.check()
        return await self.monitor.observe(self.cluster.merge(key, patch, manager=manager))

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        self.monitor.check()
        await self.monitor.observe(
            self.cluster.delete(key, uid=uid, resource_version=resource_version, propagation=propagation)
        )

    def _subject(self, kind: GroupKind, namespace: str) -> str:
        """Return the name of a kind in `Reach.troubles`, or an empty string if the cluster does not record refusals."""
        place = f" in namespace {namespace}" if namespace else ""
        return f"{kind}{place}" if self.tells_troubles else ""

    def with_user(self, user: str) -> Cluster:
        return replace(self, cluster=self.cluster.with_user(user), tells_troubles=False)

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        return replace(self, cluster=self.cluster.with_versions(versions))

    def without_retries(self) -> Cluster:
        return replace(self, cluster=self.cluster.without_retries())

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        return replace(self, cluster=self.cluster.with_write_check(check))

    @asynccontextmanager
    async def _watch(self, subject: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self.monitor.check()
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(self.cluster.watch(subject))
            events = await self.monitor.observe(entering, subject=self._subject(subject.kind, subject.namespace))
            yield await stack.enter_async_context(aclosing(self._observe_events(events)))

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return self._watch(subject)

    async def _observe_events(self, events: AsyncIterator[WatchEvent]) -> AsyncGenerator[WatchEvent, None]:
        """Yield the events of a watch. Each event counts as an answer. An interrupted watch counts as silence."""
        while True:
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            except ClusterError as error:
                if _is_silence(error):
                    self.monitor.record_silence()
                raise
            self.monitor.record_answer()
            yield event

    async def close(self) -> None:
        await self.cluster.close()
