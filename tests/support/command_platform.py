"""A platform for one scenario: a real Git repository, the real command, a real cluster watched through its audit log."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import command as process
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.kubectl import Kubectl
from tests.support.git.repository import Repository


@dataclass(frozen=True)
class CommandPlatform:
    """One source and its command line. `name` is the source's name; `group` is a group of kinds that no other test uses."""

    name: str
    namespace: str
    group: str
    repository: Repository
    kubectl: Kubectl
    audit_log: AuditLog | None
    kubeconfig: Path
    cache: Path

    def levelgate(self, *arguments: str, check: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its exit code must be *check*."""
        done = process.run(arguments, self.environment)
        assert check is None or done.returncode == check, (
            f"exit {done.returncode}, expected {check}\n{done.stdout}{done.stderr}"
        )
        return done

    @property
    def configuration(self) -> tuple[str, ...]:
        """Return the arguments of `run` that name what it reconciles: this source alone."""
        return "--source", f"{self.name}={self.repository.path}"

    def run_once(self, *arguments: str, check: int | None = 0, wait: str = "0s") -> subprocess.CompletedProcess[str]:
        """Run `levelgate run --once`; its exit code must be *check*."""
        return self.levelgate("run", *self.configuration, "--once", "--wait", wait, *arguments, check=check)

    def start(self, *arguments: str) -> process.RunningCommand:
        """Start the daemon, or `--once`, as a process that the test ends."""
        return process.RunningCommand(("run", *self.configuration, *arguments), self.environment)

    @property
    def audit(self) -> AuditLog:
        """Return the audit log, which only the real server has."""
        assert self.audit_log, "the sandbox has no audit log"
        return self.audit_log

    @property
    def environment(self) -> dict[str, str]:
        own = {"KUBECONFIG": str(self.kubeconfig), "XDG_CACHE_HOME": str(self.cache)}
        return {**os.environ, **own, "NO_COLOR": "1", "LEVELGATE_LISTEN": "off"}

    def writes(self, since: int) -> list[AuditEvent]:
        """Return Levelgate's writes since a mark that concern this test, without Events, by the server's log."""
        return [
            event
            for event in self.audit.events(since=since, user="levelgate")
            if event.is_write and event.resource != "events" and self._is_mine(event)
        ]

    def requests(self, since: int) -> list[AuditEvent]:
        return self.audit.events(since=since, user="levelgate")

    def _is_mine(self, event: AuditEvent) -> bool:
        names = (event.namespace or "", event.group or "", event.name or "")
        return any(self.namespace in text or self.name in text or self.group in text for text in names)


def text(platform: CommandPlatform, name: str) -> str:
    """Return the key `text` of a ConfigMap, "" if there is none."""
    return platform.kubectl(
        "get", "configmap", name, "-n", platform.namespace, "-o", "jsonpath={.data.text}", check=False
    )


def make_available(platform: CommandPlatform, name: str, replicas: int) -> None:
    """Write the status that the Deployment controller would write; it does not run here."""
    generation = int(
        platform.kubectl("get", "deployment", name, "-n", platform.namespace, "-o", "jsonpath={.metadata.generation}")
    )
    status = {
        "observedGeneration": generation,
        **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas),
        "conditions": [
            {"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ],
    }
    patch = json.dumps({"status": status})
    platform.kubectl(
        "patch", "deployment", name, "-n", platform.namespace, "--subresource=status", "--type=merge", "-p", patch
    )
