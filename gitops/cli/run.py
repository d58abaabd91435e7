"""`levelgate run`: follow sources and bring the cluster to what they say."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from applier.adoption import Adoption
from applier.fenced import Fenced
from applier.kube.cluster import KubeCluster
from gitops import compose
from gitops.causes import blocked_rows
from gitops.cli import INTERRUPTED, program_version
from gitops.cli.options import ClusterChoice, Duration, adopt_option, cluster_options, refuse_beside_config
from gitops.cli.progress import Progress
from gitops.clock import SystemClock
from gitops.config import Config, read
from gitops.config.address import DEFAULT, Address, address
from gitops.errors import SourceError
from gitops.externals import Externals
from gitops.follow import Follower
from gitops.known import Pass
from gitops.leadership import Leadership, own_identity
from gitops.reconcile import Reconciler
from gitops.sources import SourceState
from gitops.stages import untold
from gitops.tally import Tally

if TYPE_CHECKING:
    from gitops.daemon import Daemon
    from gitops.server.seen import Seen

T = TypeVar("T")

NOT_YET = 3

GARBAGE = 100_000
"""Objects that may be made before Python looks for circles among them. Trees of JSON have none, and a pass keeps all that it reads to its end: at
the default, a fifth of its time goes into looking.
"""


@click.command()
@click.option(
    "--source",
    "sources",
    metavar="[NAME=]URL",
    multiple=True,
    help="A Git repository to follow; may be given several times.",
)
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    envvar="LEVELGATE_CONFIG",
    help="Follow the sources of this configuration file instead; --source, --ref, --path, --adopt and --interval then stand in it.  "
    "[env: LEVELGATE_CONFIG]",
)
@click.option(
    "--ref", metavar="REF", default="", help="Branch, tag or commit to follow.  [default: the default branch]"
)
@click.option("--path", metavar="DIR", default="", help="Read only this directory of the repository.")
@adopt_option
@click.option("--once", is_flag=True, help="Go on until nothing changes any more, report, and exit.")
@click.option(
    "--wait", type=Duration(), default="30s", show_default=True, help="With --once: wait so long for what is in flight."
)
@click.option(
    "--require-plan", "agreed", metavar="HASH", default="", help="With --once: refuse if the plan is not this one."
)
@click.option("--fail-on-held", is_flag=True, help="With --once: exit 3 also where only a person's word is awaited.")
@click.option(
    "--interval",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Ask so often whether the sources have moved.",
)
@click.option(
    "--resync",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Read everything anew so often; changes in the cluster are watched, and seen at once.",
)
@click.option(
    "--apply-concurrency",
    type=click.IntRange(1, 256),
    envvar="LEVELGATE_APPLY_CONCURRENCY",
    help="Requests to the cluster at the same time.  [default: 16, or applyConcurrency of the configuration]",
)
@click.option(
    "--listen",
    metavar="ADDR:PORT|off",
    envvar="LEVELGATE_LISTEN",
    help="Where the status page, health, metrics and hooks are served, without --once.  "
    f"[default: {DEFAULT}, or listen of the configuration]  [env: LEVELGATE_LISTEN]",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Report bookkeeping as well.")
@cluster_options
def command(
    sources: tuple[str, ...],
    file: Path | None,
    ref: str,
    path: str,
    adopt: Adoption,
    once: bool,
    wait: timedelta,
    agreed: str,
    fail_on_held: bool,
    interval: timedelta,
    resync: timedelta,
    apply_concurrency: int | None,
    listen: str | None,
    log_format: str,
    verbose: bool,
    choice: ClusterChoice,
) -> int:
    """Follow Git and bring the cluster to what it says: apply level by level, prune in reverse, heal drift.

    Only commits are read, never a working tree. With --once the exit code says how it ended: 0 all is as Git says or waits for a person only,
    3 something still waits, 1 errors. Without it there is a status page at http://127.0.0.1:8480/ while it runs.

    \b
    levelgate run --source platform=https://git.example.com/platform.git --path clusters/prod
    levelgate run --source . --once --context dev
    levelgate run --source . --once --require-plan 39bb5a3bd54b86e7
    levelgate run --source . --sandbox
    levelgate run --config /etc/levelgate/levelgate.yaml
    """
    gc.set_threshold(GARBAGE)
    if file is None:
        if not sources:
            raise click.UsageError("nothing to follow: give --source URL, or --config FILE")
        found = [compose.source_config(text, ref=ref, path=path, interval=interval, adoption=adopt) for text in sources]
        config = Config(tuple(found))
    else:
        refuse_beside_config(sources="--source", ref="--ref", path="--path", adopt="--adopt", interval="--interval")
        config = read(file)
    try:
        address(listen or str(DEFAULT))
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    if agreed and not (once and len(config.sources) == 1):
        raise click.UsageError(
            "--require-plan is for --once and a single source; a daemon takes `requirePlan` of its configuration"
        )
    progress = Progress(SystemClock(), json=log_format == "json", verbose=verbose)
    daemon = _Daemon(
        config=config,
        file=file,
        progress=progress,
        choice=choice.or_context(config.context),
        concurrency=apply_concurrency or config.apply_concurrency or 16,
        fail_on_held=fail_on_held,
        agreed=agreed,
        resync=resync,
        listen=listen or config.listen,
    )
    return asyncio.run(daemon.run(wait if once else None))


@dataclass(frozen=True, kw_only=True)
class _Daemon:
    config: Config
    file: Path | None
    progress: Progress
    choice: ClusterChoice
    concurrency: int
    fail_on_held: bool
    agreed: str
    resync: timedelta
    listen: str

    async def run(self, wait: timedelta | None) -> int:
        """Connect, then follow until it is done (`wait` given) or interrupted. Answers the exit code."""
        async with AsyncExitStack() as stack:
            if self.choice.sandbox:
                await self._sandbox(stack)
            cluster = await self._connection(stack, concurrency=self.concurrency)
            clock = SystemClock()
            stop = asyncio.Event()
            leadership = Leadership(await self._connection(stack, concurrency=2), own_identity(), clock)
            fenced, externals = Fenced(cluster, leadership.check), Externals(clock)
            is_daemon = wait is None
            where = address(self.listen or str(DEFAULT)) if is_daemon else None
            seen = _seen(cluster, clock, leadership) if where else None
            reconciler = Reconciler(
                fenced,
                program_version(),
                clock,
                _each(self.progress.result, seen.report if seen else None),
                stop.is_set,
                externals.facts,
                leadership,
                seen.stage if seen else untold,
            )
            follower = Follower(
                compose.mirrors(self.config.sources),
                reconciler,
                clock,
                stop,
                self.progress.notice,
                _each(self.progress.passed if is_daemon else self.progress.summary, seen.passed if seen else None),
                configs={one.name: one for one in self.config.sources},
                stage=seen.stage if seen else untold,
            )
            told = ", ".join(
                f"{one.name} every {one.interval.total_seconds():g}s" if is_daemon else one.name
                for one in self.config.sources
            )
            ends = ". Ctrl-C stops safely" if is_daemon else ""
            self.progress.header(f"levelgate {program_version()}, cluster {cluster.name}, {told}{ends}.")
            working = partial(self._once, follower, externals, wait or timedelta())
            if is_daemon:
                daemon = self._daemon(follower, externals)
                working = partial(_forever, daemon)
                if seen and where:
                    await self._serve(stack, seen, where, daemon)
            work = asyncio.ensure_future(self._leading(leadership, follower, working, patient=is_daemon))
            with self.progress:
                return await _until_signalled(work, stop)

    async def _connection(self, stack: AsyncExitStack, *, concurrency: int) -> KubeCluster:
        cluster = await self.choice.connect(concurrency=concurrency)
        stack.push_async_callback(cluster.close)
        return cluster

    async def _serve(self, stack: AsyncExitStack, seen: Seen, where: Address, daemon: Daemon) -> None:
        """Where nobody named the address, it is no reason not to work that it is taken."""
        from gitops.server.app import NotListening

        try:
            serving = seen.serving(where, daemon.follower, lambda: daemon.config.hooks)
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
        holding = asyncio.ensure_future(leadership.hold())
        working = asyncio.ensure_future(work())
        try:
            await asyncio.wait({holding, working}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else holding.result()
        finally:
            for task in (working, holding):
                task.cancel()
            await asyncio.gather(working, holding, return_exceptions=True)
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

    async def _once(self, follower: Follower, externals: Externals, wait: timedelta) -> int:
        externals.declare(self.config.externals)
        await asyncio.gather(*map(externals.ask, self.config.externals))
        found = await follower.once(wait=wait, insist=self._insist(follower) if self.agreed else None)
        return report(self.progress, found, list(follower.errors.values()), fail_on_held=self.fail_on_held)

    def _insist(self, follower: Follower) -> Callable[[SourceState], Coroutine[None, None, None]]:
        from gitops.agreement import insist

        one = follower.reconciler
        return lambda state: insist(one.cluster, state, self.agreed, clock=one.clock, version=program_version())

    def _daemon(self, follower: Follower, externals: Externals) -> Daemon:
        from gitops.daemon import Daemon

        return Daemon(follower, externals, self.config, self.file, self.progress.notice, self.resync)


async def _forever(daemon: Daemon) -> int:
    await daemon.run()
    return 0


def _seen(cluster: KubeCluster, clock: SystemClock, leadership: Leadership) -> Seen:
    from gitops.server.seen import Seen

    return Seen(cluster, program_version(), clock, lambda: leadership.leads)


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
    click.echo("interrupted; the next start goes on where this one stopped", err=True)
    return INTERRUPTED


def report(progress: Progress, found: Pass, errors: list[SourceError], *, fail_on_held: bool = False) -> int:
    """The last lines of `run --once`, and its exit code."""
    for one in found.plan.sets if not found.propagation.stopped else ():
        for node, cause, _ in blocked_rows(one):
            progress.blocked(one.rendered, node, cause)
    problems = (*found.bundle.problems, *found.propagation.problems)
    for problem in problems:
        progress.problem(str(problem))
    for error in found.status_errors:
        progress.problem(f"status not written: {error}")
    tally = Tally.of(found.plan.sets)
    sys.stdout.flush()
    progress.header(str(tally))
    if errors or problems or tally.failed or found.status_errors:
        return 1
    return NOT_YET if tally.waiting or (tally.held and fail_on_held) else 0
