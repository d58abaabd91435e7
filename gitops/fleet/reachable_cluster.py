"""A cluster that is asked only while it answers: calls fail at once while it does not, and each call tells whether it does.

What counts: a call that ends without an HTTP status has found no answer, whatever else is an answer. What is raised before anything is sent (a write
that the Lease forbids, a manifest that is no JSON) and an answer from memory (discovery) tell nothing.
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
"""Seconds that a probe may take."""

_DISCOVERY: Final = "discovery"


@dataclass
class ReachMonitor:
    """How one cluster answers, as all its users see it. `probe` asks it for anything, once, and raises ClusterError or ConfigurationError where it
    does not answer. `on_change` is told when the state may be another one. `delayed_requests` counts those that waited for their turn here: such a
    call says nothing of how slow the server is. `max_silence_seconds`: see `Reach`.
    """

    name: ClusterName
    probe: Callable[[], Awaitable[object]]
    clock: Clock
    on_change: Callable[[], None] = lambda: None
    delayed_requests: Callable[[], int] = lambda: 0
    max_silence_seconds: float = reach.MAX_SILENCE_SECONDS
    elapsed: Callable[[], float] = time.monotonic
    rng: Callable[[], float] = random.random
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.reach = reach.begin_reach(self.elapsed(), max_silence_seconds=self.max_silence_seconds)
        self._opened = asyncio.Event()

    @property
    def unreachable_since(self) -> datetime | None:
        """When it began not to answer, by the machine's clock as it is now; None where it answers."""
        begun = self.reach.silent_since
        is_silent = self.reach.is_open or not self.reach.has_answered
        if not is_silent or begun is None:
            return None
        return self.clock.now() - timedelta(seconds=self.elapsed() - begun)

    def check(self) -> None:
        """Raises Unavailable while the breaker is open: nothing is sent."""
        if self.reach.is_open and (since := self.unreachable_since):
            raise Unavailable(
                f"cluster {self.name} has not answered since {timestamp(since)}; it is tried again by itself, "
                "and nothing else is sent there until it answers"
            )

    async def keep_probing(self) -> NoReturn:
        """Until cancelled: probe the cluster while it does not answer."""
        while True:
            await self._opened.wait()
            if (wait_seconds := self.reach.probe_at - self.elapsed()) > 0:
                await self.clock.sleep(wait_seconds)
            if not await self.probe_if_due():
                await self.clock.sleep(1.0)  # somebody else has sent one

    async def probe_if_due(self) -> bool:
        """Send the one request of a half-open breaker, where it is time for it and none is under way. False where none was sent."""
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
        finally:  # also where it is broken off: or none would ever be sent again
            self._set(reach.end_probe(self.reach, self.elapsed(), is_answered=is_answered, jitter=self.rng()))
        return True

    async def observe(self, call: Awaitable[T], *, subject: str = "", tells_answer: bool = True) -> T:
        """The outcome of a call, which is sent and watched. `subject` is what is known to be readable by it, or not. `tells_answer`: it
        cannot end well without an answer. Raises what the call raises, and Unavailable where credentials can no longer be read.
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
        self._set(reach.record_answer(self.reach, seconds=seconds))

    def record_silence(self) -> None:
        self._set(reach.record_failure(self.reach, self.elapsed(), jitter=self.rng()))

    def note_discovery(self, discovery: Discovery) -> None:
        """Groups of which it is not known what they have cannot be read."""
        message = (
            "the API server of " + ", ".join(sorted(discovery.stale_groups)) + " does not answer; see its APIService"
        )
        changed = (
            reach.record_trouble(self.reach, _DISCOVERY, message)
            if discovery.stale_groups
            else reach.clear_trouble(self.reach, _DISCOVERY)
        )
        self._set(changed)

    def _answer_seconds(self, begun: float, delayed: int) -> float:
        """Return how long a call took that `begun` when so many requests had waited; none where one has waited since."""
        return self.elapsed() - begun if self.delayed_requests() == delayed else 0.0

    def _record_error(self, error: ClusterError, seconds: float, subject: str) -> None:
        if _is_silence(error):
            self.record_silence()
        elif error.status:
            self.record_answer(seconds)
            if subject == _DISCOVERY or (subject and isinstance(error, Denied | Unavailable)):
                self._set(reach.record_trouble(self.reach, subject, str(error)))
            elif subject:  # there is none to be read, or it can be read now and not then
                self._set(reach.clear_trouble(self.reach, subject))

    def _set(self, changed: Reach) -> None:
        if changed == self.reach:
            return
        self.reach = changed
        (self._opened.set if changed.is_open else self._opened.clear)()
        self.on_change()


def _is_silence(error: ClusterError) -> bool:
    return isinstance(error, Unavailable | UnknownOutcome) and not error.status


@dataclass
class ReachableCluster:
    """See `applier.cluster.Cluster`. While the breaker of `monitor` is open every call raises Unavailable, and none is sent. `tells_troubles`: what
    may not be listed or watched is missing to us, and not only to the user in whose name it is asked for.
    """

    cluster: Cluster
    monitor: ReachMonitor
    tells_troubles: bool = True
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
        """What happens, as long as it does: an event is an answer, and the break of a watch is none."""
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
