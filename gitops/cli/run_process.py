"""The process of `levelgate run`: connections, the lead, signals, and who is told of the work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from applier.fenced_cluster import FencedCluster
from applier.kube.cluster import KubeCluster
from gitops import source_config, tracing
from gitops.cli import INTERRUPTED, program_version
from gitops.cli.options import ClusterChoice
from gitops.cli.progress import ProgressPrinter
from gitops.cli.terminal import echo
from gitops.clock import SystemClock
from gitops.config import Config
from gitops.config.address import DEFAULT, ListenAddress, address
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.daemon.source_hints import SyncHintForwarder
from gitops.external_facts import ExternalFactPoller
from gitops.instrumentation import combine as all_told
from gitops.leadership import Leadership, own_identity, while_held
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from gitops.daemon.daemon import Daemon
    from gitops.server.observability import Observability

T = TypeVar("T")

_THREADS: Final = 64
"""They wait for Git servers, nearly all of the time; those that hang must leave some to the others."""
_LAST_WORDS: Final = 10.0
"""Seconds that the end waits for receivers of notifications."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """Follows the sources of `config`, which was read from `file`; None: it came from flags. `conclude` makes the exit code of what `once` found."""

    config: Config
    file: Path | None
    progress: ProgressPrinter
    choice: ClusterChoice
    concurrency: int
    max_concurrent: int
    agreed: str
    resync: timedelta
    listen: str
    conclude: Callable[[ReconcileResult, Follower], int]

    async def run(self, wait: timedelta | None) -> int:
        """Connect, then follow until it is done (`wait` given) or interrupted. Answers the exit code."""
        async with AsyncExitStack() as stack:
            if self.choice.sandbox:
                await self._sandbox(stack)
            cluster = await stack.enter_async_context(self.choice.connected(concurrency=self.concurrency, patience=inf))
            clock = SystemClock()
            stop = asyncio.Event()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
            own = await stack.enter_async_context(self.choice.connected(concurrency=2, patience=inf))
            configuration = LiveConfig(self.config, self.file, self.progress.notice)
            leadership = Leadership(own, own_identity(), clock)
            tracer = stack.enter_context(tracing.tracing(program_version()))
            fenced = (
                tracing.TracedCluster(cluster, leadership.check, tracer)
                if tracer
                else FencedCluster(cluster, leadership.check)
            )
            externals = ExternalFactPoller(clock)
            is_daemon = wait is None
            where = address(self.listen or str(DEFAULT)) if is_daemon else None
            seen = _seen(cluster, clock, leadership) if where else None
            stage = all_told(tracing.stage_of(tracer), *([seen.stage] if seen else []))
            reconciler = Reconciler(
                fenced,
                program_version(),
                clock,
                self.config.cluster,
                _each(self.progress.result, seen.report if seen else None),
                stop.is_set,
                externals.facts,
                leadership,
                stage,
            )
            follower = Follower(
                source_config.mirrors(self.config.sources, stopping=stop.is_set),
                reconciler,
                clock,
                stop,
                self.progress.notice,
                _each(self.progress.passed if is_daemon else self.progress.summary, seen.passed if seen else None),
                configs={one.name: one for one in self.config.sources},
                stage=stage,
                max_concurrent=self.max_concurrent,
            )
            told = ", ".join(
                f"{one.name} every {one.interval.total_seconds():g}s" if is_daemon else one.name
                for one in self.config.sources
            )
            ends = ". Ctrl-C stops safely" if is_daemon else ""
            self.progress.header(f"levelgate {program_version()}, cluster {cluster.name}, {told}{ends}.")
            working = partial(self._once, follower, externals, wait or timedelta())
            if is_daemon:
                daemon = self._daemon(follower, externals, configuration)
                working = partial(_forever, daemon)
                await stack.enter_async_context(configuration.followed())
                if seen and where:
                    hints = SyncHintForwarder(own, clock, lambda: leadership.leads, follower.poll)
                    await self._serve(stack, seen.serving(where, follower, hints.take, configuration))
            work = asyncio.ensure_future(self._leading(leadership, follower, working, patient=is_daemon))
            with self.progress:
                return await _until_signalled(work, stop)

    async def _serve(self, stack: AsyncExitStack, serving: AbstractAsyncContextManager[ListenAddress]) -> None:
        """Where nobody named the address, it is no reason not to work that it is taken."""
        from gitops.server.http import NotListening

        try:
            bound = await stack.enter_async_context(serving)
        except NotListening as error:
            if self.listen:
                raise
            self.progress.header(f"No status page: {error}")
            return
        host = str(bound) if bound.host else f"all addresses, port {bound.port}"
        self.progress.header(f"Status page, health and metrics: {f'http://{host}/' if bound.host else host}")

    async def _leading(
        self,
        leadership: Leadership,
        follower: Follower,
        work: Callable[[], Coroutine[None, None, int]],
        *,
        patient: bool,
    ) -> int:
        """Work as long as this process leads. Raises NotLeading where another one does, or from when on that may be."""
        waits = partial(self.progress.notice, "cluster")
        acquiring = leadership.acquire(lambda other: waits(f"waits for the lead: {other} works"), patient=patient)
        if not await _unless(follower.stop, acquiring):
            return INTERRUPTED
        try:
            return await while_held(leadership.hold(), work())
        finally:
            await leadership.release()

    async def _sandbox(self, stack: AsyncExitStack) -> None:
        """Use the sandbox that runs; where none does, serve one for as long as this command runs."""
        from gitops import sandbox

        if await sandbox.find():
            return
        running = await stack.enter_async_context(sandbox.serving())
        self.progress.header(
            "A sandbox, no cluster: it answers like one, nothing runs in it, and it goes with this command.\n"
            f"kubectl --kubeconfig {running.kubeconfig} get namespaces"
        )

    async def _once(self, follower: Follower, externals: ExternalFactPoller, wait: timedelta) -> int:
        from gitops.notifications import Delivery

        externals.declare(self.config.externals)
        await asyncio.gather(*map(externals.ask, self.config.externals))
        delivery = Delivery(follower.reconciler.cluster.name, follower.clock, self.progress.notice)
        delivery.configure(self.config.notifications)
        follower.reconciler.on_transitions = delivery.take
        with closing(delivery):
            found = await follower.once(wait=wait, insist=self._insist(follower) if self.agreed else None)
            await delivery.finish(_LAST_WORDS)
        return self.conclude(found, follower)

    def _insist(self, follower: Follower) -> Callable[[SourceState], Coroutine[None, None, None]]:
        from gitops.daemon.agreement import require_plan_hash

        one = follower.reconciler
        return lambda state: require_plan_hash(one.cluster, state, self.agreed, clock=one.clock, cluster_name=one.name)

    def _daemon(self, follower: Follower, externals: ExternalFactPoller, configuration: LiveConfig) -> Daemon:
        from gitops.daemon.daemon import Daemon

        return Daemon(follower, externals, configuration, self.progress.notice, self.resync)


async def _forever(daemon: Daemon) -> int:
    await daemon.run()
    return 0


def _seen(cluster: KubeCluster, clock: SystemClock, leadership: Leadership) -> Observability:
    from gitops.server.observability import Observability

    return Observability(cluster, program_version(), clock, lambda: leadership.leads, lambda: leadership.stands_by)


def _each(*acts: Callable[[T], None] | None) -> Callable[[T], None]:
    """All of these, one after the other."""

    def act(told: T) -> None:
        for one in acts:
            if one is not None:
                one(told)

    return act


async def _unless(stop: asyncio.Event, awaited: Coroutine[None, None, None]) -> bool:
    """Did it come to its end before it was to stop?"""
    task, stopped = asyncio.ensure_future(awaited), asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        await task
        return True
    task.cancel()
    return False


async def _until_signalled(work: asyncio.Future[int], stop: asyncio.Event) -> int:
    """Run to the end. At SIGINT or SIGTERM finish the requests under way and begin no other; at the second one break off at once."""

    def signalled() -> None:
        if stop.is_set():
            work.cancel()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    try:
        code = await work
    except asyncio.CancelledError:
        code = INTERRUPTED
    if not stop.is_set():
        return code
    echo("interrupted; the next start goes on where this one stopped", err=True)
    return INTERRUPTED
