"""Command `levelgate lint`: show every problem of a repository, without a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitops import source_config
from gitops.cli import describe_exit_codes
from gitops.cli.options import config_option, revision_option, schemas_option
from gitops.cli.terminal import echo, echo_lines, print_document
from gitops.clock import SystemClock
from gitops.config import Config, ConfigErrors, read_config
from gitops.durations import format_duration
from gitops.source import locations
from gitops.source.target import identity
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.export.lint import LintFinding, Severity, lint
from renderer.phrasing import format_count, join_names
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

if TYPE_CHECKING:
    from gitops.source_config import SourceConfig
    from gitops.windows.selectable import UnmatchedSelector
    from gitops.windows.window import WindowTarget


@click.command(epilog=describe_exit_codes("0 no errors", "1 errors, or with --strict warnings"))
@click.argument("place", metavar="PATH|URL")
@revision_option
@schemas_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too, except for uncertain ones.")
@config_option("Also check this configuration of `run`, and whether it declares the external facts in gates.")
def command(place: str, revision: str, schemas: tuple[str, ...], output: str, strict: bool, file: Path | None) -> int:
    """Show every problem of a repository, sorted by file and line.

    Use this command before you commit, and in CI. The command needs no cluster. The command compiles definitions and
    renders instances, so it also finds problems that only an instance shows. A warning is about legal but suspicious
    content.

    \b
    levelgate lint sample-repo
    levelgate lint . --strict -o json
    levelgate lint . --schemas schemas
    levelgate lint . --config levelgate.yaml
    """
    config, config_findings = _read_configuration(file)
    snapshot = locations.read_location(place, revision=revision)
    catalog = source_config.load_catalog(snapshot)
    types, unreadable = source_config.load_schemas(schemas)
    bundle = render([catalog], ClusterView(types=types))
    findings = lint({path: file.data for path, file in snapshot.files.items()}, catalog, bundle, types)
    findings += [*(LintFinding(problem, Severity.ERROR) for problem in unreadable), *config_findings]
    findings += [
        *_rule_findings(catalog, bundle, config, governs_all=_governs_all(place, catalog, config)),
        *(_revert_findings(place, catalog, config) if config else ()),
    ]
    findings.sort(key=lambda finding: finding.problem)
    counts = Counter(finding.severity for finding in findings)
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    if output == "json":
        report = {"errors": errors, "warnings": warnings, "findings": [_as_json(finding) for finding in findings]}
        print_document(report, "json", is_sorted=True)
    else:
        echo_lines(map(str, findings))
        totals = f"{format_count(errors, 'error')}, {format_count(warnings, 'warning')}"
        echo(f"{format_count(len(snapshot.files), 'file')}: {totals}.")
    return 1 if errors or (strict and any(finding.fails_strict for finding in findings)) else 0


def _read_configuration(file: Path | None) -> tuple[Config | None, list[LintFinding]]:
    """Return the configuration and the findings about it. If `file` is None or invalid, return no configuration."""
    if file is None:
        return None, []
    try:
        config = read_config(file)
    except ConfigErrors as errors:
        return None, [LintFinding(problem, Severity.ERROR) for problem in errors.problems]
    return config, [LintFinding(problem, Severity.WARNING) for problem in config.warnings]


def _rule_findings(
    catalog: Catalog, bundle: Rendering, config: Config | None, *, governs_all: bool
) -> Iterator[LintFinding]:
    """Yield the findings about windows, policies, gates, requests in Git, clusters and placements."""
    from gitops.rollouts.directives import find_ineffective_break_glass

    now = SystemClock().now()
    for problem, is_expired in find_ineffective_break_glass(catalog.objects, now):
        yield LintFinding(problem, Severity.WARNING if is_expired else Severity.ERROR)
    if catalog.destinations:
        yield from _destination_findings(catalog, config)
    if not catalog.rules and not any(definition.gates for definition in catalog.definitions.values()):
        return
    # Imported here: a repository without rules and gates does not load these modules.
    from gitops.gates.lint import find_unknown_names, find_unsatisfiable_gates
    from gitops.rollouts.lint import find_unmatched_selectors, lint_policies
    from gitops.rollouts.policy_reader import read_policies
    from gitops.rollouts.source_rules import resolve_rules
    from gitops.windows.lint import find_warnings
    from gitops.windows.selectable import SelectableObjects
    from gitops.windows.window import LOCAL
    from gitops.windows.window_reader import read_windows

    windows, policies = read_windows(catalog), read_policies(catalog)
    instances = lint_policies(policies.rules.values(), bundle)
    definitions = {definition.name: definition for definition in catalog.definitions.values()}
    externals = [external_fact.name for external_fact in config.externals] if config else None
    unknown = find_unknown_names(definitions.values(), windows.broken.keys() | windows.rules.keys(), externals)
    for problem in (*windows.problems, *policies.problems, *instances.problems, *unknown):
        yield LintFinding(problem, Severity.ERROR)
    objects = SelectableObjects.from_rendering(catalog, bundle, config.cluster if config else LOCAL)
    for unmatched in find_unmatched_selectors(resolve_rules(catalog, {}), catalog.rules, objects):
        yield _unmatched_finding(unmatched, is_elsewhere=governs_all or objects.is_empty)
    window_targets = objects.targets
    unsatisfiable = find_unsatisfiable_gates(definitions, windows.rules, window_targets, now)
    for problem in (*instances.warnings, *unsatisfiable):
        yield LintFinding(problem, Severity.WARNING)
    yield from starmap(LintFinding, _availability_problems(catalog, window_targets, now))
    for warning in find_warnings(tuple(windows.rules.values()), now):
        message = f"window {warning.window} {warning.message}"
        yield LintFinding(Problem(warning.origin.file, warning.origin.line, "", message), Severity.WARNING)


def _destination_findings(catalog: Catalog, config: Config | None) -> Iterator[LintFinding]:
    """Yield the findings about clusters and placements.

    If the repository declares no cluster, the warnings are uncertain, because another source may declare clusters.
    """
    from gitops.fleet.fleet_objects import read_fleet_objects
    from gitops.fleet.placing import place
    from gitops.fleet.shares import NOTHING_PLACED
    from gitops.rollouts.source_rules import find_unobeyed
    from renderer.catalog.projection import scopes_in

    objects = read_fleet_objects(catalog, {}, fleet_source=catalog.source)
    placed = place(
        catalog,
        objects.clusters.values(),
        objects.placements,
        NOTHING_PLACED,
        namespaced_by_kind=scopes_in(catalog),
        broken=objects.broken_placements,
        definition_names={},
    )
    for problem in (*objects.problems, *placed.problems):
        yield LintFinding(problem, Severity.ERROR)
    for problem in placed.warnings:
        yield LintFinding(problem, Severity.WARNING, is_certain=bool(objects.clusters))
    for problem in find_unobeyed(catalog) if config and config.fleet is None else ():
        yield LintFinding(problem, Severity.WARNING)


def _unmatched_finding(unmatched: UnmatchedSelector, *, is_elsewhere: bool) -> LintFinding:
    """Return the warning about a rule that selects nothing.

    If the rule may govern other sources, its warning does not fail `--strict`, because the command does not read those
    sources.
    """
    problem = unmatched.with_other_sources().problem if is_elsewhere else unmatched.problem
    return LintFinding(problem, Severity.WARNING, is_certain=not is_elsewhere)


def _governs_all(place: str, catalog: Catalog, config: Config | None) -> bool:
    """Return whether `config` lets the rules at `place` govern all sources.

    If `config` does not name `place`, return whether any source of `config` governs all.
    """
    if config is None or not catalog.rules or not config.governors:
        return False
    sources = _sources_at(place, config) or config.sources
    return any(source.governs_all for source in sources)


def _sources_at(place: str, config: Config) -> list[SourceConfig]:
    """Return the sources of the configuration whose repository and path are `place`."""
    urls, path = locations.list_identities(place)
    return [source for source in config.sources if identity(source.target.url) in urls and source.target.path == path]


def _revert_findings(place: str, catalog: Catalog, config: Config) -> Iterator[LintFinding]:
    """Yield a warning for each policy with `onHalt: ProposeRevert` whose source has no forge.

    If `config` does not name `place`, the policy may belong to any source of `config`, so check all sources.
    """
    from gitops.rollouts.policy import OnHalt
    from gitops.rollouts.policy_reader import read_policies

    reverting_policies = [
        policy_entry
        for policy_entry in read_policies(catalog).rules.values()
        if policy_entry.on_halt is OnHalt.PROPOSE_REVERT
    ]
    matching_sources = _sources_at(place, config) if reverting_policies else []
    sources_without_forge = [
        unlinked_source.name for unlinked_source in matching_sources or config.sources if unlinked_source.forge is None
    ]
    for policy in reverting_policies if sources_without_forge else ():
        message = (
            f"ProposeRevert only stops the rollout: source {join_names(sources_without_forge)} has no `forge`; "
            "add `forge` to the configuration"
        )
        yield LintFinding(Problem(policy.origin.file, policy.origin.line, "spec.onHalt", message), Severity.WARNING)


def _availability_problems(
    catalog: Catalog, window_targets: Iterable[WindowTarget], now: datetime
) -> Iterator[tuple[Problem, Severity]]:
    """Yield the periods in which windows are open for less time than the default policy requires."""
    from gitops.rollouts.lint import find_shortages
    from gitops.rollouts.policy import OnViolation
    from gitops.rollouts.source_rules import resolve_rules

    rules = resolve_rules(catalog, {})
    policy = rules.default_policy
    availability = policy.windows.availability
    if availability is None:
        return
    for shortage in find_shortages(rules, window_targets, now):
        subject_text = f"objects under {join_names(shortage.windows)}"
        open_for, period = format_duration(shortage.open_for), format_duration(availability.per)
        open_text = f"{subject_text} may change for {open_for} in the {period} from {shortage.begins:%Y-%m-%d %H:%MZ}"
        required_text = (
            f"the policy requires {format_duration(availability.at_least)}, "
            f"in pieces of {format_duration(availability.contiguous)} or more; open the windows longer"
        )
        problem = Problem(
            policy.origin.file, policy.origin.line, "spec.windows.availability", f"{open_text}; {required_text}"
        )
        yield problem, Severity.ERROR if availability.on_violation is OnViolation.REJECT else Severity.WARNING


def _as_json(finding: LintFinding) -> dict[str, Any]:
    """Return `finding` in the stable format of `lint -o json` (docs/reference.md)."""
    problem = finding.problem
    return {
        "severity": str(finding.severity),
        "file": problem.file,
        "line": problem.line,
        "path": problem.path,
        "message": problem.message,
    }
