"""Which clusters and placements are in force, and what is accepted outlives what cannot be read."""

from __future__ import annotations

import pytest

from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.rollouts.source_rules import resolve_rules
from renderer.catalog.catalog import Catalog, load
from tests.support.fleet_documents import cluster, objects_in, placement, read

EU = {"eu": cluster("eu", {"region": "eu"})}
ALL = {**EU, "p": placement("p", count=2)}


def test_clusters_and_placements_are_read_from_the_commit() -> None:
    found = objects_in(read(ALL))
    assert list(found.clusters) == ["eu"]
    assert [(one.name, one.count) for one in found.placements] == [("p", 2)]
    assert (found.problems, found.broken_clusters, found.broken_placements) == ((), frozenset(), frozenset())
    assert objects_in(read({})).accepted == {}


def test_only_the_source_of_the_fleet_declares_clusters() -> None:
    """Whoever writes one decides where the program's credentials go."""
    catalog = load({f"{name}.yaml": text.encode() for name, text in ALL.items()}, source="apps")
    found = read_fleet_objects(catalog, {}, fleet_source="platform")
    assert found.clusters == {}
    assert [one.name for one in found.placements] == ["p"]
    assert list(map(str, found.problems)) == [
        "eu.yaml:1: kind: only source platform, which fleet.source in levelgate.yaml names, may declare clusters; move the Cluster to that source"
    ]


BREAKS: dict[str, dict[str, str]] = {
    "wrong": {"eu": cluster("eu", qps="x"), "p": placement("p", count="x")},
    "twice": {"eu2": cluster("eu"), "p2": placement("p")},
    "unreadable": {"eu": "kind: Cluster\nmetadata: {[", "p": "kind: Placement\nmetadata: {["},
}


@pytest.mark.parametrize("how", BREAKS)
def test_what_cannot_be_read_stays_in_force_as_it_was_accepted(how: str) -> None:
    """Also through a restart, and for as long as it takes; a cluster is not removed for it."""
    first = objects_in(read(ALL))
    catalog = read({**ALL, **BREAKS[how]})
    second = objects_in(catalog, first)
    assert {name: one.labels for name, one in second.clusters.items()} == {"eu": {"region": "eu"}}
    assert [(one.name, one.count) for one in second.placements] == [("p", 2)]
    assert (second.broken_clusters, second.broken_placements) == (frozenset(), frozenset())
    assert bool(second.problems) == (how != "unreadable")
    assert objects_in(catalog, second).accepted == second.accepted == first.accepted
    unknown = objects_in(catalog)
    assert (unknown.clusters, unknown.placements) == ({}, ())
    assert unknown.broken_clusters
    assert unknown.broken_placements


@pytest.mark.parametrize(
    "broken",
    [{"new": "kind: Cluster\nspec: ["}, {"p": "kind: Placement\nspec: ["}],
    ids=["a further file", "a file that was accepted"],
)
def test_what_may_have_moved_to_a_file_that_cannot_be_read_stays_in_force(broken: dict[str, str]) -> None:
    """A commit with an unreadable file removes no cluster, though the file of the cluster can be read."""
    first = objects_in(read(ALL))
    second = objects_in(read({**ALL, "eu": "", **broken}), first)
    assert (list(second.clusters), [one.name for one in second.placements]) == (["eu"], ["p"])
    assert second.accepted == first.accepted
    assert objects_in(read({**ALL, "eu": ""}), second).clusters == {}


def test_a_file_that_cannot_be_read_and_names_no_cluster_keeps_none() -> None:
    first = objects_in(read(ALL))
    assert objects_in(read({**ALL, "eu": "", "chart": "image: {{ .Values.image"}), first).clusters == {}


def test_where_nobody_places_that_is_a_problem_of_the_source() -> None:
    """And what nobody obeys is neither applied nor stored among rules."""
    catalog = read(ALL)
    rules = resolve_rules(catalog, {})
    advice = "levelgate.yaml has no `fleet`"
    assert [str(problem).partition(";")[0] for problem in rules.problems] == [
        f"eu.yaml:1: kind: this Cluster has no effect: {advice}",
        f"p.yaml:1: kind: this Placement has no effect: {advice}",
    ]
    assert (rules.accepted, rules.closed_reason, catalog.objects) == ({}, "", ())


def test_what_leaves_git_is_gone() -> None:
    found = objects_in(read(EU), objects_in(read(ALL)))
    assert (list(found.clusters), found.placements) == (["eu"], ())
    assert objects_in(Catalog("platform"), found).clusters == {}
