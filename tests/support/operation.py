"""A follower at work on the platform of instances, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.source import BranchRef, Mirror, SourceSnapshot, SourceTarget, Tip
from gitops.source.snapshot import File
from gitops.windows.window import LOCAL
from tests.support.cluster.waiting import until
from tests.support.link_platform import LinkPlatform


@dataclass
class CommittedMirror:
    """A mirror of the last commit of a platform."""

    fleet: LinkPlatform
    repository: str = "here"
    server: str = ""
    ref_names: tuple[str, ...] = ("main",)
    credential_states: tuple[object, ...] = ()

    @property
    def target(self) -> SourceTarget:
        return SourceTarget("file:///platform", BranchRef("main"))

    def list_refs(self, *names: str) -> dict[str, str]:
        assert self.fleet.catalog
        return dict.fromkeys(names, self.fleet.catalog.commit)

    def find_tip(self, refs: dict[str, str]) -> Tip:
        return Tip("main", refs["main"])

    def fetch(self, tip: Tip) -> str:
        return tip.commit

    def is_ancestor(self, *_: str) -> bool:
        return True

    def has_commit(self, _commit: str) -> bool:
        return True

    def find_copied_commit(self, prefix: str) -> str | None:
        return self.fleet.find_pushed_commit(prefix)

    def read_snapshot(self, revision: str) -> SourceSnapshot:
        newest = self.fleet.state.catalog
        catalog = newest if revision == newest.commit else self.fleet.pushed[revision]
        files = {file: File("", found.data) for file, found in catalog.contents.items()}
        return SourceSnapshot(revision, revision, files, (), True, "subject", "Ada", "subject", None)


@asynccontextmanager
async def operating(
    fleet: LinkPlatform, reconciling: type[Reconciler] = Reconciler, **more: Any
) -> AsyncIterator[Operation]:
    """Run a follower on the platform, and yield it after its first full reconciliation."""
    reconciler = reconciling(fleet.cluster, "0", fleet.clock, LOCAL)
    follower = Follower(
        {"platform": cast(Mirror, CommittedMirror(fleet))}, reconciler, fleet.clock, elapsed=fleet.clock.seconds, **more
    )
    found = Operation(fleet, follower)
    follower.on_pass = found.passed
    async with EventRouter(reconciler, follower.enqueue, lambda _: None) as follower.event_router:
        running = asyncio.ensure_future(follower.run_forever())
        try:
            await found.until(lambda: None in found.passes)
            yield found
        finally:
            follower.stop.set()
            await asyncio.wait_for(running, 60)


@dataclass
class Operation:
    """A follower at work. `passes` has the names of the instances that each reconciliation looked at, or None for all."""

    fleet: LinkPlatform
    follower: Follower
    passes: list[frozenset[str] | None] = field(default_factory=list)

    def passed(self, found: ReconcileResult) -> None:
        """Note a reconciliation."""
        names = frozenset(one.rendered.parent.name for one in found.sets if not one.rendered.is_source)
        self.passes.append(None if found.touched is None else names)

    async def until(self, condition: Callable[[], bool]) -> list[frozenset[str] | None]:
        """Wait for the condition and its consequences. Return the reconciliations since the last call."""
        await until(condition)  # reading a commit is work of real threads
        for _ in range(300):
            await asyncio.sleep(0)
        found, self.passes[:] = list(self.passes), []
        return found
