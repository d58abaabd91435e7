"""Process of `levelgate run`: connections, leadership, signals, and observers of the reconciliations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from applier.cluster import LOCAL_CLUSTER, Cluster
from applier.fenced_cluster import FencedCluster
from applier.kube.cluster import KubeCluster
from gitops import source_config, tracing
from gitops.cli import EXIT_INTERRUPTED, program_version
from gitops.cli.allocator import return_freed_memory
from gitops.cli.options import ClusterChoice
from gitops.cli.progress import ProgressPrinter
from gitops.cli.terminal import echo, on_stop_signal
from gitops.clock import SystemClock
from gitops.config import Config
from gitops.config.fields import DEFAULT_ADDRESS, ListenAddress, parse_address
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.daemon.source_hints import SyncHintForwarder
from gitops.durations import format_duration
from gitops.errors import SourceError
from gitops.external_facts import ExternalFactPoller
from gitops.instrumentation import Stage, combine
from gitops.leadership import LEASE_TIMES, own_identity, run_while_held
from gitops.lease_thread import LeaseThread, ThreadLeadership
from gitops.loop_watch import LoopWatch
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from renderer.frozen import dataclass
from renderer.identity import GroupKind

if TYPE_CHECKING:
    from gitops.daemon.daemon import Daemon
    from gitops.daemon.fleet import Fleet
    from gitops.daemon.single_run import FleetRun
    from gitops.server.observability import Observability

T = TypeVar("T")

_MAX_THREADS: Final = 64
"""Maximum number of threads. Most threads wait for Git servers, and a server that hangs must not occupy all threads."""
_NOTIFICATION_TIMEOUT_SECONDS: Final = 10.0
"""Maximum time in seconds for which `run --once` waits for receivers of notifications at the end."""


@dataclass(kw_only=True)
class Process:
    """Controller of one cluster or fleet, from the connection to the end of the last request."""

    config: Config
    file: Path | None
    """File of `config`, which the process follows, or None if the command line gives `config`."""
    progress: ProgressPrinter
    choice: ClusterChoice
    sandbox_clusters: int
    """Number of further clusters in a sandbox that this process starts."""
    concurrency: int
    max_concurrent: int
    required_plan_hash: str
    """Hash of the only plan that the process may carry out, or an empty string for any plan."""
    resync: timedelta
    listen: str
    """Address of the status page as text, `off`, or an empty string for the default."""
    make_exit_code: Callable[[ProgressPrinter, ReconcileResult, list[SourceError]], int]
    """Function that prints the last lines of a single run in one cluster, and returns the exit code."""

    async def run(self, wait: timedelta | None) -> int:
        """Connect, reconcile until a signal arrives, and return the exit code.

        With `wait`, reconcile once instead, and wait for at most `wait` until instances in flight settle.
        """
        return_freed_memory()
        async with AsyncExitStack() as stack:
            if self.choice.sandbox:
                await self._start_sandbox(stack)
            cluster = await stack.enter_async_context(
                self.choice.connect(concurrency=self.concurrency, timeout_seconds=inf)
            )
            clock = SystemClock()
            stop = asyncio.Event()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_MAX_THREADS))
            configuration = LiveConfig(self.config, self.file, self.progress.print_notice)
            connect = partial(self.choice.connect, concurrency=2, timeout_seconds=inf)
            loop_watch = await stack.enter_async_context(LoopWatch(self._warn_of_stall))
            lease_thread = await stack.enter_async_context(LeaseThread(loop_watch.is_turning))
            leadership = await stack.enter_async_context(
                ThreadLeadership(lease_thread, connect, own_identity(), clock, LEASE_TIMES)
            )
            tracer = stack.enter_context(tracing.open_tracer(program_version()))
            fenced = (
                tracing.TracedCluster(cluster, leadership.check, tracer)
                if tracer
                else FencedCluster(cluster, leadership.check)
            )
            externals = ExternalFactPoller(clock)
            is_daemon = wait is None
            listen_address = parse_address(self.listen or str(DEFAULT_ADDRESS)) if is_daemon else None
            observability = (
                _create_observability(
                    cluster, clock, leadership, loop_watch, has_fleet=is_daemon and self.config.fleet is not None
                )
                if listen_address
                else None
            )
            process_stage = combine(loop_watch.stage, tracing.stage_for(tracer))
            stage = combine(process_stage, observability.stage) if observability else process_stage
            reconciler = Reconciler(
                fenced,
                program_version(),
                clock,
                self.config.cluster,
                _call_each(self.progress.print_result, observability.record_action if observability else None),
                stop.is_set,
                externals.facts,
                leadership,
                stage,
            )
            fleet = await self._create_fleet(fenced, reconciler, lease_thread, externals, observability, process_stage)
            follower = Follower(
                source_config.create_mirrors(self.config.sources, stop.is_set),
                reconciler,
                clock,
                stop,
                self.progress.print_notice,
                _call_each(
                    self.progress.report_pass if is_daemon else self.progress.redraw_summary,
                    observability.record_pass if observability else None,
                ),
                configs={source_entry.name: source_entry for source_entry in self.config.sources},
                stage=stage,
                max_concurrent=self.max_concurrent,
                fleet=fleet,
            )
            self._print_start(cluster, is_daemon=is_daemon)
            run_work = partial(self._run_once, follower, externals, wait or timedelta())
            if is_daemon:
                run_work = partial(_run_daemon, self._create_daemon(follower, externals, configuration))
                await stack.enter_async_context(configuration.follow_file())
                if observability and listen_address:
                    hints = SyncHintForwarder(
                        await stack.enter_async_context(connect()), clock, lambda: leadership.leads, follower.poll
                    )
                    await self._serve(stack, observability.serve(listen_address, follower, hints.take, configuration))
            work = asyncio.ensure_future(self._run_as_leader(leadership, follower, run_work, waits_for_lead=is_daemon))
            with self.progress:
                return await _run_until_signal(work, stop)

    def _print_start(self, cluster: Cluster, *, is_daemon: bool) -> None:
        sources = self.config.sources
        intervals = (f"{source.name} every {format_duration(source.interval)}" for source in sources)
        source_list = ", ".join(intervals if is_daemon else (source.name for source in sources))
        stop_hint = ". Ctrl-C stops safely" if is_daemon else ""
        self.progress.print_header(f"levelgate {program_version()}, cluster {cluster.name}, {source_list}{stop_hint}.")

    async def _create_fleet(
        self,
        hub: Cluster,
        reconciler: Reconciler,
        lease_thread: LeaseThread,
        externals: ExternalFactPoller,
        observability: Observability | None,
        stage: Stage,
    ) -> Fleet | None:
        """Return the fleet, or None if the configuration has no fleet.

        Raises: ClusterError if the hub does not report its UID.
        """
        if self.config.fleet is None:
            return None
        from gitops.daemon.credential_watch import CredentialWatch
        from gitops.daemon.fleet import Fleet
        from gitops.daemon.fleet_environment import FleetEnvironment
        from gitops.daemon.turns import LONGEST_TURN_SECONDS, SILENT_TURN_SECONDS, WHOLE_PASSES_AT_ONCE, Turns
        from gitops.fleet.fleet_recorder import FleetRecorder
        from gitops.fleet.identity import read_cluster_uid
        from gitops.fleet.projections import FleetProjections

        environment = FleetEnvironment(
            hub=hub,
            hub_id=await read_cluster_uid(hub),
            recorder=FleetRecorder(hub, reconciler.clock, self.progress.print_notice),
            access=self.config.fleet.access,
            credentials=CredentialWatch(
                hub, self.config.fleet.access.directory, partial(self.progress.print_notice, "fleet")
            ),
            clock=reconciler.clock,
            version=program_version(),
            identity=own_identity(),
            lease_thread=lease_thread,
            facts=externals.facts,
            stage_of=lambda name: combine(stage, observability.stage_of(name)) if observability else stage,
            concurrency=self.concurrency,
            max_concurrent=self.max_concurrent,
            turns=Turns(WHOLE_PASSES_AT_ONCE, SILENT_TURN_SECONDS, LONGEST_TURN_SECONDS),
        )
        reconciler.numbering = environment.recorder.sources
        printer_of = self.progress.for_cluster
        fleet = Fleet(
            environment,
            FleetProjections(self.config.fleet.source),
            observe=lambda name: observability.observe(name, printer_of(name)) if observability else printer_of(name),
            served_kinds=lambda: _served_kinds(reconciler),
        )
        if observability and observability.fleet:
            observability.fleet.fleet = fleet
        return fleet

    def _warn_of_stall(self, seconds: float, stage: str) -> None:
        where = f" in stage {stage}" if stage else ""
        self.progress.print_notice(
            "process", f"a task blocked the event loop for {seconds:.1f} s{where}; watches and probes had to wait"
        )

    async def _serve(self, stack: AsyncExitStack, serving: AbstractAsyncContextManager[ListenAddress]) -> None:
        """Serve the status page. If the default address is in use, print a note and continue without the page.

        Raises: ListenError if a person chose the address.
        """
        from gitops.server.http import ListenError

        try:
            bound = await stack.enter_async_context(serving)
        except ListenError as error:
            if self.listen:
                raise
            self.progress.print_header(f"No status page: {error}")
            return
        host = str(bound) if bound.host else f"all addresses, port {bound.port}"
        self.progress.print_header(f"Status page, health and metrics: {f'http://{host}/' if bound.host else host}")

    async def _run_as_leader(
        self,
        leadership: ThreadLeadership,
        follower: Follower,
        work: Callable[[], Coroutine[None, None, int]],
        *,
        waits_for_lead: bool,
    ) -> int:
        """Call `work` while this process leads, and release the Lease at the end.

        Raises: NotLeading if another process leads or may lead.
        """
        acquiring = leadership.acquire(
            lambda other: self.progress.print_notice("cluster", f"waits for the lease: {other} leads"),
            patient=waits_for_lead,
        )
        if not await _complete_unless_stopped(follower.stop, acquiring):
            return EXIT_INTERRUPTED
        try:
            return await run_while_held(leadership.hold(), work())
        finally:
            await leadership.release()

    async def _start_sandbox(self, stack: AsyncExitStack) -> None:
        """Use the running sandbox. If no sandbox runs, serve a sandbox for as long as this command runs."""
        from gitops import sandbox

        if await sandbox.find_kubeconfig():
            if self.sandbox_clusters:
                await sandbox.require_clusters(self.sandbox_clusters)
            return
        running = await stack.enter_async_context(sandbox.serve_sandbox(clusters=self.sandbox_clusters))
        self.progress.print_header(
            "A sandbox, not a cluster: the sandbox runs no containers, and ends with this command.\n"
            f"kubectl --kubeconfig {running.kubeconfig} get namespaces"
        )
        if self.sandbox_clusters:
            self.progress.print_header(f"The kubeconfig has a context for each cluster: {', '.join(running.urls)}.")

    async def _run_once(self, follower: Follower, externals: ExternalFactPoller, wait: timedelta) -> int:
        from gitops.notifications import Delivery

        externals.declare(self.config.externals)
        await asyncio.gather(*map(externals.request_fact, self.config.externals))
        delivery = Delivery(follower.reconciler.cluster.name, follower.clock, self.progress.print_notice)
        delivery.configure(self.config.notifications)
        follower.reconciler.on_transitions = delivery.enqueue
        with closing(delivery):
            if follower.fleet is None:
                reconcile_result = await follower.run_once(
                    wait=wait, check_state=self._plan_hash_check(follower) if self.required_plan_hash else None
                )
                report = partial(self.make_exit_code, self.progress, reconcile_result, list(follower.errors.values()))
            else:
                report = partial(self._report_fleet, await follower.run_fleet_once(wait=wait), follower)
            await delivery.finish(_NOTIFICATION_TIMEOUT_SECONDS)
        return report()

    def _report_fleet(self, run: FleetRun, follower: Follower) -> int:
        """Print the last lines of each cluster, and return the exit code.

        If something failed, the code is 1. Otherwise, if something still waits, the code is 3. Otherwise, it is 0.
        """
        codes = []
        for name, result in run.results.items():
            errors = list(follower.errors.values()) if name == LOCAL_CLUSTER else []
            codes.append(self.make_exit_code(self.progress.for_cluster(name), result, errors))
        for name, message in run.left_alone.items():
            self.progress.for_cluster(name).print_notice("cluster", message)
        for name, message in run.failures.items():
            self.progress.for_cluster(name).print_problem(f"not worked on: {message}", "cluster")
            codes.append(1)
        return min(filter(None, codes), default=0)

    def _plan_hash_check(self, follower: Follower) -> Callable[[SourceState], Coroutine[None, None, None]]:
        from gitops.daemon.commit_acceptance import require_plan_hash

        reconciler = follower.reconciler
        return lambda state: require_plan_hash(
            reconciler.cluster, state, self.required_plan_hash, clock=reconciler.clock, cluster_name=reconciler.name
        )

    def _create_daemon(self, follower: Follower, externals: ExternalFactPoller, configuration: LiveConfig) -> Daemon:
        from gitops.daemon.daemon import Daemon

        return Daemon(follower, externals, configuration, self.progress.print_notice, self.resync)


def _served_kinds(reconciler: Reconciler) -> dict[GroupKind, bool]:
    """Return the kinds that the last full reconciliation discovered, each with True if the kind is namespaced."""
    resources = reconciler.whole.observed.discovery.resources if reconciler.whole else {}
    return {kind: resource.namespaced for kind, resource in resources.items()}


async def _run_daemon(daemon: Daemon) -> int:
    await daemon.run()
    return 0


def _create_observability(
    cluster: KubeCluster, clock: SystemClock, leadership: ThreadLeadership, loop_watch: LoopWatch, *, has_fleet: bool
) -> Observability:
    from gitops.server.observability import Observability

    return Observability(
        cluster,
        program_version(),
        clock,
        lambda: leadership.leads,
        lambda: leadership.stands_by,
        lambda: loop_watch.longest_seconds,
        has_fleet=has_fleet,
    )


def _call_each(*callbacks: Callable[[T], None] | None) -> Callable[[T], None]:
    """Return a function that calls the callbacks in order. Ignore callbacks that are None."""

    def act(value: T) -> None:
        for callback in filter(None, callbacks):
            callback(value)

    return act


async def _complete_unless_stopped(stop: asyncio.Event, coroutine: Coroutine[None, None, None]) -> bool:
    """Run `coroutine` to its end and return True. If `stop` is set earlier, cancel `coroutine` and return False."""
    task, stop_task = asyncio.ensure_future(coroutine), asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    if task.done():
        await task
        return True
    task.cancel()
    return False


async def _run_until_signal(work: asyncio.Future[int], stop: asyncio.Event) -> int:
    """Run the work and return its exit code.

    After the first SIGINT or SIGTERM, pending requests finish and no further request starts. The second signal cancels
    `work`.
    """

    def signalled() -> None:
        if stop.is_set():
            work.cancel()
        stop.set()

    on_stop_signal(signalled)
    try:
        code = await work
    except asyncio.CancelledError:
        code = EXIT_INTERRUPTED
    if not stop.is_set():
        return code
    echo("interrupted; the next start continues from here", err=True)
    return EXIT_INTERRUPTED
