"""The harness whose process follows a real repository, for rules about the history of a source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from applier.sandbox.endpoints.transport import RequestHandler
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.sources import SourceState
from gitops.source import Mirror, SourceTarget, make_stop_tick
from gitops.source_config import SourceConfig
from tests.support.git.repository import WorkTree
from tests.support.platform import Platform

ONE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n"
TWO = ONE.replace("one", "two")


def config_maps(*names: str) -> dict[str, str]:
    """Return one file for each ConfigMap."""
    return {f"{name}.yaml": ONE.replace("one", name) for name in names}


@dataclass
class GitPlatform(Platform):
    """A platform with real commits, which a follower fetches into a copy below `directory`.

    `work` is the repository. `commit` replaces all of its files; tests of history also use Git there. `config` holds
    the settings of the source, and `notices` what the follower tells.
    """

    directory: Path
    notices: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.work = WorkTree.create(self.directory / "platform")
        self.config = SourceConfig(self.source, SourceTarget(str(self.work.path)))
        return super().__enter__()

    @property
    def cache(self) -> Path:
        """Return the directory of the copy."""
        return self.directory / "cache"

    def restart(self, door: RequestHandler | None = None, /, **settings: Any) -> None:
        """Start a new process on the same repository, copy and cluster."""
        super().restart(door, **settings)
        stop = asyncio.Event()
        self.follower = Follower(
            {self.source: Mirror(self.config.target, self.cache, tick=make_stop_tick(stop.is_set))},
            self.reconciler,
            self.clock,
            stop,
            notice=lambda _, text: self.notices.append(text),
            configs={self.source: self.config},
            elapsed=self.clock.seconds,
        )

    def configure(self, **settings: Any) -> None:
        """Start a new process with these settings of the source."""
        self.config = replace(self.config, **settings)
        self.restart()

    def retarget(self, **changes: Any) -> None:
        """Start a new process that reads another URL, ref or path."""
        self.configure(target=replace(self.config.target, **changes))

    def committed(self, files: Mapping[str, str]) -> str:
        return self.work.replace(files)

    def read_sources(self) -> list[SourceState]:
        """Fetch, and return the source as the follower accepts it."""
        self.follower.poll(self.source)
        states = self.call(self.follower.fetch())
        self.sources = {state.catalog.source: state for state in states}
        return states

    def step(self, after: timedelta = timedelta()) -> ReconcileResult:
        """Move the clock, then fetch and reconcile once; requests of people count at the next step."""
        found = super().step(after)
        self.follower.cluster_loop.on_pass(found)
        return found


@contextmanager
def settled(directory: Path) -> Iterator[GitPlatform]:
    """Yield a platform whose first commit, `one` and `two`, is applied."""
    with GitPlatform(directory) as platform:
        platform.commit(config_maps("one", "two"))
        platform.settle()
        yield platform


def rewritten(platform: GitPlatform) -> str:
    """Force-push a history in which `two` never existed, and return its head."""
    work = platform.work
    work.git("checkout", "--quiet", "--orphan", "other")
    head = platform.commit(config_maps("one"))
    work.git("branch", "--force", "main", "other")
    work.git("checkout", "--quiet", "main")
    return head
