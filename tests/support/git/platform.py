"""A real repository followed into a sandbox, for rules about the history of a source."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops import source_config
from gitops.clock import SystemClock
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.records.source_record import SourceRecord
from gitops.source import Mirror, VersionRef, make_stop_tick
from gitops.source.version_range import VersionRange
from gitops.windows.window import LOCAL
from renderer.identity import ObjectKey, source_parent
from tests.support.git.repository import WorkTree

ONE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n"
TWO = ONE.replace("one", "two")


@dataclass
class GitPlatform:
    """A real Git repository, its copy, a sandbox, and a follower that `restart` replaces by a new one."""

    directory: Path
    notices: list[str] = field(default_factory=list)
    ref: str = ""
    url: str = ""
    require_plan: bool = False
    adoption: Adoption = NO_ADOPTION

    def __post_init__(self) -> None:
        self.work = WorkTree.create(self.directory / "platform")
        self.sandbox = Sandbox()
        self.cluster = cluster_of(self.sandbox.answer)
        self.restart()

    def restart(self, *, path: str = "") -> None:
        """Start a new process on the same repository, copy and cluster."""
        is_range = self.ref.startswith("semver:")
        source = source_config.parse_source(
            f"platform={self.url or self.work.path}", ref="" if is_range else self.ref, path=path
        )
        if is_range:
            versions = VersionRef(VersionRange.parse(self.ref.removeprefix("semver:")))
            source = replace(source, target=replace(source.target, ref=versions))
        source = replace(source, require_plan=self.require_plan, adoption=self.adoption)
        stop = asyncio.Event()
        self.follower = Follower(
            {"platform": Mirror(source.target, self.directory / "cache", tick=make_stop_tick(stop.is_set))},
            Reconciler(self.cluster, "0", SystemClock(), LOCAL),
            SystemClock(),
            stop,
            notice=self._notice,
            configs={"platform": source},
        )

    def _notice(self, _: str, text: str) -> None:
        self.notices.append(text)

    async def settle(self) -> ReconcileResult:
        """Fetch once, then reconcile until nothing changes."""
        self.follower.poll("platform")
        states = await self.follower.fetch()
        while True:
            found = await self.follower.reconciler.reconcile(states)
            if not found.changed:
                return found

    async def deployed(self) -> set[str]:
        """Return the names of the ConfigMaps in `default`."""
        found = await self.cluster.list(ObjectKey("", "ConfigMap", "", "").group_kind, "default")
        return {obj["metadata"]["name"] for obj in found}

    async def record(self) -> SourceRecord:
        """Return the record of the source."""
        return SourceRecord.from_object(await self.cluster.get(source_parent("platform")) or {})

    async def approve(self, commit: str) -> None:
        """Approve a commit, as a person does."""
        said: dict[str, Any] = {"metadata": {"annotations": {"levelgate.dev/approved-commit": commit}}}
        await self.cluster.merge(source_parent("platform"), said, manager="person")


def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitPlatform:
    """Return a platform whose first commit, `one` and `two`, is applied."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = GitPlatform(tmp_path)
    found.work.commit(one=ONE, two=TWO)
    asyncio.run(found.settle())
    return found


def rewritten(world: GitPlatform) -> str:
    """Force-push a history in which `two` never existed, and return its head."""
    world.work.git("checkout", "--quiet", "--orphan", "other")
    world.work.git("rm", "--quiet", "-r", "-f", ".")
    found = world.work.commit(one=ONE)
    world.work.git("branch", "--force", "main", "other")
    world.work.git("checkout", "--quiet", "main")
    return found


async def uid(world: GitPlatform, name: str) -> str:
    """Return the uid of a ConfigMap."""
    found = await world.cluster.get(ObjectKey("", "ConfigMap", "default", name))
    assert found
    return str(found["metadata"]["uid"])
