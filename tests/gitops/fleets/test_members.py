"""The members of a fleet: what goes wrong with one of them ends nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pytest

from applier.cluster import ClusterName, WatchEvent
from applier.errors import ConfigurationError, Unavailable
from gitops.daemon.cluster_engagement import ClusterEngagement, NotEngaged
from gitops.daemon.credential_watch import CredentialWatch
from gitops.daemon.fleet import Fleet
from gitops.daemon.fleet_environment import FleetEnvironment
from gitops.daemon.fleet_member import FIRST_RETRY_SECONDS
from gitops.daemon.single_run import SingleRun
from gitops.fleet.access import AccessSettings
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.fleet_records import LEARNING_SECONDS
from gitops.fleet.kubeconfig_check import AccessRefused
from gitops.fleet.projections import FleetProjections
from gitops.fleet.reach import ReachState
from gitops.leadership import run_while_held
from gitops.reconcile.sources import SourceState
from renderer.identity import GroupKind
from renderer.render.model import NewRevision
from tests.support.cluster.waiting import until
from tests.support.fleet_documents import Files, cluster, read

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


@dataclass
class FastClock:
    """Sleeps at once, and remembers for how long it should have."""

    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return NOON

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)


@dataclass
class Hub:
    """Fails with `error` whenever the credentials of eu-1 are read; the others do not answer."""

    error: BaseException
    name: str = "local"

    async def get(self, key: Any, **_: Any) -> NoReturn:
        if key.name == "eu":
            raise self.error
        raise Unavailable(f"{key}: no answer")


@dataclass
class Observer:
    notices: list[str] = field(default_factory=list)

    def report_pass(self, reconcile_result: Any) -> None: ...

    def print_result(self, result: Any) -> None: ...

    def print_notice(self, source: str, text: str) -> None:
        self.notices.append(text)


@dataclass
class Made:
    fleet: Fleet
    clock: FastClock
    observers: dict[str, Observer]

    def update(self, files: Files) -> None:
        self.fleet.update([SourceState(read(files))])


def make(error: BaseException, clock: FastClock | None = None) -> Made:
    clock, observers = clock or FastClock(), dict[str, Observer]()
    hub: Any = Hub(error)
    absent: Any = None
    environment = FleetEnvironment(
        hub=hub,
        hub_id="hub",
        recorder=FleetRecorder(hub, clock, lambda *_: None),
        access=AccessSettings(None, (), "clusters"),
        credentials=CredentialWatch(hub, None, lambda _: None),
        clock=clock,
        version="1",
        identity="test",
        lease_thread=absent,
        facts=absent,
        stage_of=absent,
        concurrency=2,
        max_concurrent=1,
        turns=absent,
    )

    def observe(name: ClusterName) -> Observer:
        return observers.setdefault(name, Observer())

    return Made(Fleet(environment, FleetProjections("platform"), observe=observe, served_kinds=dict), clock, observers)


@contextmanager
def ended(made: Made) -> Iterator[None]:
    try:
        yield
    finally:
        for task in list(made.fleet._tasks.values()):
            task.cancel()


BOTH = {
    "eu": cluster("eu-1", access={"secretRef": {"name": "eu", "key": "value"}}),
    "us": cluster("us-1", access={"secretRef": {"name": "us", "key": "value"}}),
}


async def test_a_fault_in_one_member_ends_nothing_else_and_is_tried_again() -> None:
    made = make(RuntimeError("boom"))
    made.update(BOTH)
    with ended(made):
        await until(lambda: len(made.clock.slept) >= 20)
        assert all(not task.done() for task in made.fleet._tasks.values())
        standing = made.fleet.members[ClusterName("eu-1")].standing
        assert standing.state is ReachState.UNREACHABLE
        assert "RuntimeError: boom" in standing.message
        assert [notice for notice in made.observers["eu-1"].notices if "boom" in notice] == [
            f"Unreachable: {standing.message}"
        ]
        assert "no answer" in made.fleet.members[ClusterName("us-1")].standing.message
        assert max(made.clock.slept) > 1.0  # ever more rarely


async def test_a_cancelled_member_is_cancelled() -> None:
    made = make(RuntimeError("boom"))
    made.update(BOTH)
    task = made.fleet._tasks[ClusterName("eu-1")]
    with ended(made):
        await until(lambda: bool(made.clock.slept))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_fault_of_what_runs_beside_the_work_ends_it_now() -> None:
    async def fail() -> NoReturn:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        async with asyncio.timeout(5):
            await run_while_held(fail(), asyncio.Event().wait())


async def test_a_member_that_is_stopped_while_it_waits_ends_at_once() -> None:
    made = make(Unavailable("no answer"))
    made.update(BOTH)
    with ended(made):
        await until(lambda: bool(made.clock.slept))
        for member in made.fleet.members.values():
            member.stop()
        async with asyncio.timeout(5):
            await asyncio.gather(*made.fleet._tasks.values())


async def test_revisions_wait_for_no_cluster_that_cannot_be_engaged_or_is_paused() -> None:
    """S3-8: the first number of a hub without records waits for what the clusters say, and these say nothing."""
    made = make(Unavailable("no answer"))
    made.update({**BOTH, "asia": cluster("asia-1", access={"file": "asia"}, paused=True)})
    numbers = made.fleet.environment.recorder.sources
    with ended(made):
        await until(lambda: len(made.clock.slept) >= 10)
        revision = NewRevision(GroupKind("kro.run", "WebApp"), 1, "digest", {}, "platform", "commit", "", "")
        with pytest.raises(Unavailable):  # The hub takes no record.
            await numbers.number([revision])
        assert LEARNING_SECONDS not in made.clock.slept


@pytest.mark.parametrize("changed", [{"qps": 5}, {"timeouts": {"request": "5s"}}])
async def test_limits_that_change_in_git_make_a_new_connection_and_others_stay(changed: dict[str, Any]) -> None:
    made = make(Unavailable("no answer"))
    made.update(BOTH)
    with ended(made):
        eu, us = (made.fleet.members[ClusterName(name)] for name in ("eu-1", "us-1"))
        made.update({**BOTH, "eu": cluster("eu-1", access={"secretRef": {"name": "eu", "key": "value"}}, **changed)})
        assert made.fleet.members[ClusterName("eu-1")] is not eu
        assert made.fleet.members[ClusterName("us-1")] is us
        async with asyncio.timeout(5):
            await asyncio.gather(*made.fleet._ending.values())


@dataclass
class PatientClock(FastClock):
    """Sleeps for ever: whoever goes on was woken."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


def tell_changed(made: Made, name: str) -> None:
    """What a watch of the hub says of a Secret."""
    made.fleet.environment.credentials._secret_changed(WatchEvent({"metadata": {"name": name}}))


async def test_a_secret_that_changes_wakes_the_member_that_waits_for_it_and_no_other() -> None:
    made = make(Unavailable("no answer"), PatientClock())
    made.update(BOTH)
    with ended(made):
        await until(lambda: len(made.clock.slept) == 2)
        tell_changed(made, "eu")
        await until(lambda: len(made.clock.slept) == 3)
        tell_changed(made, "other")
        tell_changed(made, "eu")
        await until(lambda: len(made.clock.slept) == 4)
        assert made.clock.slept == [FIRST_RETRY_SECONDS] * 4  # what has changed is tried as if for the first time


async def test_credentials_of_a_running_member_are_read_when_they_change_and_not_by_time() -> None:
    """M3: and again by time where the hub could not be read."""
    made = make(Unavailable("no answer"), PatientClock())
    made.update(BOTH)
    answers: list[bool | Exception] = [True, AccessRefused("no label"), ConfigurationError("the hub is down"), False]
    read: list[bool | Exception] = []

    async def renew() -> bool:
        read.append(answers.pop(0))
        if isinstance(read[-1], Exception):
            raise read[-1]
        return read[-1]

    with ended(made):
        await until(lambda: len(made.clock.slept) == 2)
        member = made.fleet.members[ClusterName("eu-1")]
        made.clock.slept.clear()
        engagement = ClusterEngagement(member.spec, member.environment, changed := asyncio.Event())
        renewing = asyncio.ensure_future(engagement.renew_credentials(renew))
        for count in (1, 2, 3):
            assert made.clock.slept == []
            changed.set()
            await until(lambda count=count: len(read) == count)  # type: ignore[misc]
        await until(lambda: len(made.clock.slept) == 1)
        changed.set()
        with pytest.raises(NotEngaged, match="another server"):
            await renewing
        assert answers == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unavailable("no answer"), "cannot be read from the hub: no answer"),
        (RuntimeError("boom"), "RuntimeError: boom"),
    ],
)
async def test_a_single_run_says_why_a_cluster_was_not_worked_on(error: Exception, message: str) -> None:
    made = make(error)
    made.update(BOTH)
    with ended(made):
        member = made.fleet._create_member(made.fleet.members[ClusterName("eu-1")].spec)
        run = SingleRun(wait=timedelta(), clock=made.clock, stop=asyncio.Event())
        with pytest.raises(NotEngaged, match=message):
            await member.run_once(run)
        assert member.standing.state is ReachState.UNREACHABLE
        assert message in member.standing.message
