"""`levelgate` that is killed (SIGKILL, by itself) at its n-th write to the cluster."""

from __future__ import annotations

import os
import signal
from typing import Any

from applier.kube.cluster import KubeCluster
from renderer.identity import ObjectKey
from tests.support import command as process
from tests.support.command_platform import CommandPlatform


def arm(at: int, moment: str) -> None:
    """Kill this process before the `at`-th write is sent, or after its answer has arrived."""
    count = 0

    def armed(name: str) -> None:
        original = getattr(KubeCluster, name)

        async def write(self: KubeCluster, *arguments: Any, **options: Any) -> Any:
            nonlocal count
            if _is_of_the_lease(*arguments):
                return await original(self, *arguments, **options)
            count += 1
            if count == at and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            mine = count
            answer = await original(self, *arguments, **options)
            if mine == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(KubeCluster, name, write)

    for name in ("apply", "delete", "merge"):
        armed(name)


def _is_of_the_lease(what: ObjectKey | dict[str, Any], *_: Any) -> bool:
    """Who leads is written in every life, and moves nothing."""
    return (what.kind if isinstance(what, ObjectKey) else what["kind"]) == "Lease"


KILLED = -9


def run_killed(platform: CommandPlatform, at: int, moment: str) -> int:
    """One `run --once` that is killed at its `at`-th write; its exit code."""
    arguments = ("run", "--source", f"{platform.name}={platform.repository.path}", "--once", "--wait", "0s")
    done = process.run(arguments, platform.environment, before=arm, given=(at, moment))
    assert done.returncode in {KILLED, 0, 3}, done.stdout + done.stderr
    return done.returncode
