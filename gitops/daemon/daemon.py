"""What keeps a follower going: timers, hints of the file system, and a configuration that may change meanwhile.

Runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from gitops import source_config
from gitops.config import Config
from gitops.daemon.event_router import EventRouter
from gitops.daemon.file_watch import RefWatch
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.daemon.timers import Timers
from gitops.daemon.workqueue import RESYNC
from gitops.external_facts import ExternalFactPoller, ExternalFactSource
from gitops.notifications import Delivery
from gitops.pull_requests.revert_proposer import RevertProposer
from gitops.reconcile.context import ReconcileResult
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

_FIRST_ANSWERS: Final = 2.0
"""Seconds that the first pass waits for external facts; a later answer wakes the next one."""
_LAST_WORDS: Final = 2.0
"""Seconds that the end waits for receivers of notifications."""


@dataclass
class Daemon:
    """Follows the sources of what is in force of `configuration`; `follower` was made for what is when this is made."""

    follower: Follower
    externals: ExternalFactPoller
    configuration: LiveConfig
    notice: Callable[[str, str], None]
    resync: timedelta
    _intervals: dict[str, timedelta] = field(default_factory=dict)
    _watches: dict[str, ExitStack] = field(default_factory=dict)
    _asking: dict[ExternalFactSource, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._config = self.configuration.config

    async def run(self) -> None:
        """Until the follower is stopped."""
        async with Timers() as schedule:
            self._schedule = schedule
            with ExitStack() as stack:
                stack.callback(self._look_no_more)
                self._delivery = Delivery(self.follower.reconciler.cluster.name, self.follower.clock, self.notice)
                stack.callback(self._delivery.close)
                self.follower.reconciler.on_transitions = self._delivery.take
                self._proposer = RevertProposer(
                    self.follower.reconciler.cluster, self.follower.clock, self.notice, self.follower.reconcile_all
                )
                stack.callback(self._proposer.close)
                self.follower.passed = partial(self._passed, self.follower.passed)
                self._take()
                self.configuration.taken = self._take
                stack.callback(setattr, self.configuration, "taken", lambda: None)
                self.follower.wake_at = lambda moment: (
                    schedule.at("gates", moment, self.follower.on_timer) if moment else schedule.cancel("gates")
                )
                schedule.every("resync", self.resync, partial(self.follower.wake, None, RESYNC))
                if self._asking:
                    await asyncio.wait(self._asking.values(), timeout=_FIRST_ANSWERS)
                attention = EventRouter(self.follower.reconciler, self.follower.wake, partial(self.notice, "cluster"))
                async with attention as self.follower.attention:
                    await self.follower.forever()
                await self._delivery.finish(_LAST_WORDS)

    def _passed(self, tell: Callable[[ReconcileResult], None], found: ReconcileResult) -> None:
        tell(found)
        if found.touched is None:  # who halts is decided there
            self._proposer.heed(found)

    def _take(self) -> None:
        """Go by what is in force now."""
        config, before = self.configuration.config, self._config
        self._config = config
        if config != before:
            self._follow(config, {one.name: one for one in before.sources})
        self._look_out()
        self._listen()
        self._delivery.configure(config.notifications)
        self._proposer.configure(config.sources, self.follower.mirrors)
        if config != before:
            self.follower.reconcile_all()

    def _follow(self, config: Config, before: Mapping[str, SourceConfig]) -> None:
        kept = {
            one.name: self.follower.mirrors[one.name]
            for one in config.sources
            if (old := before.get(one.name)) and (old.target, old.credentials) == (one.target, one.credentials)
        }
        mirrors = source_config.mirrors(config.sources, stopping=self.follower.stop.is_set)
        self.follower.configure({**mirrors, **kept}, {one.name: one for one in config.sources})

    def _look_out(self) -> None:
        """A timer for each server, and a watch for each local repository, of the sources that there are now."""
        sources = by_location(self._config)
        intervals = {location: min(one.interval for one in together) for location, together in sources.items()}
        for location in self._intervals.keys() - intervals.keys():
            self._schedule.cancel(f"poll {location}")
        for location, interval in intervals.items():
            if self._intervals.get(location) != interval:
                self._schedule.every(f"poll {location}", interval, partial(self._look, location))
        self._intervals = intervals
        local = {location for location, together in sources.items() if together[0].target.scheme == "file"}
        for location in self._watches.keys() - local:
            self._watches.pop(location).close()
        for location in local - self._watches.keys():
            name = sources[location][0].name
            watch = RefWatch(
                Path(location),
                partial(self._look, location),
                warn=partial(self.notice, name),
            )
            self._watches[location] = ExitStack()
            self._watches[location].enter_context(watch)

    def _listen(self) -> None:
        """A timer for each external fact that there is now; one that is new or declared otherwise is asked for at once."""
        before = dict(self.externals.declared)
        self.externals.declare(self._config.externals)
        for name in before.keys() - self.externals.declared.keys():
            self._schedule.cancel(f"external {name}")
        for name, external in self.externals.declared.items():
            if before.get(name) != external:
                self._schedule.every(f"external {name}", external.interval, partial(self._ask, external), jitter=0.0)
                self._ask(external)

    def _ask(self, external: ExternalFactSource) -> None:
        """In a task of its own: whoever does not answer holds up nobody."""
        self._asking = {one: asking for one, asking in self._asking.items() if not asking.done()}
        if external not in self._asking:
            self._asking[external] = asyncio.create_task(self._asked(external))

    async def _asked(self, external: ExternalFactSource) -> None:
        if await self.externals.ask(external):
            self.follower.reconcile_all()

    def _look_no_more(self) -> None:
        for asking in self._asking.values():
            asking.cancel()
        while self._watches:
            self._watches.popitem()[1].close()

    def _look(self, location: str) -> None:
        self.follower.poll(*(one.name for one in by_location(self._config).get(location, ())))


def by_location(config: Config) -> Mapping[str, list[SourceConfig]]:
    """The sources by the server or directory that is asked for them."""
    found: dict[str, list[SourceConfig]] = {}
    for one in config.sources:
        found.setdefault(one.target.location, []).append(one)
    return found
