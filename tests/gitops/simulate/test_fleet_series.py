"""Commits of a simulation for each cluster of a fleet: equal clusters share one series."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitops.errors import SourceError
from gitops.reconcile.sources import SourceState
from gitops.simulate.commits import CommitSeries
from gitops.simulate.engine import CommitPush
from gitops.simulate.fleet_series import FleetSeries, project_series
from renderer.catalog.catalog import load
from tests.support import fleet_documents as documents
from tests.support.properties.repositories import plain

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
US = {"matchLabels": {"region": "us"}}


def state(commit: str, **files: str) -> SourceState:
    data = {f"{file}.json": text.encode() for file, text in files.items()}
    return SourceState(load(data, source="platform", commit=commit * 40))


def projected(*states: SourceState, wanted: str = "", fleet_source: str = "platform") -> FleetSeries:
    base, *later = states
    commits = CommitSeries(base, tuple(CommitPush(START, pushed, "subject") for pushed in later), ())
    return project_series(commits, fleet_source=fleet_source, hub_name="hub", tested_rules=None, wanted=wanted)


def clusters(**regions: str) -> dict[str, str]:
    declared = {name: documents.cluster(name, {"region": region}) for name, region in regions.items()}
    return {**declared, "all": documents.placement("all", clusters=US)}


def test_clusters_with_equal_commits_are_one_series() -> None:
    fleet = clusters(u1="us", u2="us", e1="eu")
    found = projected(state("1", **fleet, a=plain("a")), state("2", **fleet, a=plain("a", text="two")))
    assert [series.clusters for series in found.series] == [("e1",), ("u1", "u2")]
    assert found.not_simulated == {}


def test_a_removed_cluster_is_simulated_until_then_and_named() -> None:
    fleet = clusters(u1="us", u2="us")
    rest = {name: text for name, text in fleet.items() if name != "u2"}
    found = projected(
        state("1", **fleet, a=plain("a")),
        state("2", **fleet, a=plain("a", text="two")),
        state("3", **rest, a=plain("a")),
    )
    pushes = {series.clusters: len(series.commits.pushes) for series in found.series}
    assert pushes == {("u1",): 2, ("u2",): 1}
    (reason,) = found.not_simulated.values()
    assert reason.startswith("removed by commit 3333333")


def test_one_cluster_may_be_asked_for_and_has_to_be_declared() -> None:
    fleet = clusters(u1="us", e1="eu")
    both = state("1", **fleet, a=plain("a")), state("2", **fleet, a=plain("a", text="two"))
    assert [series.clusters for series in projected(*both, wanted="u1").series] == [("u1",)]
    with pytest.raises(SourceError, match="declares no cluster 'x1'"):
        projected(*both, wanted="x1")


def test_only_the_source_of_the_fleet_says_where_objects_go() -> None:
    with pytest.raises(SourceError, match="is not the source that declares clusters"):
        projected(state("1", a=plain("a")), state("2", a=plain("a")), fleet_source="hub")
