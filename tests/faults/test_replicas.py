"""Two and three processes for one cluster, stopped, woken, killed, robbed of their Lease, with clocks that step: one writes at any time (I6)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually
from tests.support.definitions import chain, link
from tests.support.faults.extent import WHOLE
from tests.support.faults.proxy import Meanwhile, Proxy, Rule, Upstream
from tests.support.git.repository import Repository

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not WHOLE, reason="a Lease lasts fifteen seconds: in `make faults`"),
]

LEASE = ("get", "lease", "levelgate", "-n", "levelgate-system", "-o", "jsonpath={.spec.holderIdentity}")
VERSION = (*LEASE[:-1], "jsonpath={.metadata.resourceVersion}")
USERS = ("levelgate", "person", "other")
CONTENT = ["one-a", "one-b", "one-c", "one-d"]
PROGRAM = """
from contextlib import suppress
from datetime import timedelta
from os import environ
from pathlib import Path
from gitops.cli import main
from gitops.clock import SystemClock
from gitops.leadership import Leadership, NotLeading

now, ahead = SystemClock.now, Path(environ["HOURS_AHEAD"])
SystemClock.now = lambda clock: now(clock) + timedelta(hours=float(ahead.read_text()))

async def hold(leads, is_turning, ends=Leadership.hold):
    with suppress(NotLeading):
        await ends(leads, is_turning)
    while True:
        await leads.clock.sleep(60)

if environ["UNAWARE"]:
    Leadership.hold = hold
main()
"""
"""The command on a machine whose clock somebody sets. Who is unaware learns by its writes alone that it leads no more."""


@dataclass
class Replicas:
    """Each is a user of its own, so that the audit log tells who wrote."""

    repository: Repository
    plane: ControlPlane
    kubectl: Kubectl
    audit: AuditLog
    namespace: str
    directory: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, user: str, kubeconfig: Path | None = None, *, unaware: bool = False) -> None:
        command = ("-c", PROGRAM, "run", "--source", f"p-{self.namespace}={self.repository.path}")
        self.step(user, 0)
        own = {
            "KUBECONFIG": str(kubeconfig or self.plane.kubeconfig(user)),
            "XDG_CACHE_HOME": str(self.directory / user),
            "HOURS_AHEAD": str(self.directory / f"{user}.hours"),
            "UNAWARE": "1" if unaware else "",
        }
        with (self.directory / f"{user}.log").open("wb") as log:
            self.running[user] = subprocess.Popen(
                (sys.executable, *command, "--interval", "1s"), env={**os.environ, **own}, stdout=log, stderr=log
            )

    def step(self, user: str, hours: float) -> None:
        """The clock of its machine shows so much more than the time from now on."""
        (fresh := self.directory / f"{user}.fresh").write_text(str(hours))
        fresh.replace(self.directory / f"{user}.hours")

    def renewals(self, count: int) -> None:
        """Until the Lease was written so many times."""
        for _ in range(count):
            before = self.kubectl(*VERSION)

            def renewed(before: str = before) -> bool:
                return self.kubectl(*VERSION) != before

            eventually(renewed)

    def leader(self, *others: str) -> str:
        """Who leads, once it is none of the others."""

        def found() -> str:
            process = self.kubectl(*LEASE, check=False).rpartition("_")[2].partition("-")[0]
            who = next((user for user, one in self.running.items() if str(one.pid) == process), "")
            return "" if who in others else who

        return eventually(found, within=90)

    def ended(self, user: str) -> int:
        return self.running[user].wait(timeout=60)

    def says(self, user: str) -> str:
        return (self.directory / f"{user}.log").read_text()

    def commit(self, text: str) -> None:
        group = f"{self.namespace}.test"
        self.repository.commit({"chain.json": chain(group), "one.json": link(group, self.namespace, text=text)})

    def arrives(self, text: str, name: str = "one-d") -> None:
        get = ("get", "configmap", name, "-n", self.namespace, "-o", "jsonpath={.data.text}")
        eventually(lambda: self.kubectl(*get, check=False) == text, within=90)

    def writes(self, since: int, user: str) -> list[AuditEvent]:
        """Of content, by this one."""
        found = self.audit.events(since=since, user=user, namespace=self.namespace)
        return [event for event in found if event.is_write and event.resource == "configmaps"]


@pytest.fixture
def replicas(
    control_plane: ControlPlane, kubectl: Kubectl, audit: AuditLog, namespace: str, tmp_path: Path
) -> Iterator[Replicas]:
    found = Replicas(Repository.create(tmp_path / "git"), control_plane, kubectl, audit, namespace, tmp_path)
    found.commit("one")
    yield found
    for process in found.running.values():
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(timeout=30)
    kubectl("delete", "lease", "levelgate", "-n", "levelgate-system", "--ignore-not-found")


def test_one_of_three_writes_whatever_becomes_of_the_others(replicas: Replicas) -> None:
    """Row "two processes, SIGSTOP/SIGCONT, lease deletion": each commit is written once, by who leads then; who was overtaken ends."""
    for user in USERS:
        replicas.start(user)
    first = replicas.leader()
    replicas.arrives("one")
    since = replicas.audit.mark()

    replicas.running[first].send_signal(signal.SIGSTOP)
    replicas.commit("two")
    second = replicas.leader(first)
    replicas.arrives("two")
    replicas.running[first].send_signal(signal.SIGCONT)
    assert replicas.ended(first) == 1
    assert "the lease was not renewed" in replicas.says(first) or "has taken the lease" in replicas.says(first)
    assert replicas.writes(since, first) == []
    assert [event.name for event in replicas.writes(since, second)] == CONTENT

    since = replicas.audit.mark()
    replicas.kubectl("delete", "lease", "levelgate", "-n", "levelgate-system")
    assert replicas.ended(second) == 1
    third = replicas.leader(first, second)
    replicas.commit("three")
    replicas.arrives("three")
    assert replicas.writes(since, second) == []
    assert [event.name for event in replicas.writes(since, third)] == CONTENT

    since = replicas.audit.mark()
    replicas.start(first)
    replicas.running[third].kill()
    replicas.commit("four")
    assert replicas.leader(second, third) == first
    replicas.arrives("four")
    assert [event.name for event in replicas.writes(since, first)] == CONTENT


def test_clocks_that_step_change_nothing_of_who_writes(replicas: Replicas) -> None:
    """Row "clock jump +-1 h", of either of two processes: who leads goes on leading and writes each commit once, and nobody else writes or ends."""
    for user in USERS[:2]:
        replicas.start(user)
    first = replicas.leader()
    (second,) = set(USERS[:2]) - {first}
    replicas.arrives("one")
    for user, hours in ((first, -1), (first, 1), (second, 1), (second, -1)):
        since = replicas.audit.mark()
        replicas.step(user, hours)
        replicas.renewals(2)
        replicas.commit(text := f"{user} {hours}")
        replicas.arrives(text)
        assert [event.name for event in replicas.writes(since, first)] == CONTENT
        assert replicas.writes(since, second) == []
        assert replicas.leader() == first
    assert [one.poll() for one in replicas.running.values()] == [None, None]


async def test_a_write_that_is_carried_out_after_its_process_was_overtaken_is_put_right(replicas: Replicas) -> None:
    """Row "SIGSTOP 60 s then SIGCONT", in the middle of a write (I6): it reaches the server a commit and a leader later. That is one write, of one
    object, and its process sends no other: it asks its clock before each, not only when it renews.
    """
    first, second, _ = USERS
    begun, late = asyncio.Event(), asyncio.Event()

    async def held() -> None:
        begun.set()
        await late.wait()

    rule = Rule(Meanwhile(held), path="/configmaps/one-c[?]", nth=2)
    async with Upstream(replicas.plane) as upstream, Proxy(upstream, [rule]) as proxy:
        (kubeconfig := replicas.directory / "proxy").write_text(proxy.kubeconfig(first))
        replicas.start(first, kubeconfig, unaware=True)
        assert await asyncio.to_thread(replicas.leader) == first
        await asyncio.to_thread(replicas.arrives, "one")
        replicas.start(second)
        since = replicas.audit.mark()
        replicas.commit("two")
        await asyncio.wait_for(begun.wait(), 60)
        replicas.running[first].send_signal(signal.SIGSTOP)
        assert await asyncio.to_thread(replicas.leader, first) == second
        replicas.commit("three")
        await asyncio.to_thread(replicas.arrives, "three")
        late.set()
        await asyncio.to_thread(eventually, lambda: "one-c" in [event.name for event in replicas.writes(since, first)])
        replicas.running[first].send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(replicas.ended, first) == 1

        def of_second() -> list[str | None]:
            return [event.name for event in replicas.writes(since, second)]

        await asyncio.to_thread(eventually, lambda: of_second().count("one-c") > 1)
    await asyncio.to_thread(replicas.arrives, "three", "one-c")
    assert [event.name for event in replicas.writes(since, first)] == ["one-a", "one-b", "one-c"]
    assert of_second()[-1:] == ["one-c"]
