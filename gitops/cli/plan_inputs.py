"""What `levelgate plan` is asked for: against what the head is planned, as which source, under which configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from applier.applyset.adoption import Adoption
from applier.cluster import Object
from applier.errors import ConfigurationError, Unavailable
from gitops import source_config
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice
from gitops.clock import SystemClock
from gitops.errors import SourceError
from gitops.gates.evaluate import ExternalFact
from gitops.plan import planner
from gitops.plan import snapshot as snapshots
from gitops.plan.report import PlanWarning, Report, WarningKind
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.source_record import SourceRecord, read_own, records_of
from gitops.source import locations
from gitops.source.locations import ComparedCommits
from gitops.source.target import identity
from gitops.text import age
from renderer.catalog.catalog import Catalog
from renderer.definition.variables import suggestion
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

if TYPE_CHECKING:
    from gitops.config import Config


_ELSEWHERE = "or compare commits with --base REV, or plan against the file of `levelgate snapshot` with --against FILE"


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What is to be planned."""

    place: str
    base: str
    head: str
    against: str
    source: str
    adopt: Adoption
    config: Config | None

    async def report(self, choice: ClusterChoice, commits: Future[ComparedCommits]) -> tuple[Report, str]:
        """The report of the commits that are being read, and the line that says of what it is."""
        reading = asyncio.wrap_future(commits)
        if self.against == "cluster":
            return await self._of_cluster(reading, choice)
        if self.against == "git":
            return await self._of_commits(await reading)
        return await self._of_file(await reading, Path(self.against))

    async def _of_commits(self, commits: ComparedCommits) -> tuple[Report, str]:
        assert commits.base
        name = self.source or source_config.likely_name(self.place)
        before = source_config.catalog_of(commits.base, source=name)
        state = self._state(name, commits, before)
        report = await planner.between(
            before,
            state,
            clock=SystemClock(),
            version=program_version(),
            cluster_name=self._cluster_name(()),
            facts=self._facts(),
        )
        return report, self._title(name, commits, "Git only")

    async def _of_cluster(self, reading: Awaitable[ComparedCommits], choice: ClusterChoice) -> tuple[Report, str]:
        """While Git answers, the kubeconfig is read, and what speaks to the cluster is imported."""
        chosen = choice.or_context(self.config.context) if self.config else choice
        try:
            async with chosen.connected() as cluster:
                commits = await reading
                own = await read_own(cluster)
                records = records_of(own)
                named = self.source or _source_of(records, self.place)
                name = named or source_config.likely_name(self.place)
                state = self._state(name, commits)
                report, warnings = await asyncio.gather(
                    planner.against(
                        cluster,
                        state,
                        clock=SystemClock(),
                        cluster_name=self._cluster_name(own),
                        facts=self._facts(),
                        own=own,
                    ),
                    self._of_history(records.get(name, SourceRecord()).target, commits.head.revision),
                )
        except ConfigurationError as error:
            await reading  # what is wrong with the place is told first
            raise ConfigurationError(f"{error}; {_ELSEWHERE}") from None
        except Unavailable as error:
            raise error.put(lambda said: f"{said}; try again, {_ELSEWHERE}") from None
        report = replace(
            report,
            warnings=(*report.warnings, *warnings),
            base=commits.base.revision if commits.base else "",
            knows_deletions=bool(named),
        )
        return report, self._title(name, commits, f"against cluster {cluster.name}")

    async def _of_history(self, before: str, commit: str) -> Sequence[PlanWarning]:
        """Does the commit follow from the one that the source is at? Git is asked while the cluster answers."""
        if not before or await asyncio.to_thread(locations.follows, self.place, before, commit):
            return ()
        said = f"history was rewritten: {commit[:7]} does not follow from {before[:7]}, where the source is"
        return (
            PlanWarning(
                WarningKind.HISTORY, f"{said}; a daemon that follows a branch waits until a person approves it"
            ),
        )

    async def _of_file(self, commits: ComparedCommits, file: Path) -> tuple[Report, str]:
        snapshot = snapshots.read(file)
        record = snapshot.record()
        own = await read_own(record)
        named = self.source or _source_of(records_of(own), self.place)
        await record.close()
        name = named or source_config.likely_name(self.place)
        report = await planner.against_snapshot(
            snapshot,
            self._state(name, commits),
            clock=SystemClock(),
            cluster_name=self._cluster_name(own),
            facts=self._facts(),
        )
        report = replace(report, base=commits.base.revision if commits.base else "", knows_deletions=bool(named))
        taken = f"a snapshot of cluster {snapshot.cluster}, {age(snapshot.at, report.at)} old"
        return report, self._title(name, commits, f"against {taken}")

    def _state(self, name: str, commits: ComparedCommits, before: Catalog | None = None) -> SourceState:
        catalog = source_config.catalog_of(commits.head, source=name, previous=before)
        state = SourceState(catalog, path=commits.path, adoption=self.adopt)
        return _configured(state, name, self.config)

    def _cluster_name(self, own: Iterable[Object]) -> str:
        """Return the name that the configuration gives the cluster, else the one on record among `own`, the ConfigMaps of our namespace."""
        if self.config:
            return self.config.cluster
        return cluster_name(next((obj for obj in own if ObjectKey.of(obj) == INSTALLATION), None))

    def _facts(self) -> Mapping[str, ExternalFact] | None:
        """A plan asks nobody: what is declared is not known."""
        if self.config is None:
            return None
        return {one.name: ExternalFact(None, "a plan does not ask") for one in self.config.externals}

    def _title(self, name: str, commits: ComparedCommits, against: str) -> str:
        before = f"{self.base} {commits.base.revision[:7]} -> " if commits.base else ""
        title = f"Plan of {name}: {before}{commits.head.describe(self.head)}, {against}"
        if not commits.tip:
            return title
        return (
            f"{title}\n"
            f"{self.base} has gone on to {commits.tip[:7]} since; merge it in, or rebase, to see what would happen now."
        )


def _configured(state: SourceState, name: str, config: Config | None) -> SourceState:
    """Under what the configuration says of this source. Raises GitopsError where it does not know it."""
    if config is None:
        return state
    sources = {one.name: one for one in config.sources}
    if name not in sources:
        raise SourceError(
            name, f"is no source of the configuration{suggestion(name, sources)}", advice="name it: --source"
        )
    return state.configured(sources[name], config.governors)


def _source_of(records: Mapping[str, SourceRecord], place: str) -> str:
    """The one source of these whose repository and path this place is; empty if there is none or more than one."""
    urls, path = locations.locations(place)
    fitting = [name for name, record in records.items() if identity(record.url) in urls and record.path == path]
    return fitting[0] if len(fitting) == 1 else ""
