"""`levelgate lint`: everything that is wrong with a repository, without a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitops import source_config
from gitops.cli.options import revision_option, schemas_option
from gitops.cli.terminal import echo, echo_lines, tell
from gitops.clock import SystemClock
from gitops.config import Config, ConfigErrors, read
from gitops.source import locations
from gitops.source.target import identity
from gitops.times import length
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.export.lint import LintFinding, Severity, lint
from renderer.phrasing import counted, listed
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

if TYPE_CHECKING:
    from gitops.windows.window import WindowTarget


@click.command()
@click.argument("place", metavar="PATH|URL")
@revision_option
@schemas_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check this configuration of `run` too, and that it declares the external facts that gates ask for.",
)
def command(place: str, revision: str, schemas: tuple[str, ...], output: str, strict: bool, file: Path | None) -> int:
    """Say everything that is wrong with a repository, sorted by file and line.

    Needs no cluster. Definitions are compiled and instances rendered, so what only an instance shows is found too. Warnings are legal, but
    probably not what is meant.

    \b
    levelgate lint sample-repo
    levelgate lint . --strict -o json
    levelgate lint . --schemas schemas
    levelgate lint . --config levelgate.yaml
    """
    config, mistakes = _configuration(file)
    snapshot = locations.read(place, revision=revision)
    catalog = source_config.catalog_of(snapshot)
    types, unreadable = source_config.schemas_in(schemas)
    bundle = render([catalog], ClusterView(types=types))
    found = lint({path: file.data for path, file in snapshot.files.items()}, catalog, bundle, types)
    found += [*(LintFinding(problem, Severity.ERROR) for problem in unreadable), *mistakes]
    found += [*_of_rules(catalog, bundle, config), *(_of_reverts(place, catalog, config) if config else ())]
    found.sort(key=lambda finding: finding.problem)
    counts = Counter(finding.severity for finding in found)
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    if output == "json":
        report = {"errors": errors, "warnings": warnings, "findings": [_as_json(finding) for finding in found]}
        tell(report, "json", is_sorted=True)
    else:
        echo_lines(map(str, found))
        echo(f"{counted(len(snapshot.files), 'file')}: {counted(errors, 'error')}, {counted(warnings, 'warning')}.")
    return 1 if errors or (strict and warnings) else 0


def _configuration(file: Path | None) -> tuple[Config | None, list[LintFinding]]:
    """The configuration, or what is wrong with it."""
    if file is None:
        return None, []
    try:
        return read(file), []
    except ConfigErrors as errors:
        return None, [LintFinding(problem, Severity.ERROR) for problem in errors.problems]


def _of_rules(catalog: Catalog, bundle: Rendering, config: Config | None) -> Iterator[LintFinding]:
    """What is wrong with windows, policies, gates and what people ask, and which of them will not do what they seem to."""
    from gitops.rollouts.directives import glass_beyond

    now = SystemClock().now()
    for problem, is_over in glass_beyond(catalog.objects, now):
        yield LintFinding(problem, Severity.WARNING if is_over else Severity.ERROR)
    if not catalog.rules and not any(definition.gates for definition in catalog.definitions.values()):
        return
    from gitops.gates.lint import never_open, unknown_names
    from gitops.rollouts.policy_lint import by_instances
    from gitops.rollouts.policy_reader import policies_of
    from gitops.windows.lint import warnings
    from gitops.windows.reader import windows_of
    from gitops.windows.targets import targets
    from gitops.windows.window import LOCAL

    calendar, rules = windows_of(catalog), policies_of(catalog)
    instances = by_instances(rules.policies, bundle)
    definitions = {definition.name: definition for definition in catalog.definitions.values()}
    windows = {*calendar.broken, *(window.name for window in calendar.windows)}
    externals = [one.name for one in config.externals] if config else None
    unknown = unknown_names(definitions.values(), windows, externals)
    for problem in (*calendar.problems, *rules.problems, *instances.problems, *unknown):
        yield LintFinding(problem, Severity.ERROR)
    for problem in instances.warnings:
        yield LintFinding(problem, Severity.WARNING)
    governed = list(targets(bundle, catalog.definitions, config.cluster if config else LOCAL))
    for problem in never_open(definitions, calendar.windows, governed, now):
        yield LintFinding(problem, Severity.WARNING)
    for problem, severity in _availability(catalog, governed, now):
        yield LintFinding(problem, severity)
    for warning in warnings(calendar.windows, now):
        message = f"window {warning.window} {warning.message}"
        yield LintFinding(Problem(warning.origin.file, warning.origin.line, "", message), Severity.WARNING)


def _of_reverts(place: str, catalog: Catalog, config: Config) -> Iterator[LintFinding]:
    """Policies that want a revert proposed, and nobody is named to propose it to: of the source that is `place`, else of all in the configuration."""
    from gitops.rollouts.policy import OnHalt
    from gitops.rollouts.policy_reader import policies_of

    wanting = [one for one in policies_of(catalog).policies if one.on_halt is OnHalt.PROPOSE_REVERT]
    urls, path = locations.locations(place) if wanting else (frozenset(), "")
    here = [one for one in config.sources if identity(one.target.url) in urls and one.target.path == path]
    without = [one.name for one in here or config.sources if one.forge is None]
    for policy in wanting if without else ():
        message = f"ProposeRevert only stops: source {listed(without)} has no `forge` in the configuration"
        yield LintFinding(Problem(policy.origin.file, policy.origin.line, "spec.onHalt", message), Severity.WARNING)


def _availability(
    catalog: Catalog, governed: Iterable[WindowTarget], now: datetime
) -> Iterator[tuple[Problem, Severity]]:
    """Where windows leave less room than the default policy wants."""
    from gitops.rollouts.lint import shortages
    from gitops.rollouts.policy import OnViolation
    from gitops.rollouts.source_rules import in_force

    rules = in_force(catalog, {})
    policy = rules.default_policy
    wanted = policy.windows.availability
    if wanted is None:
        return
    for one in shortages(rules, governed, now):
        governs = f"what {listed(one.windows)} {'governs' if len(one.windows) == 1 else 'govern'}"
        told = f"{governs} may change for {length(one.open_for)} in the {length(wanted.per)} from {one.begins:%Y-%m-%d %H:%MZ}"
        asked = f"{length(wanted.at_least)} are asked for, in pieces of {length(wanted.contiguous)} or more"
        problem = Problem(policy.origin.file, policy.origin.line, "spec.windows.availability", f"{told}; {asked}")
        yield problem, Severity.ERROR if wanted.on_violation is OnViolation.REJECT else Severity.WARNING


def _as_json(finding: LintFinding) -> dict[str, Any]:
    """The stable contract of `lint -o json`."""
    problem = finding.problem
    return {
        "severity": str(finding.severity),
        "file": problem.file,
        "line": problem.line,
        "path": problem.path,
        "message": problem.message,
    }
