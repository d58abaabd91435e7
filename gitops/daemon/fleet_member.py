"""Work on one cluster of a fleet: from the credentials and the Lease to the loop that reconciles the cluster.

If the engagement of a cluster fails, its member reports the reason, and retries with backoff. The failure delays no
other cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from applier.backoff import exponential_backoff
from applier.cluster import Cluster, ClusterName
from applier.errors import ClusterError, ConfigurationError
from applier.fenced_cluster import FencedCluster
from gitops.clock import wait_for_any
from gitops.daemon.cluster_engagement import ClusterEngagement, NotEngaged
from gitops.daemon.cluster_loop import ClusterLoop
from gitops.daemon.cluster_removal import ClusterRemoval, RemovalGivenUp, is_drained
from gitops.daemon.cluster_standing import ClusterStanding, StandingReporter
from gitops.daemon.event_router import EventRouter
from gitops.daemon.fleet_environment import ClusterObserver, FleetEnvironment
from gitops.daemon.single_run import SingleRun
from gitops.daemon.source_summaries import summarize_sources
from gitops.errors import GitopsError
from gitops.fleet.cluster_record import declared_document
from gitops.fleet.cluster_spec import PAUSED_MESSAGE, ClusterSpec
from gitops.fleet.reach import MAX_SILENCE_SECONDS, ReachState, describe_troubles, reach_state
from gitops.fleet.reachable_cluster import ReachableCluster, ReachMonitor
from gitops.leadership import run_while_held
from gitops.lease_thread import ThreadLeadership
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.earlier_objects import EarlierCatalogs
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster

T = TypeVar("T")

_log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Longest wait in seconds before another attempt to engage a cluster."""


class _Stopped(GitopsError):
    """End of the work on a cluster after `FleetMember.stop`."""


@dataclass
class FleetMember:
    """Work on one cluster that Git declares. If Git no longer declares the cluster, the work is its removal."""

    spec: ClusterSpec
    environment: FleetEnvironment
    states: Callable[[Collection[str]], Sequence[SourceState]]
    """Function that returns the projections of the sources, given the names of the sources on record in the cluster."""

    observer: ClusterObserver
    wake_at: Callable[[datetime | None], None]
    """Receiver of the time at which the caller has to call `on_timer`, or of None if no call is due."""

    earlier: EarlierCatalogs
    """Reader of a source at an earlier commit, projected to the cluster."""

    is_removed: bool = False
    """True if Git no longer declares the cluster."""

    loop: ClusterLoop | None = field(default=None, init=False)
    """Loop that reconciles the cluster, or None while the cluster is not engaged."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter, init=False)
    """Number of responses of the server, by verb and status. Status 0 means no response."""

    _reporter: StandingReporter = field(init=False)
    _removal: ClusterRemoval | None = field(default=None, init=False)
    _monitor: ReachMonitor | None = field(default=None, init=False)
    _leads: bool = field(default=False, init=False)
    _lease_holder: str = field(default="", init=False)
    _ended_epoch: int = field(default=0, init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _credentials_changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _known_sources: Collection[str] = field(default=(), init=False)

    def __post_init__(self) -> None:
        environment = self.environment
        self._reporter = StandingReporter(self.name, environment.recorder, environment.clock, self.observer)
        if self.is_removed:
            self._removal = ClusterRemoval(self.spec, environment, self._reporter)

    @property
    def name(self) -> ClusterName:
        return self.spec.name

    @property
    def standing(self) -> ClusterStanding:
        """Return the state of the cluster for users."""
        return self._reporter.standing

    async def run(self, *, after: asyncio.Task[None] | None = None) -> None:
        """Keep the cluster engaged until `stop`.

        Args:
            after: task of an earlier member of the cluster. The work starts after the end of this task.
        """
        if after is not None:
            await asyncio.wait({after})
        assert self.spec.access is not None
        with self.environment.credentials.listen(self.spec.access) as self._credentials_changed:
            await self._keep_engaged()

    async def _keep_engaged(self) -> None:
        failed_count = 0
        # After a restart, the recorded state stays visible until the first attempt to engage the cluster.
        if not self.environment.recorder.record_of(self.name).state:
            self._reporter.record()
        while not self._stop.is_set():
            begun = asyncio.get_running_loop().time()
            try:
                await self._work_once()
                return
            except _Stopped:
                return
            except RemovalGivenUp as given_up:
                assert self._removal is not None
                await self._removal.give_up(str(given_up))
                return
            except Exception as error:  # a failure here must not end the work on other clusters
                message = self._describe_failure(error)
            if asyncio.get_running_loop().time() - begun > MAX_RETRY_SECONDS:  # a long attempt means an engaged cluster
                failed_count = 0
            self._stand_back(message)
            retry_seconds = exponential_backoff(failed_count, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
            await wait_for_any(
                self.environment.clock.sleep(retry_seconds), self._stop.wait(), self._credentials_changed.wait()
            )
            failed_count = 0 if self._credentials_changed.is_set() else failed_count + 1
            self._credentials_changed.clear()

    async def _work_once(self) -> None:
        """Engage, pause or remove the cluster as declared, until `stop`. Raises: the error that stops the work."""
        if self._removal is not None:
            await self._remove(self._removal)
        elif self.spec.is_paused:
            self._reporter.report(ReachState.PAUSED, PAUSED_MESSAGE)
            await self._stop.wait()
        else:
            await self._engage()

    async def run_once(self, run: SingleRun) -> ReconcileResult:
        """Engage the cluster, do a single run there, and release the Lease. Raises: NotEngaged with the reason."""
        stopping = asyncio.ensure_future(run.stop.wait())
        stopping.add_done_callback(lambda _: self.stop())
        try:
            async with AsyncExitStack() as stack:
                engagement, cluster = await self._unless_stopped(self._connect(stack))
                leadership = await self._unless_stopped(self._lead(stack, engagement, cluster, is_patient=False))
                self._reporter.report(ReachState.ENGAGED, "")
                await self._learn_numbers()
                reconciler = self._create_reconciler(cluster, leadership, run.stop)
                passes = run.reconcile(reconciler, self._states(), self._record_pass, self._take_turn)
                return await run_while_held(leadership.hold(), passes)
        except _Stopped:
            raise NotEngaged("interrupted before the reconciliation of the cluster") from None
        except Exception as error:  # a failure here must not end the work on other clusters
            message = self._describe_failure(error)
            self._stand_back(message)
            raise NotEngaged(message) from None
        finally:
            stopping.cancel()

    def _describe_failure(self, error: Exception) -> str:
        if isinstance(error, ConfigurationError | ClusterError | GitopsError):
            return str(error)
        _log.debug("the work on cluster %s has failed", self.name, exc_info=error)
        return (
            f"a fault of Levelgate has ended the work on cluster {self.name} ({type(error).__name__}: {error}); "
            "report the fault with the log; a daemon tries again by itself"
        )

    def declare(self, spec: ClusterSpec) -> None:
        """Set and record the cluster's declaration from Git.

        A later removal needs the `onRemove` of this declaration.
        """
        self.spec = spec
        self.environment.recorder.update(self.name, {"declared": declared_document(spec)})

    def stop(self) -> None:
        """End the work after the current rounds."""
        self._stop.set()

    def sources_changed(self) -> None:
        """Enqueue the roots that differ in the new states of the sources, and follow newly read sources too."""
        if self.loop is not None:
            self.loop.reconciler.follows = self._followed_sources
            self.loop.sources_changed()

    def resync(self) -> None:
        """Enqueue a full reconciliation of an engaged cluster.

        If the cluster is not engaged, do nothing, because each engagement starts with a full reconciliation.
        """
        if self.loop is not None:
            self.loop.resync()

    def on_timer(self) -> None:
        """Enqueue the roots that are due because time has passed."""
        if self.loop is not None:
            self.loop.on_timer()

    async def _remove(self, removal: ClusterRemoval) -> None:
        """Carry out `onRemove` in the cluster, and delete its record. Raises: the error that prevents the removal."""
        if (record := await removal.begin()) is None:
            return
        self._known_sources = tuple(record.sources)
        if record.uid:  # without an engagement, the cluster contains no object of Levelgate
            await self._engage()
        await removal.finish()

    async def _engage(self) -> None:
        """Connect to the cluster and reconcile the cluster until `stop`, or until a removed cluster is drained.

        Raises: the error that ends the engagement earlier.
        """
        async with AsyncExitStack() as stack:
            engagement, cluster = await self._unless_stopped(self._connect(stack))
            unreachable = self.spec.timeouts.unreachable
            self._monitor = ReachMonitor(
                self.name,
                cluster.probe,
                self.environment.clock,
                self._reach_changed,
                delayed_requests=lambda: cluster.delayed_requests,
                max_silence_seconds=MAX_SILENCE_SECONDS if unreachable is None else unreachable.total_seconds(),
            )
            reachable = ReachableCluster(cluster, self._monitor)
            renewing = engagement.renew_credentials(cluster.renew_credentials)
            await run_while_held(
                self._monitor.keep_probing(), run_while_held(renewing, self._take_over(stack, engagement, reachable))
            )

    async def _connect(self, stack: AsyncExitStack) -> tuple[ClusterEngagement, KubeCluster]:
        engagement = ClusterEngagement(self.spec, self.environment, self._credentials_changed)
        cluster = await engagement.connect(stack)
        self.answers = cluster.answers
        return engagement, cluster

    async def _take_over(self, stack: AsyncExitStack, engagement: ClusterEngagement, cluster: Cluster) -> None:
        """Lead in a connected cluster, and reconcile the cluster.

        For a removal that keeps objects, only release the cluster.
        """
        if self._removal is not None and self._removal.keeps_objects:
            # Without writes to objects, the work needs neither the mark of this hub nor the Lease.
            await self._unless_stopped(engagement.identify(cluster))
            await self._unless_stopped(self._removal.release(cluster))
            return
        leadership = await self._unless_stopped(self._lead(stack, engagement, cluster, is_patient=True))
        self._reach_changed()
        await run_while_held(leadership.hold(), self._work_or_drain(cluster, leadership))

    async def _work_or_drain(self, cluster: Cluster, leadership: ThreadLeadership) -> None:
        """Reconcile the cluster until `stop`. If Git no longer declares the cluster, drain and release the cluster."""
        removal, monitor = self._removal, self._monitor
        if removal is None:
            await self._work(cluster, leadership, self._stop)
            return
        assert monitor is not None
        removal.drained.clear()
        async with _linked(self._stop, removal.drained) as finished:
            waiting = removal.wait_until_given_up(monitor)
            await run_while_held(waiting, self._work(cluster, leadership, finished))
        if not removal.drained.is_set():
            raise _Stopped
        await removal.release(cluster)

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return the result of `waiting`. After `stop`, cancel `waiting` before it writes, and raise _Stopped."""
        return await run_while_held(self._until_stopped(), waiting)

    async def _until_stopped(self) -> NoReturn:
        await self._stop.wait()
        raise _Stopped

    async def _lead(
        self, stack: AsyncExitStack, engagement: ClusterEngagement, cluster: Cluster, *, is_patient: bool
    ) -> ThreadLeadership:
        self._lease_holder = ""
        leadership = await engagement.lead(
            stack, cluster, ended_epoch=self._ended_epoch, on_wait=self._wait_for_lease, is_patient=is_patient
        )
        self._leads = True
        stack.callback(self._end_term, leadership)
        return leadership

    def _wait_for_lease(self, holder: str) -> None:
        """Note that another process leads in the cluster.

        Args:
            holder: name of the leading process, or an empty string if the name is unknown.
        """
        self._lease_holder = holder
        self._reach_changed()

    def _end_term(self, leadership: ThreadLeadership) -> None:
        """Note the end of this term of the Lease, so that the next engagement does not wait for the Lease to expire."""
        self._leads, self._ended_epoch = False, leadership.epoch

    async def _learn_numbers(self) -> None:
        """Wait for the numbers of revisions. A reconciliation before that would hold all instances of new revisions."""
        sources = [state.catalog.source for state in self._states() if state.catalog.definitions]
        await self._unless_stopped(self.environment.recorder.sources.wait_until_heard(sources))

    def _create_reconciler(self, cluster: Cluster, leadership: ThreadLeadership, stop: asyncio.Event) -> Reconciler:
        environment = self.environment
        reconciler = Reconciler(
            FencedCluster(cluster, leadership.check),
            environment.version,
            environment.clock,
            self.name,
            self.observer.print_result,
            stopping=stop.is_set,
            facts=environment.facts,
            lead=leadership,
            stage=environment.stage_of(self.name),
            numbering=environment.recorder.sources,
        )
        reconciler.heal_from(self.earlier)
        reconciler.follows = self._followed_sources
        return reconciler

    @property
    def _followed_sources(self) -> frozenset[str]:
        return frozenset(state.catalog.source for state in self._states())

    async def _work(self, cluster: Cluster, leadership: ThreadLeadership, stop: asyncio.Event) -> None:
        environment = self.environment
        await self._learn_numbers()
        reconciler = self._create_reconciler(cluster, leadership, stop)
        loop = ClusterLoop(
            reconciler=reconciler,
            clock=environment.clock,
            elapsed=asyncio.get_running_loop().time,
            states=self._states,
            on_pass=self._on_pass,
            notice=self.observer.print_notice,
            max_concurrent=environment.max_concurrent,
            whole_pass_turn=self._take_turn,
        )
        async with EventRouter(reconciler, loop.enqueue, partial(self.observer.print_notice, "cluster")) as router:
            loop.event_router = router
            self.loop = loop
            try:
                await loop.run(stop)
            finally:
                self.loop = None

    def _take_turn(self) -> AbstractAsyncContextManager[None]:
        return self.environment.turns.take(self._count_answers)

    def _count_answers(self) -> int:
        """Return the number of responses from the cluster."""
        return sum(count for (_, status), count in self.answers.items() if status)

    def _states(self) -> Sequence[SourceState]:
        return self.states(self._known_sources)

    def _on_pass(self, result: ReconcileResult) -> None:
        self.observer.report_pass(result)
        self.wake_at(result.propagation.wake_at)
        self._record_pass(result)
        if self._removal is None:
            return
        if not result.changed and is_drained(result):
            self._removal.drained.set()
        elif result.changed and self.loop is not None:  # only a full pass without a change proves an empty cluster
            self.loop.enqueue(None)

    def _record_pass(self, result: ReconcileResult) -> None:
        self.environment.recorder.update_sources(self.name, partial(summarize_sources, result))

    def _reach_changed(self) -> None:
        if self._monitor is None or self.is_removed:
            return
        state = reach_state(self._monitor.reach, is_paused=False, is_removed=False)
        if state is ReachState.ENGAGED and not self._leads:  # without the Lease, the cluster is not engaged yet
            if self._lease_holder:
                self._reporter.report(ReachState.DEGRADED, f"waits for the lease: {self._lease_holder} leads")
            return
        self._reporter.report(state, "; ".join(describe_troubles(self._monitor.reach)))

    def _stand_back(self, message: str) -> None:
        """Report why the work on the cluster pauses, so that other clusters stop waiting for its revision numbers."""
        self.environment.recorder.sources.hear(self.name, {})
        if self._removal is not None:
            self._removal.stand_back(message)
        else:
            self._reporter.report(ReachState.UNREACHABLE, message)


@asynccontextmanager
async def _linked(*events: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set as soon as any of `events` is set."""
    any_set = asyncio.Event()

    async def follow() -> None:
        await wait_for_any(*(event.wait() for event in events))
        any_set.set()

    task = asyncio.ensure_future(follow())
    try:
        yield any_set
    finally:
        task.cancel()
