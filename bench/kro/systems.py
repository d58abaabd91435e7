"""Levelgate and kro as processes, as users start them, and the declaration of a wanted state to each.

For kro, a client with the user CLIENT writes the objects that Levelgate reads in Git. The cost of the client does not
count.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.error import URLError
from urllib.request import urlopen

from bench.applying import IN_FLIGHT, send
from bench.kro import binary
from bench.kro.fleet import DEFINITION, INSTANCES, NAMESPACE, Change, at_once
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.ports import free_ports
from tests.support.cluster.process import ServerProcess
from tests.support.cluster.waiting import eventually
from tests.support.git.repository import Repository

CLIENT: Final = "other"
"""User of `bench.applying.send`."""

_READY_WITHIN, _SERVED_WITHIN, _ENDED_WITHIN = 60.0, 120.0, 60.0
_APPLY: Final = "?fieldManager=bench&force=true"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEFINITIONS: Final = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"
_HOLD = re.compile(r"^levelgate_event_loop_longest_hold_seconds(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass
class System(ABC):
    """Process that works with a control plane of its own."""

    server: ControlPlane
    name: ClassVar[str]
    user: ClassVar[str]
    process: ServerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.audit = AuditLog(self.server.audit_log)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        written(self.server, "POST", "/api/v1/namespaces", namespace)
        self.prepare()

    @property
    def directory(self) -> Path:
        return self.server.directory

    def start(self) -> None:
        """Start the process, and return as soon as the process runs. The process then needs time to become ready."""
        self.port, self.probes = free_ports(2)
        variables = {"KUBECONFIG": self.server.kubeconfig(self.user), "XDG_CACHE_HOME": self.directory / "cache"}
        environment = [f"{name}={value}" for name, value in variables.items()]
        self.process = ServerProcess(["env", *environment, *self.command()], self.directory / f"{self.name}.log")

    def ready(self) -> None:
        """Wait for the readiness probe.

        Raises: AssertionError if the probe fails; RuntimeError if the process has ended.
        """
        eventually(self._is_ready, within=_READY_WITHIN)

    def stop(self) -> None:
        self.process.terminate()
        self.process.end(within=_ENDED_WITHIN)

    def check(self) -> None:
        """Check the process. Raises: RuntimeError if the process has ended."""
        self.server.check()
        self.process.check()

    def first_write(self, since: int) -> datetime:
        """Return the time at which the server received the first write of the client."""
        return min(event.time for event in self.audit.events(since=since, user=CLIENT) if event.is_write)

    def notes(self) -> list[str]:
        """Return further notes about the process."""
        return []

    def _is_ready(self) -> bool:
        self.check()
        try:
            with urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except URLError:
            return False

    @abstractmethod
    def prepare(self) -> None:
        """Create the prerequisites of the first start."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """Return the command line."""

    @abstractmethod
    def declare(self, change: Change) -> None:
        """Declare a change to the system."""

    @abstractmethod
    def declared(self, since: int) -> datetime:
        """Return the start time of the last declared change."""


class Levelgate(System):
    """Daemon with its default settings. The daemon follows the directory of a repository, and sees a commit at once."""

    name = "levelgate"
    user = "levelgate"

    def prepare(self) -> None:
        self.repository = Repository(self.directory / "platform")
        self.repository.path.mkdir()
        self.repository.git("init", "--quiet")
        self.repository.commit({"README.md": "The work of a bench.\n"})

    def command(self) -> Sequence[str | Path]:
        self.probes = self.port
        source = f"platform={self.repository.path}"
        return (
            *(Path(sys.executable).with_name("levelgate"), "run"),
            *("--source", source, "--listen", f"127.0.0.1:{self.port}"),
        )

    def declare(self, change: Change) -> None:
        self.repository.commit(change.files())

    def declared(self, since: int) -> datetime:
        """Return the time at which the ref moved."""
        head = self.repository.path / ".git" / self.repository.git("symbolic-ref", "HEAD").strip()
        return datetime.fromtimestamp(head.stat().st_mtime, UTC)

    def roll_out_at_once(self) -> None:
        self.repository.commit(at_once())

    def notes(self) -> list[str]:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            hold = _HOLD.search(answer.read().decode())
        assert hold, "the metrics do not tell how long the event loop stood still"
        return [f"longest hold of the event loop: {float(hold[1]):.3f} s"]


class Kro(System):
    """Controller with the values of its Helm chart, without leader election, because no replica stands by."""

    name = "kro"
    user = "admin"
    limits: ClassVar[Mapping[str, str]] = {}

    def prepare(self) -> None:
        for crd in binary.crds():
            written(self.server, "POST", _CRDS, crd)
        wait_until_served(self.server, _DEFINITIONS)

    def command(self) -> Sequence[str | Path]:
        return (
            binary.install(),
            *("--metrics-bind-address", f"127.0.0.1:{self.port}"),
            *("--health-probe-bind-address", f"127.0.0.1:{self.probes}"),
            *("--zap-log-level", "info", "--zap-encoder", "console", "--zap-devel=false"),
            *(word for flag in self.limits.items() for word in flag),
        )

    def declare(self, change: Change) -> None:
        if change.definition:
            asyncio.run(self._send("PATCH", {f"{_DEFINITIONS}/{DEFINITION}{_APPLY}": change.definition}))
            wait_until_served(self.server, INSTANCES)
        applied = {f"{INSTANCES}/{name}{_APPLY}": instance for name, instance in change.instances.items()}
        asyncio.run(self._send("PATCH", applied))
        asyncio.run(self._send("DELETE", {f"{INSTANCES}/{name}": {} for name in change.removed}))

    def declared(self, since: int) -> datetime:
        return self.first_write(since)

    async def _send(self, method: str, requests: Mapping[str, Mapping[str, Any]]) -> None:
        bodies = [(path, json.dumps(body).encode()) for path, body in requests.items()]
        await send(self.server, method, bodies, in_flight=IN_FLIGHT)


class LiftedKro(Kro):
    """kro without limits, with many reconciles at a time and short waits."""

    name = "kro-lifted"
    limits: ClassVar[Mapping[str, str]] = {
        "--client-qps": "100000",
        "--client-burst": "100000",
        "--dynamic-controller-concurrent-reconciles": "32",
        "--dynamic-controller-rate-limiter-rate-limit": "100000",
        "--dynamic-controller-rate-limiter-burst-limit": "100000",
        "--rgd-progress-requeue-delay": "100ms",
        "--instance-requeue-interval": "100ms",
    }


def wait_until_served(server: ControlPlane, path: str) -> None:
    """Wait until the server serves the kind of a new CRD. Raises: AssertionError after too long a wait."""
    eventually(lambda: server.request("GET", f"{path}?limit=1", user=CLIENT).code == 200, within=_SERVED_WITHIN)


def written(server: ControlPlane, method: str, path: str, body: object, kind: str = "application/json") -> None:
    """Send one write by the client. Raises: AssertionError if the server rejects the write."""
    answer = server.request(method, path, body, user=CLIENT, content_type=kind)
    assert answer.code < 300, f"{method} {path}: {answer.body}"
