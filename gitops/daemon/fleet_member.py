"""One cluster of a fleet, from its credentials to the loop that works on it: engaged as long as Git declares it and it answers.

A cluster that cannot be engaged costs nobody else anything: it is tried again, ever more rarely, and says why.
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
from gitops.daemon.cluster_removal import is_drained
from gitops.daemon.event_router import EventRouter
from gitops.daemon.fleet_environment import ClusterObserver, FleetEnvironment
from gitops.daemon.single_run import SingleRun
from gitops.daemon.source_summaries import summarize_sources
from gitops.errors import GitopsError
from gitops.fleet.cluster_record import ClusterRecord, declared_document
from gitops.fleet.cluster_spec import PAUSED_MESSAGE, ClusterSpec, OnRemove
from gitops.fleet.fleet_recorder import RecordChange
from gitops.fleet.identity import (
    release_cluster,
)
from gitops.fleet.reach import MAX_SILENCE_SECONDS, ReachState, describe_troubles, reach_state
from gitops.fleet.reachable_cluster import ReachableCluster, ReachMonitor
from gitops.leadership import run_while_held
from gitops.lease_thread import ThreadLeadership
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.earlier_objects import EarlierCatalogs
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION, claiming_hub
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster

T = TypeVar("T")

_log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Seconds before a cluster that could not be engaged is tried again: the first time, and at most."""

REMOVAL_CHECK_SECONDS: Final = 5.0
"""Seconds between two looks whether a person has given up the removal of a cluster."""


class _Stopped(GitopsError):
    """The work on a cluster is to end."""


class _Forgotten(GitopsError):
    """A person has given up the removal of a cluster, and says why."""


@dataclass(frozen=True, slots=True)
class ClusterStanding:
    """How a cluster stands, for people: its state, since when, and why it is not Engaged."""

    state: ReachState
    since: datetime
    message: str


@dataclass
class FleetMember:
    """One cluster that Git declares, or declared until it `is_removed`. `observer` hears what is done there.

    `states` gives the sources as the cluster gets them, with those named that it is known to have something of.
    `wake_at` hears when `on_timer` is to be called; None: not at all. `earlier` gives a source at a commit before, as the
    cluster got it. `answers` counts those of its server, by verb and status.
    """

    spec: ClusterSpec
    environment: FleetEnvironment
    states: Callable[[Collection[str]], Sequence[SourceState]]
    observer: ClusterObserver
    wake_at: Callable[[datetime | None], None]
    earlier: EarlierCatalogs
    is_removed: bool = False
    standing: ClusterStanding = field(init=False)
    loop: ClusterLoop | None = field(default=None, init=False)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter, init=False)
    _monitor: ReachMonitor | None = field(default=None, init=False)
    _leads: bool = field(default=False, init=False)
    _lease_holder: str = field(default="", init=False)
    _ended_epoch: int = field(default=0, init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _drained: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _credentials_changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _known_sources: Collection[str] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.standing = ClusterStanding(ReachState.UNREACHABLE, self.environment.clock.now(), "not connected yet")
        if not self.is_removed:
            self.declare(self.spec)

    @property
    def name(self) -> ClusterName:
        return self.spec.name

    async def run(self, *, after: asyncio.Task[None] | None = None) -> None:
        """Engage the cluster again and again, until `stop`; begin once `after`, the work of an earlier member on it, has ended."""
        if after is not None:
            await asyncio.wait({after})
        assert self.spec.access is not None
        with self.environment.credentials.listen(self.spec.access) as self._credentials_changed:
            await self._keep_engaged()

    async def _keep_engaged(self) -> None:
        failed_count = 0
        if not self.environment.recorder.record_of(self.name).state:  # what was recorded holds until it is known better
            self.environment.recorder.update(self.name, self._recorded_standing)
        while not self._stop.is_set():
            begun = asyncio.get_running_loop().time()
            try:
                await self._work_once()
                return
            except _Stopped:
                return
            except _Forgotten as forgotten:
                await self._give_up(str(forgotten))
                return
            except Exception as error:  # it ends the work on no other cluster
                message = self._describe_failure(error)
            if asyncio.get_running_loop().time() - begun > MAX_RETRY_SECONDS:  # it was worked on meanwhile
                failed_count = 0
            self._stand_back(message)
            retry_seconds = exponential_backoff(failed_count, FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
            await wait_for_any(
                self.environment.clock.sleep(retry_seconds), self._stop.wait(), self._credentials_changed.wait()
            )
            failed_count = 0 if self._credentials_changed.is_set() else failed_count + 1
            self._credentials_changed.clear()

    async def _work_once(self) -> None:
        """Do what the declaration says, until `stop`. Raises what ends that before."""
        if self.is_removed:
            await self._remove()
        elif self.spec.is_paused:
            self._stand(ReachState.PAUSED, PAUSED_MESSAGE)
            await self._stop.wait()
        else:
            await self._engage()

    async def run_once(self, run: SingleRun) -> ReconcileResult:
        """Engage the cluster, do this run there, and leave it. Raises NotEngaged, which says why that is not possible."""
        stopping = asyncio.ensure_future(run.stop.wait())
        stopping.add_done_callback(lambda _: self.stop())
        try:
            async with AsyncExitStack() as stack:
                engagement, cluster = await self._unless_stopped(self._connect(stack))
                leadership = await self._unless_stopped(self._lead(stack, engagement, cluster, is_patient=False))
                self._stand(ReachState.ENGAGED, "")
                await self._learn_numbers()
                reconciler = self._create_reconciler(cluster, leadership, run.stop)
                passes = run.reconcile(reconciler, self._states(), self._record_pass, self._take_turn)
                return await run_while_held(leadership.hold(), passes)
        except _Stopped:
            raise NotEngaged("interrupted before anything was done there") from None
        except Exception as error:  # it ends the work on no other cluster
            message = self._describe_failure(error)
            self._stand_back(message)
            raise NotEngaged(message) from None
        finally:
            stopping.cancel()

    def _describe_failure(self, error: Exception) -> str:
        if isinstance(error, ConfigurationError | ClusterError | GitopsError):
            return str(error)
        _log.debug("the work on cluster %s has failed", self.name, exc_info=error)
        return f"a fault of Levelgate has ended the work here ({type(error).__name__}: {error})"

    def declare(self, spec: ClusterSpec) -> None:
        """Go by what Git says of the cluster now, and keep it on record: it says how the cluster is removed."""
        self.spec = spec
        self.environment.recorder.update(self.name, {"declared": declared_document(spec)})

    def stop(self) -> None:
        """Finish the rounds under way, and begin no other."""
        self._stop.set()

    def sources_changed(self) -> None:
        """Look at what the sources say otherwise now."""
        if self.loop is not None:
            self.loop.sources_changed()

    def resync(self) -> None:
        """Look at everything anew; where the cluster is not engaged, it is looked at when it is."""
        if self.loop is not None:
            self.loop.resync()

    def on_timer(self) -> None:
        """Look at whom the time alone concerns now."""
        if self.loop is not None:
            self.loop.on_timer()

    async def _remove(self) -> None:
        """Take what we have from the cluster, as `onRemove` says, then forget it. Raises what is in the way."""
        recorder = self.environment.recorder
        if (record := await recorder.refresh(self.name)) is None:
            return
        self._raise_if_forgotten(record)
        self._known_sources = tuple(record.sources)
        if self.standing.state is not ReachState.REMOVED:
            self._stand(ReachState.REMOVED, f"no longer declared in Git; {self.spec.on_remove.outcome}")
        await recorder.write(self.name, {**self._recorded_standing, "declared": declared_document(self.spec)})
        if record.uid:  # nothing was ever written to one that was never engaged
            await self._engage()
        await recorder.delete(self.name)
        self.observer.print_notice("cluster", "removed")

    async def _give_up(self, why: str) -> None:
        """A person has ended the removal; what lives in the cluster is theirs."""
        self.observer.print_notice("cluster", f"its removal was given up: {why}; what lives there stays")
        try:
            await self.environment.recorder.delete(self.name)
        except ClusterError as error:
            self.observer.print_notice("cluster", f"its record stays until the next start: {error}")

    def _raise_if_forgotten(self, record: ClusterRecord) -> None:
        if record.forgotten:
            raise _Forgotten(record.forgotten)

    async def _until_given_up(self) -> NoReturn:
        """Raises what ends the removal for now, Unavailable, or for good, _Forgotten: a cluster may answer and keep what is to go."""
        while True:
            await self.environment.clock.sleep(REMOVAL_CHECK_SECONDS)
            assert self._monitor is not None
            self._monitor.check()
            if record := await self.environment.recorder.refresh(self.name):
                self._raise_if_forgotten(record)

    async def _release(self, cluster: Cluster) -> None:
        """Take this hub's mark from the cluster; that of another hub stays."""
        if claiming_hub(await cluster.get(INSTALLATION)) == self.environment.hub_id:
            await release_cluster(cluster)

    async def _engage(self) -> None:
        """Work on the cluster, until it is to stop, or has nothing left of what is to go. Raises what ends that before."""
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
        if self.is_removed and self.spec.on_remove is OnRemove.ORPHAN:
            await self._unless_stopped(engagement.identify(cluster))
            await self._unless_stopped(self._release(cluster))
            return
        leadership = await self._unless_stopped(self._lead(stack, engagement, cluster, is_patient=True))
        self._reach_changed()
        await run_while_held(leadership.hold(), self._work_or_drain(cluster, leadership))

    async def _work_or_drain(self, cluster: Cluster, leadership: ThreadLeadership) -> None:
        if not self.is_removed:
            await self._work(cluster, leadership, self._stop)
            return
        self._drained = asyncio.Event()
        async with _linked(self._stop, self._drained) as finished:
            await run_while_held(self._until_given_up(), self._work(cluster, leadership, finished))
        if not self._drained.is_set():
            raise _Stopped
        await self._release(cluster)

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return what it comes to. Raises _Stopped where `stop` comes before that: nothing of it is written any more."""
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
        """Tell who leads in the cluster; empty: nobody that is known."""
        self._lease_holder = holder
        self._reach_changed()

    def _end_term(self, leadership: ThreadLeadership) -> None:
        """Nothing is written in this term any more, so the next engagement waits for it no longer than for a free Lease."""
        self._leads, self._ended_epoch = False, leadership.epoch

    async def _learn_numbers(self) -> None:
        """Wait until revisions can be numbered: a pass that met new ones before would hold the instances of all of them."""
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
        reconciler.follows = frozenset(state.catalog.source for state in self._states())
        return reconciler

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
        """Return how often the cluster has answered; status 0 stands for calls without an answer."""
        return sum(count for (_, status), count in self.answers.items() if status)

    def _states(self) -> Sequence[SourceState]:
        return self.states(self._known_sources)

    def _on_pass(self, result: ReconcileResult) -> None:
        self.observer.report_pass(result)
        self.wake_at(result.propagation.wake_at)
        self._record_pass(result)
        if self.is_removed and not result.changed and is_drained(result):
            self._drained.set()
        elif self.is_removed and result.changed and self.loop is not None:
            self.loop.enqueue(None)

    def _record_pass(self, result: ReconcileResult) -> None:
        self.environment.recorder.update_sources(self.name, partial(summarize_sources, result))

    def _reach_changed(self) -> None:
        if self._monitor is None or self.is_removed:
            return
        state = reach_state(self._monitor.reach, is_paused=False, is_removed=False)
        if state is ReachState.ENGAGED and not self._leads:  # what it had before may be old, and nothing is written yet
            if self._lease_holder:
                self._stand(ReachState.DEGRADED, f"waits for the lease: {self._lease_holder} leads")
            return
        self._stand(state, "; ".join(describe_troubles(self._monitor.reach)))

    def _stand_back(self, message: str) -> None:
        """Say why nothing is done for now. Others do not wait any longer for what this cluster says."""
        self.environment.recorder.sources.hear(self.name, {})
        if self.is_removed:
            give_up = f"`levelgate cluster forget {self.name} --reason ...` gives it up"
            self._stand(ReachState.REMOVED, f"no longer declared in Git; waits until it answers; {give_up} ({message})")
        else:
            self._stand(ReachState.UNREACHABLE, message)

    def _stand(self, state: ReachState, message: str) -> None:
        if (state, message) != (self.standing.state, self.standing.message):
            since = self.environment.clock.now() if state != self.standing.state else self.standing.since
            self.standing = ClusterStanding(state, since, message)
            self.environment.recorder.update(self.name, self._recorded_standing)
            self.observer.print_notice("cluster", f"{state}: {message}" if message else str(state))

    @property
    def _recorded_standing(self) -> RecordChange:
        standing = self.standing
        return {"state": str(standing.state), "message": standing.message, "since": standing.since}


@asynccontextmanager
async def _linked(*events: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set as soon as any of these is."""
    any_set = asyncio.Event()

    async def follow() -> None:
        await wait_for_any(*(event.wait() for event in events))
        any_set.set()

    task = asyncio.ensure_future(follow())
    try:
        yield any_set
    finally:
        task.cancel()
