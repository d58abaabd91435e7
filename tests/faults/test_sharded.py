"""Three processes that divide six sources on the real API server, stopped, killed and started: each object is written by one of them (I6)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.controlplane.audit import AuditEvent, AuditLog
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import eventually
from tests.faults.extent import WHOLE
from tests.scenarios.definitions import chain, link
from tests.scenarios.platform import Repository

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not WHOLE, reason="a Lease lasts fifteen seconds: in `make faults`"),
]

USERS = ("levelgate", "person", "other")
SOURCES = 6
SHARDS = 12
_MINE = "levelgate-shard-"


@dataclass
class Sharded:
    """Each process is a user of its own, so that the audit log tells who wrote; source N holds one chain of four config maps."""

    plane: ControlPlane
    kubectl: Kubectl
    audit: AuditLog
    namespace: str
    directory: Path
    repositories: list[Repository] = field(default_factory=list)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sources = []
        for number in range(SOURCES):
            path = self.directory / f"git-{number}"
            path.mkdir()
            subprocess.run(("git", "init", "--quiet", "--initial-branch=main"), cwd=path, check=True)
            self.repositories.append(Repository(path))
            sources.append({"name": f"s{number}-{self.namespace}", "url": str(path), "interval": "1s"})
        config = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config", "shards": SHARDS, "sources": sources}
        (self.directory / "levelgate.json").write_text(json.dumps(config))

    def commit(self, text: str) -> None:
        for number, repository in enumerate(self.repositories):
            group, name = f"g{number}.{self.namespace}.test", f"n{number}"
            repository.commit({"chain.json": chain(group), "one.json": link(group, self.namespace, name, text=text)})

    def start(self, user: str) -> None:
        command = (
            "-c",
            "from gitops.cli import main; main()",
            "run",
            "--config",
            str(self.directory / "levelgate.json"),
        )
        own = {
            "KUBECONFIG": str(self.plane.kubeconfig(user)),
            "XDG_CACHE_HOME": str(self.directory / user),
            "LEVELGATE_LISTEN": "off",
        }
        with (self.directory / f"{user}.log").open("ab") as log:
            self.running[user] = subprocess.Popen(
                (sys.executable, *command), env={**os.environ, **own}, stdout=log, stderr=log
            )

    def holders(self) -> dict[str, str]:
        """Who holds each shard, by user; left out while nobody does."""
        found = json.loads(self.kubectl("get", "leases", "-n", "levelgate-system", "-o", "json"))["items"]
        by_process = {str(process.pid): user for user, process in self.running.items()}
        held = {one["metadata"]["name"]: (one.get("spec") or {}).get("holderIdentity") or "" for one in found}
        users = {name: by_process.get(one.rpartition("_")[2].partition("-")[0], "") for name, one in held.items()}
        return {name: user for name, user in users.items() if user and (name == "levelgate" or name.startswith(_MINE))}

    def divided(self, *users: str) -> None:
        """All is held, by these, and each has some."""
        eventually(lambda: len(held := self.holders()) == SHARDS + 1 and set(held.values()) == set(users), within=120)

    def arrives(self, text: str) -> None:
        def told() -> set[str]:
            listed = json.loads(self.kubectl("get", "configmaps", "-n", self.namespace, "-o", "json"))["items"]
            return {one["metadata"]["name"] for one in listed if (one.get("data") or {}).get("text") == text}

        everything = {f"n{number}-{letter}" for number in range(SOURCES) for letter in "abcd"}
        eventually(lambda: told() == everything, within=120)

    def writes(self, since: int) -> dict[str, list[str]]:
        """Of content, by object: who wrote it, each time."""
        found: dict[str, list[str]] = {}
        for event in self.audit.events(since=since, namespace=self.namespace):
            if self._is_content(event):
                found.setdefault(event.name, []).append(event.user)
        return found

    def _is_content(self, event: AuditEvent) -> bool:
        return (
            event.is_write
            and event.resource == "configmaps"
            and event.user in USERS
            and event.name != "kube-root-ca.crt"
        )


@pytest.fixture
def sharded(
    control_plane: ControlPlane, kubectl: Kubectl, audit: AuditLog, namespace: str, tmp_path: Path
) -> Iterator[Sharded]:
    found = Sharded(control_plane, kubectl, audit, namespace, tmp_path)
    yield found
    for process in found.running.values():
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(timeout=30)
    kubectl("delete", "leases", "--all", "-n", "levelgate-system", "--ignore-not-found")


def test_three_divide_the_sources_whatever_becomes_of_the_others(sharded: Sharded) -> None:
    """Row "two replicas at once; 3 replicas rolling": every object is written once for each commit, by who held its shard."""
    since = sharded.audit.mark()
    sharded.commit("one")
    for user in USERS:
        sharded.start(user)
    sharded.divided(*USERS)
    sharded.arrives("one")
    first = sharded.writes(since)
    assert {len(users) for users in first.values()} == {1}

    killed, stopped, left = USERS
    since = sharded.audit.mark()
    sharded.running[killed].kill()
    sharded.running[killed].wait(timeout=30)
    sharded.divided(stopped, left)
    sharded.commit("two")
    sharded.arrives("two")
    second = sharded.writes(since)
    assert {len(users) for users in second.values()} == {1}
    assert {user for users in second.values() for user in users} <= {stopped, left}

    since = sharded.audit.mark()
    sharded.running[stopped].send_signal(signal.SIGSTOP)
    sharded.commit("three")
    sharded.divided(left)
    sharded.arrives("three")
    sharded.running[stopped].send_signal(signal.SIGCONT)
    assert sharded.running[stopped].wait(timeout=60) == 1
    assert (
        "was not renewed" in (text := (sharded.directory / f"{stopped}.log").read_text())
        or "has taken the lead" in text
    )
    assert set(map(tuple, sharded.writes(since).values())) == {(left,)}

    since = sharded.audit.mark()
    sharded.start(killed)
    sharded.divided(killed, left)
    sharded.commit("four")
    sharded.arrives("four")
    last = sharded.writes(since)
    assert {len(users) for users in last.values()} == {1}
