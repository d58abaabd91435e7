"""Inputs of `levelgate plan`: the state to compare with, the source to plan, and the source's configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from applier.applyset.adoption import Adoption
from applier.cluster import LOCAL_CLUSTER, Object
from applier.errors import ConfigurationError, Unavailable
from applier.state.field_conflicts import ConflictPolicy
from gitops import source_config
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice
from gitops.clock import SystemClock
from gitops.errors import SourceError
from gitops.gates.evaluate import ExternalFact
from gitops.plan import planner
from gitops.plan.before_placement import strip_placement, warn_before_placement
from gitops.plan.report import PlanWarning, Report, WarningKind
from gitops.plan.snapshot import read_snapshot
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.source_record import SourceRecord, read_own_configmaps, source_records
from gitops.source import locations
from gitops.source.locations import ComparedCommits
from gitops.source.target import identity
from gitops.text import format_age
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import suggestion_or_names

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster
    from gitops.config import Config
    from gitops.plan.fleet_report import FleetReport


_ALTERNATIVES = (
    "or compare commits with --base REV, or plan against the file of `levelgate snapshot` with --against FILE"
)
"""Last part of the advice for a person whose cluster does not answer."""


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Arguments of the command line that determine the plan."""

    place: str
    """Directory or URL of the repository."""
    base: str
    """Commit to compare with, as typed, or an empty string to compare with a cluster or a file."""
    head: str
    """Commit to plan, as typed, or an empty string for the working tree."""
    against: str
    """`cluster`, `git`, or the path of a cluster snapshot."""
    source: str
    """Name of the source, or an empty string to find it by URL and path."""
    adopt: Adoption
    conflicts: ConflictPolicy
    config: Config | None

    async def make_report(self, choice: ClusterChoice, commits: Future[ComparedCommits]) -> tuple[Report, str]:
        """Plan the commits, and return the report and its title.

        Raises: SourceError, ConfigurationError, ClusterError.
        """
        reading = asyncio.wrap_future(commits)
        if self.against == "cluster":
            return await self._report_against_cluster(reading, choice)
        if self.against == "git":
            return await self._report_between_commits(await reading)
        return await self._report_against_file(await reading, Path(self.against))

    async def make_fleet_report(
        self, choice: ClusterChoice, commits: Future[ComparedCommits], wanted: str
    ) -> tuple[FleetReport, str]:
        """Plan for the member clusters in `wanted`, or for all, and return the report and its title."""
        from gitops.plan.fleet_planner import FleetPlanner, place_as_hub

        config, reading = self.config, asyncio.wrap_future(commits)
        assert config
        assert config.fleet
        async with self._connect(choice, reading) as hub:
            compared = await reading
            records = source_records(await read_own_configmaps(hub))
            known_source = self.source or _find_source(records, self.place) or _find_configured(config, self.place)
            name = known_source or source_config.derive_name(self.place)
            placed = await place_as_hub(hub, self._source_state(name, compared), config.fleet.source)
            fleet_planner = FleetPlanner(
                hub=hub,
                hub_name=config.cluster,
                access=config.fleet.access,
                clock=SystemClock(),
                facts=self._unknown_facts(),
                knows_deletions=bool(known_source),
            )
            report = await fleet_planner.plan(placed, wanted, {entry.name for entry in config.sources} - {name})
        return report, self._format_title(name, compared, f"by the hub {hub.name}")

    async def _report_between_commits(self, commits: ComparedCommits) -> tuple[Report, str]:
        assert commits.base
        name = self.source or source_config.derive_name(self.place)
        base_catalog = source_config.load_catalog(commits.base, source=name)
        state = self._source_state(name, commits, base_catalog)
        fleet = self.config.fleet if self.config else None
        if fleet:
            base_catalog = strip_placement(base_catalog, fleet.source)
            state = replace(state, catalog=strip_placement(state.catalog, fleet.source))
        report = await planner.plan_commits(
            base_catalog,
            state,
            clock=SystemClock(),
            version=program_version(),
            cluster_name=self._cluster_name(()),
            facts=self._unknown_facts(),
        )
        if fleet:
            report = warn_before_placement(report)
        return report, self._format_title(name, commits, "Git only")

    async def _report_against_cluster(
        self, reading: Awaitable[ComparedCommits], choice: ClusterChoice
    ) -> tuple[Report, str]:
        """Plan against the live cluster. Connect to the cluster while another thread reads Git."""
        async with self._connect(choice, reading) as cluster:
            commits = await reading
            own_objects = await read_own_configmaps(cluster)
            records = source_records(own_objects)
            known_source = self.source or _find_source(records, self.place)
            if self.config and self.config.fleet:
                known_source = known_source or _find_configured(self.config, self.place)
            name = known_source or source_config.derive_name(self.place)
            state = self._source_state(name, commits)
            if self.config and self.config.fleet:
                from gitops.plan.fleet_planner import place_as_hub

                state = (await place_as_hub(cluster, state, self.config.fleet.source)).state_of(LOCAL_CLUSTER)
            report, warnings = await asyncio.gather(
                planner.plan_against_cluster(
                    cluster,
                    state,
                    clock=SystemClock(),
                    cluster_name=self._cluster_name(own_objects),
                    facts=self._unknown_facts(),
                    own_configmaps=own_objects,
                ),
                self._history_warnings(records.get(name, SourceRecord()).target, commits.head.revision),
            )
        report = replace(
            report,
            warnings=(*report.warnings, *warnings),
            base=commits.base.revision if commits.base else "",
            knows_deletions=bool(known_source),
        )
        return report, self._format_title(name, commits, f"against cluster {cluster.name}")

    @asynccontextmanager
    async def _connect(self, choice: ClusterChoice, reading: Awaitable[ComparedCommits]) -> AsyncIterator[KubeCluster]:
        """Connect to the chosen cluster. If this fails, the text of the error names ways to plan without a cluster.

        If the repository is not readable either, raise the error of the repository instead.
        """
        cluster_choice = choice.with_default_context(self.config.context) if self.config else choice
        try:
            async with cluster_choice.connect() as cluster:
                yield cluster
        except ConfigurationError as error:
            await reading
            raise ConfigurationError(f"{error}; {_ALTERNATIVES}") from None
        except Unavailable as error:
            raise error.with_rewritten_text(lambda said: f"{said}; try again, {_ALTERNATIVES}") from None

    async def _history_warnings(self, previous_commit: str, commit: str) -> Sequence[PlanWarning]:
        """Return a warning if `commit` does not descend from `previous_commit`, the current commit of the source.

        Git compares the commits while the cluster answers.
        """
        if not previous_commit or await asyncio.to_thread(locations.is_descendant, self.place, previous_commit, commit):
            return ()
        message = (
            f"history is rewritten: {commit[:7]} does not descend from {previous_commit[:7]}, the commit of the source"
        )
        return (PlanWarning(WarningKind.HISTORY, f"{message}; if a daemon follows the branch, approve the commit"),)

    async def _report_against_file(self, commits: ComparedCommits, file: Path) -> tuple[Report, str]:
        snapshot = read_snapshot(file)
        record = snapshot.as_cluster()
        own = await read_own_configmaps(record)
        known_source = self.source or _find_source(source_records(own), self.place)
        await record.close()
        name = known_source or source_config.derive_name(self.place)
        state = self._source_state(name, commits)
        fleet = self.config.fleet if self.config else None
        if fleet:
            state = replace(state, catalog=strip_placement(state.catalog, fleet.source))
        report = await planner.plan_against_snapshot(
            snapshot,
            state,
            clock=SystemClock(),
            cluster_name=self._cluster_name(own),
            facts=self._unknown_facts(),
        )
        if fleet:
            report = warn_before_placement(report)
        report = replace(report, base=commits.base.revision if commits.base else "", knows_deletions=bool(known_source))
        snapshot_title = f"a snapshot of cluster {snapshot.cluster}, {format_age(snapshot.taken_at, report.at)} old"
        return report, self._format_title(name, commits, f"against {snapshot_title}")

    def _source_state(
        self, name: str, commits: ComparedCommits, previous_catalog: Catalog | None = None
    ) -> SourceState:
        catalog = source_config.load_catalog(commits.head, source=name, previous=previous_catalog)
        state = SourceState(catalog, path=commits.path, adoption=self.adopt, conflicts=self.conflicts)
        return _with_configuration(state, name, self.config)

    def _cluster_name(self, own: Iterable[Object]) -> str:
        """Return the cluster's name in the configuration. Without a configuration, return the recorded name.

        Args:
            own: ConfigMaps of Levelgate's namespace.
        """
        if self.config:
            return self.config.cluster
        return cluster_name(next((obj for obj in own if ObjectKey.from_manifest(obj) == INSTALLATION), None))

    def _unknown_facts(self) -> Mapping[str, ExternalFact] | None:
        """Return the external facts of the configuration as unknown, because a plan does not request facts.

        Without a configuration, return None.
        """
        if self.config is None:
            return None
        return {
            external_fact.name: ExternalFact(None, "a plan requests no facts")
            for external_fact in self.config.externals
        }

    def _format_title(self, name: str, commits: ComparedCommits, against: str) -> str:
        base_text = f"{self.base} {commits.base.revision[:7]} -> " if commits.base else ""
        title = f"Plan of {name}: {base_text}{commits.head.describe(self.head)}, {against}"
        if not commits.tip:
            return title
        return (
            f"{title}\n"
            f"{self.base} has moved to {commits.tip[:7]} since; to see the current effect, merge {self.base} or rebase."
        )


def _with_configuration(state: SourceState, name: str, config: Config | None) -> SourceState:
    """Return `state` with the settings of `config` for the source called `name`.

    Raises: SourceError if `config` does not have the source.
    """
    if config is None:
        return state
    sources = {source_entry.name: source_entry for source_entry in config.sources}
    if name not in sources:
        raise SourceError(
            name,
            f"is not a source of the configuration{suggestion_or_names(name, sources)}",
            advice="name a source with --source",
        )
    return state.configured(sources[name], config.governors)


def _find_configured(config: Config, place: str) -> str:
    """Return the name of the source in `config` that has the repository and path of `place`.

    If no source or more than one source matches, return an empty string.
    """
    urls, path = locations.list_identities(place)
    names = [entry.name for entry in config.sources if identity(entry.target.url) in urls and entry.target.path == path]
    return names[0] if len(names) == 1 else ""


def _find_source(records: Mapping[str, SourceRecord], place: str) -> str:
    """Return the name of the recorded source that has the repository and path of `place`.

    If no source or more than one source matches, return an empty string.
    """
    urls, path = locations.list_identities(place)
    matching_names = [name for name, record in records.items() if identity(record.url) in urls and record.path == path]
    return matching_names[0] if len(matching_names) == 1 else ""
