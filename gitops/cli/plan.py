"""`levelgate plan`: what a commit would change, level by level, and what holds it. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from applier.adoption import Adoption
from applier.cluster import Cluster
from applier.errors import ConfigurationError
from gitops import compose
from gitops.cli import program_version, uncollected
from gitops.cli.options import ClusterChoice, adopt_option, cluster_options, refuse_beside_config
from gitops.cli.planned import text
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.errors import SourceError
from gitops.passes.sources import SourceState
from gitops.propagation.gates import Fact
from gitops.records.record import SourceRecord, read_records
from gitops.review import planning
from gitops.review import snapshot as snapshots
from gitops.review.as_json import as_json
from gitops.review.narrowing import narrowed
from gitops.review.report import Caution, Hazard, Report
from gitops.source import Snapshot
from gitops.words.text import age, described
from gitops.words.times import Times
from renderer.catalog import Catalog
from renderer.identity import source_parent
from renderer.scope import suggestion

if TYPE_CHECKING:
    from gitops.config import Config

_Commits = tuple[Snapshot, Snapshot | None]
"""The head, and the base where one is named."""

_ELSEWHERE = "or compare commits with --base REV, or plan against the file of `levelgate snapshot` with --against FILE"


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.argument("refs", metavar="[REF]...", nargs=-1)
@click.option(
    "--base",
    metavar="REV",
    default="",
    help="Compare with this commit (branch, tag or id), as it was when the head left it.",
)
@click.option("--head", metavar="REV", default="", help="The commit to plan.  [default: the working tree]")
@click.option("--revision", metavar="REV", default="", help="The same as --head, where nothing is compared.")
@click.option(
    "--against",
    metavar="cluster|git|FILE",
    default="",
    help="What the head would change.  [default: the cluster; with --base that commit]",
)
@click.option(
    "--source",
    metavar="NAME",
    default="",
    help="The source that this repository is in the cluster.  [default: the one whose URL and path fit]",
)
@adopt_option
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Plan what `run` with this configuration would do with the source; --adopt then stands in it.",
)
@click.option("-n", "--namespace", metavar="NS", default="", help="The namespace of the REFs.")
@click.option("--exit-code", is_flag=True, help="Exit 2 when there are changes.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown", "junit", "sarif"]),
    default="text",
    show_default=True,
)
@click.option("--utc", is_flag=True, help="Show times in UTC instead of the zone of the terminal.")
@cluster_options
def command(
    place: str,
    refs: tuple[str, ...],
    base: str,
    head: str,
    revision: str,
    against: str,
    source: str,
    adopt: Adoption,
    file: Path | None,
    namespace: str,
    exit_code: bool,
    output: str,
    utc: bool,
    choice: ClusterChoice,
) -> int:
    """Show what a repository would create, update, replace and delete, in the order in which it would happen, and what holds it.

    Against the cluster; with --base against another commit, which needs no cluster. Values of Secrets are masked. REFs show these alone, in full.

    Marks: + create, ~ update, -/+ replace, < adopt, - delete, ? not knowable yet, ! cannot be done.

    \b
    levelgate plan . --source platform
    levelgate plan . --base main --exit-code
    levelgate plan . --base main --head topic -o markdown
    levelgate plan . --base main --against cluster webapp/cart -n prod
    levelgate plan . --source platform --against prod-eu.json -o sarif
    """
    if file:
        refuse_beside_config(adopt="--adopt")
    if revision and (base or head):
        raise click.UsageError("--revision is for a plan without --base; name the commits with --base and --head")
    if against == "git" and not base:
        raise click.UsageError("--against git compares commits: name the one to compare with, --base REV")
    wanted = [typed([word]) for word in refs]
    config = _configuration(file) if file else None
    asked = _Asked(place, base, head or revision, against or ("git" if base else "cluster"), source, adopt, config)
    with uncollected():
        report, title = asyncio.run(asked.report(choice))
    shown = narrowed(report, wanted, namespace)
    times = Times(utc)
    match output:
        case "json":
            click.echo(orjson.dumps(as_json(shown), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
        case "markdown":
            from gitops.review.markdown import comment

            click.echo(comment(shown, version=program_version()))
        case "junit":
            from gitops.review.findings import as_junit

            click.echo(as_junit(shown))
        case "sarif":
            from gitops.review.findings import as_sarif

            click.echo(orjson.dumps(as_sarif(shown, program_version()), option=orjson.OPT_INDENT_2))
        case _:
            header = f"{title}\n{times.full(report.at)}. Nothing was written."
            click.echo("\n".join([header, *text(shown, times, full=bool(refs))]))
    if report.problems:
        return 1
    return 2 if exit_code and report.has_changes else 0


def _configuration(file: Path) -> Config:
    from gitops.config import read

    return read(file)


class _Asked:
    """What is to be planned."""

    def __init__(
        self, place: str, base: str, head: str, against: str, source: str, adopt: Adoption, config: Config | None
    ) -> None:
        self.place, self.base, self.head, self.against = place, base, head, against
        self.source, self.adopt, self.config = source, adopt, config

    async def report(self, choice: ClusterChoice) -> tuple[Report, str]:
        """The report, and the line that says of what it is."""
        reading = asyncio.get_running_loop().run_in_executor(None, self._read)
        if self.against == "cluster":
            return await self._of_cluster(reading, choice)
        head, base = await reading
        if self.against == "git":
            assert base
            return await self._of_commits(base, head)
        return await self._of_file(base, head, Path(self.against))

    def _read(self) -> _Commits:
        head = compose.read(self.place, revision=self.head)
        if not self.base:
            return head, None
        return head, compose.read(self.place, revision=compose.fork(self.place, self.base, self.head), beside=head)

    async def _of_commits(self, base: Snapshot, head: Snapshot) -> tuple[Report, str]:
        name = self.source or compose.likely_name(self.place)
        before = compose.catalog_of(base, source=name)
        state = self._state(name, head, before)
        report = await planning.between(
            before, state, clock=SystemClock(), version=program_version(), facts=self._facts()
        )
        return report, self._title(name, base, head, "Git only")

    async def _of_cluster(self, reading: Awaitable[_Commits], choice: ClusterChoice) -> tuple[Report, str]:
        """While Git answers, what speaks to the cluster is imported, and the kubeconfig read."""
        chosen = choice.or_context(self.config.context) if self.config else choice
        try:
            async with chosen.connected() as cluster:
                head, base = await reading
                named = self.source or await _source_of(cluster, self.place)
                name = named or compose.likely_name(self.place)
                state = self._state(name, head)
                report = await planning.against(cluster, state, clock=SystemClock(), facts=self._facts())
                before = SourceRecord.read(await cluster.get(source_parent(name)) or {}).target
        except ConfigurationError as error:
            await reading  # what is wrong with the place is told first
            raise ConfigurationError(f"{error}; {_ELSEWHERE}") from None
        if before and not compose.follows(self.place, before, head.revision):
            said = f"history was rewritten: {head.revision[:7]} does not follow from {before[:7]}, where the source is"
            waits = f"{said}; a daemon that follows a branch waits until a person approves it"
            report = replace(report, warnings=(*report.warnings, Caution(Hazard.HISTORY, waits)))
        report = replace(report, base=base.revision if base else "", knows_deletions=bool(named))
        return report, self._title(name, base, head, f"against cluster {cluster.name}")

    async def _of_file(self, base: Snapshot | None, head: Snapshot, file: Path) -> tuple[Report, str]:
        snapshot = snapshots.read(file)
        record = snapshot.record()
        named = self.source or await _source_of(record, self.place)
        await record.close()
        name = named or compose.likely_name(self.place)
        report = await planning.against_snapshot(
            snapshot, self._state(name, head), clock=SystemClock(), facts=self._facts()
        )
        report = replace(report, base=base.revision if base else "", knows_deletions=bool(named))
        taken = f"a snapshot of cluster {snapshot.cluster}, {age(snapshot.at, report.at)} old"
        return report, self._title(name, base, head, f"against {taken}")

    def _state(self, name: str, head: Snapshot, before: Catalog | None = None) -> SourceState:
        state = SourceState(compose.catalog_of(head, source=name, previous=before), adoption=self.adopt)
        return _configured(state, name, self.config)

    def _facts(self) -> Mapping[str, Fact] | None:
        """A plan asks nobody: what is declared is not known."""
        if self.config is None:
            return None
        return {one.name: Fact(None, "a plan does not ask") for one in self.config.externals}

    def _title(self, name: str, base: Snapshot | None, head: Snapshot, against: str) -> str:
        before = f"{self.base} {base.revision[:7]} -> " if base else ""
        return f"Plan of {name}: {before}{described(head, self.head)}, {against}"


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


async def _source_of(cluster: Cluster, place: str) -> str:
    """The one source in the cluster whose repository and path this place is; empty if there is none or more than one."""
    urls, path = compose.locations(place)
    fitting = [name for name, record in await read_records(cluster) if record.url in urls and record.path == path]
    return fitting[0] if len(fitting) == 1 else ""
