"""Two commits and the report of what the second changes, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from applier.applyset.adoption import Adoption
from applier.cluster import parse_cluster_name
from gitops.plan.assumed_state import assume_applied, completed_rollouts
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.planner import plan_commits
from gitops.plan.report import PlannedChange, Report
from gitops.reconcile.preview import Preview, preview
from gitops.reconcile.sources import SourceState
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import load
from renderer.render.render import render
from tests.support.clock import StillClock
from tests.support.properties.checked_platform import CheckedPlatform

SAMPLE = Path(__file__).parents[3] / "sample-repo"

Files = Mapping[str, str]


def sample() -> dict[str, str]:
    return {str(file.relative_to(SAMPLE)): file.read_text() for file in sorted(SAMPLE.rglob("*.yaml"))}


def planned(base: Files, head: Files) -> Report:
    """Of a source `platform` on a Friday at noon."""
    before = load({file: text.encode() for file, text in base.items()}, source="platform", commit="b" * 40)
    data = {file: text.encode() for file, text in head.items()}
    after = load(data, source="platform", commit="a" * 40, previous=before)
    return asyncio.run(plan_commits(before, SourceState(after), clock=StillClock(), version="1", cluster_name=LOCAL))


def previewed(base: Files, head: Files) -> Preview:
    """The preview behind `planned`, of the whole source: every object of the base is applied."""
    before = load({file: text.encode() for file, text in base.items()}, source="platform", commit="b" * 40)
    data = {file: text.encode() for file, text in head.items()}
    after = load(data, source="platform", commit="a" * 40, previous=before)
    rendering = render([before])
    objects = assume_applied(before, rendering, "1", completed_rollouts(before, rendering))

    async def answer() -> Preview:
        cluster = DryRunCluster(parse_cluster_name("git"), objects, crds=after.types.crds)
        try:
            return await preview(cluster, [SourceState(after)], StillClock(), cluster_name=LOCAL)
        finally:
            await cluster.close()

    return asyncio.run(answer())


def planned_beside(base: Files, head: Files, live: Files, elsewhere: Files | None = None) -> Report:
    """Against a cluster at the base, in which others have made what is live, and which has what is elsewhere from another source."""
    with CheckedPlatform() as platform:
        if elsewhere:
            platform.commit(elsewhere, source="elsewhere")
        platform.commit(base)
        platform.settle()
        for found in load({file: text.encode() for file, text in live.items()}).contents.values():
            for one in found.objects:
                platform.cluster.put(one.manifest, manager="kubectl-create")
        platform.commit(head)
        platform.sources["platform"] = replace(platform.sources["platform"], adoption=Adoption.parse("IfUnowned"))
        return platform.plan()


def changed(base: Files, file: str, old: str, new: str) -> dict[str, str]:
    """The files with another text in one of them."""
    assert old in base[file]
    return {**base, file: base[file].replace(old, new)}


def told(report: Report) -> list[str]:
    return [brief(change) for change in report.changes]


def brief(change: PlannedChange) -> str:
    """`update 1 Deployment.apps/prod/cart`."""
    level = "-" if change.level is None else change.level
    return f"{change.action} {level} {change.ref}"
