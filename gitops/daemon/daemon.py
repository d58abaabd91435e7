"""Triggers of a follower: timers, watches of local repositories, and a configuration that may change at run time.

Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from applier.cluster import ClusterName
from gitops import source_config
from gitops.config import Config
from gitops.daemon.event_router import EventRouter
from gitops.daemon.file_watch import RefWatch
from gitops.daemon.fleet import Fleet
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.daemon.timers import Timers
from gitops.external_facts import ExternalFactPoller, ExternalFactSource
from gitops.notifications import Delivery
from gitops.pull_requests.revert_proposer import RevertProposer
from gitops.reconcile.context import ReconcileResult
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

_FIRST_FACTS_TIMEOUT_SECONDS: Final = 2.0
"""Longest wait of the first reconciliation for external facts, in seconds.

A later answer starts another reconciliation.
"""

_DELIVERY_TIMEOUT_SECONDS: Final = 2.0
"""Longest wait for receivers of notifications at the end of the process, in seconds."""


@dataclass
class Daemon:
    """Long-running process around one follower."""

    follower: Follower
    """Follower whose sources match the configuration in `live_config` when the daemon is created."""

    fact_poller: ExternalFactPoller
    live_config: LiveConfig
    notice: Callable[[str, str], None]
    resync: timedelta
    _intervals: dict[str, timedelta] = field(default_factory=dict)
    _watches: dict[str, ExitStack] = field(default_factory=dict)
    _fact_requests: dict[ExternalFactSource, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._config = self.live_config.config

    async def run(self) -> None:
        """Run until the follower stops."""
        async with Timers() as timers:
            self._timers = timers
            with ExitStack() as stack:
                stack.callback(self._stop_polling)
                self._delivery = Delivery(self.follower.reconciler.cluster.name, self.follower.clock, self.notice)
                stack.callback(self._delivery.close)
                self.follower.reconciler.on_transitions = self._delivery.enqueue
                self._proposer = RevertProposer(
                    self.follower.reconciler.cluster, self.follower.clock, self.notice, self.follower.reconcile_all
                )
                stack.callback(self._proposer.close)
                self.follower.on_pass = partial(self._on_pass, self.follower.on_pass)
                self._apply_config()
                self.live_config.on_change = self._apply_config
                stack.callback(setattr, self.live_config, "on_change", lambda: None)
                self.follower.set_timer = lambda moment: (
                    timers.call_at("gates", moment, self.follower.on_timer) if moment else timers.cancel("gates")
                )
                if self.follower.fleet is not None:
                    self.follower.fleet.set_timer = partial(self._set_cluster_timer, self.follower.fleet)
                timers.call_every("resync", self.resync, self.follower.resync)
                if self._fact_requests:
                    await asyncio.wait(self._fact_requests.values(), timeout=_FIRST_FACTS_TIMEOUT_SECONDS)
                event_router = EventRouter(
                    self.follower.reconciler, self.follower.enqueue, partial(self.notice, "cluster")
                )
                async with event_router as self.follower.event_router:
                    await self.follower.run_forever()
                await self._delivery.finish(_DELIVERY_TIMEOUT_SECONDS)

    def _set_cluster_timer(self, fleet: Fleet, name: ClusterName, moment: datetime | None) -> None:
        """Set or cancel the timer of one cluster of the fleet."""
        if moment is None:
            self._timers.cancel(f"gates {name}")
        else:
            self._timers.call_at(f"gates {name}", moment, partial(fleet.on_timer, name))

    def _on_pass(self, report: Callable[[ReconcileResult], None], result: ReconcileResult) -> None:
        report(result)
        if result.touched is None:  # only full reconciliations decide halts
            self._proposer.propose_pending(result)

    def _apply_config(self) -> None:
        """Apply the configuration that is in force now."""
        config, previous = self.live_config.config, self._config
        self._config = config
        if config != previous:
            self._configure_follower(config, {source.name: source for source in previous.sources})
        self._configure_polling()
        self._configure_external_facts()
        self._delivery.configure(config.notifications)
        self._proposer.configure(config.sources, self.follower.mirrors)
        if config != previous:
            self.follower.reconcile_all()

    def _configure_follower(self, config: Config, previous_sources: Mapping[str, SourceConfig]) -> None:
        kept_mirrors = {
            source.name: self.follower.mirrors[source.name]
            for source in config.sources
            if (previous_source := previous_sources.get(source.name))
            and (previous_source.target, previous_source.credentials) == (source.target, source.credentials)
        }
        mirrors = source_config.create_mirrors(config.sources, self.follower.stop.is_set)
        self.follower.configure({**mirrors, **kept_mirrors}, {source.name: source for source in config.sources})

    def _configure_polling(self) -> None:
        """Set one poll timer per server, and one watch per local repository, for the configured sources."""
        sources = group_by_location(self._config)
        intervals = {location: min(source.interval for source in group) for location, group in sources.items()}
        for location in self._intervals.keys() - intervals.keys():
            self._timers.cancel(f"poll {location}")
        for location, interval in intervals.items():
            if self._intervals.get(location) != interval:
                self._timers.call_every(f"poll {location}", interval, partial(self._poll_location, location))
        self._intervals = intervals
        local_locations = {location for location, group in sources.items() if group[0].target.scheme == "file"}
        for location in self._watches.keys() - local_locations:
            self._watches.pop(location).close()
        for location in local_locations - self._watches.keys():
            name = sources[location][0].name
            watch = RefWatch(
                Path(location),
                partial(self._poll_location, location),
                warn=partial(self.notice, name),
            )
            self._watches[location] = ExitStack()
            self._watches[location].enter_context(watch)

    def _configure_external_facts(self) -> None:
        """Set one timer per configured external fact. Request a new or changed fact at once."""
        previous = dict(self.fact_poller.declared)
        self.fact_poller.declare(self._config.externals)
        for name in previous.keys() - self.fact_poller.declared.keys():
            self._timers.cancel(f"external {name}")
        for name, external in self.fact_poller.declared.items():
            if previous.get(name) != external:
                self._timers.call_every(
                    f"external {name}", external.interval, partial(self._start_fact_request, external), jitter=0.0
                )
                self._start_fact_request(external)

    def _start_fact_request(self, external: ExternalFactSource) -> None:
        """Request a fact in a separate task, so that a slow server delays no other work.

        If the previous task for the fact is still running, start no new task.
        """
        self._fact_requests = {pending: task for pending, task in self._fact_requests.items() if not task.done()}
        if external not in self._fact_requests:
            self._fact_requests[external] = asyncio.create_task(self._request_fact(external))

    async def _request_fact(self, external: ExternalFactSource) -> None:
        if await self.fact_poller.request_fact(external):
            self.follower.reconcile_all()

    def _stop_polling(self) -> None:
        for task in self._fact_requests.values():
            task.cancel()
        while self._watches:
            self._watches.popitem()[1].close()

    def _poll_location(self, location: str) -> None:
        self.follower.poll(*(source.name for source in group_by_location(self._config).get(location, ())))


def group_by_location(config: Config) -> Mapping[str, list[SourceConfig]]:
    """Return the sources, grouped by their location: the server or directory to poll."""
    sources_by_location: dict[str, list[SourceConfig]] = {}
    for source in config.sources:
        sources_by_location.setdefault(source.target.location, []).append(source)
    return sources_by_location
