"""Command `levelgate check`: check a cluster, and find leftovers of Levelgate in the cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import click

from gitops.cli import describe_exit_codes, program_version
from gitops.cli.options import ClusterChoice, member_options
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.maintenance.cluster_check import CheckFinding, CheckLevel, check_cluster
from gitops.maintenance.cluster_facts import ClusterFacts, examine
from gitops.text import format_local_time, title
from renderer.phrasing import format_count

_MAX_OBJECTS = 5


@click.command(epilog=describe_exit_codes("0 no problem (warnings are allowed)", "1 a problem"))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@member_options
def command(output: str, choice: ClusterChoice) -> int:
    """Check a cluster: connection, permissions, records, leftovers, and whether kro runs.

    Use this command before the first run, before an upgrade, and to find the cause of trouble. Each problem or warning
    comes with advice. The command writes nothing.

    \b
    levelgate check --context dev
    levelgate check --sandbox -o json
    """
    return asyncio.run(_check(output, choice))


async def _check(output: str, choice: ClusterChoice) -> int:
    async with choice.connect() as cluster:
        facts = await examine(cluster, version=program_version(), now=SystemClock().now())
    findings = check_cluster(facts)
    if output == "json":
        print_document(_as_json(str(cluster.name), facts, findings), "json")
    else:
        echo("\n".join([format_header(cluster.name, format_local_time(facts.now)), "", *_text(findings)]))
    return 1 if any(finding.level is CheckLevel.PROBLEM for finding in findings) else 0


def _text(findings: Sequence[CheckFinding]) -> Iterable[str]:
    for finding in findings:
        yield f"{finding.level:<10}{finding.area:<14}{finding.message}"
        objects = [title(key) for key in finding.objects if key.name]
        names = objects[:_MAX_OBJECTS]
        if (more := len(objects) - _MAX_OBJECTS) > 0:
            names += [f"and {more} more"]
        yield from (f"{'':24}{name}" for name in names)
        if finding.advice:
            yield f"{'':24}-> {finding.advice}"
    levels = Counter(finding.level for finding in findings)
    yield ""
    problems = format_count(levels[CheckLevel.PROBLEM], "problem")
    yield f"{problems}, {format_count(levels[CheckLevel.WARNING], 'warning')}."


def _as_json(cluster: str, facts: ClusterFacts, findings: Sequence[CheckFinding]) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "kubernetes": facts.kubernetes_version,
        "levelgate": facts.version,
        "problems": sum(finding.level is CheckLevel.PROBLEM for finding in findings),
        "warnings": sum(finding.level is CheckLevel.WARNING for finding in findings),
        "findings": [
            {
                "level": finding.level,
                "area": finding.area,
                "message": finding.message,
                "advice": finding.advice,
                "objects": [dict(key._asdict()) for key in finding.objects],
            }
            for finding in findings
        ],
    }
