"""Warnings about selectors of placements that match nothing."""

from __future__ import annotations

from collections.abc import Mapping

from gitops.fleet.placement import Placement
from gitops.fleet.unmatched import PlacedObjects, find_unmatched_placements
from renderer.identity import GroupKind
from tests.support.fleet_documents import cluster, objects_in, placement, read

OBJECTS = PlacedObjects(
    definitions=frozenset({"webapp"}),
    labels=((frozenset({"webapp"}), {"tier": "web"}),),
    namespaces=frozenset({"shop"}),
    kinds=frozenset({GroupKind("", "ConfigMap")}),
    is_certain=True,
)
EU = {"eu": cluster("eu", {"region": "eu"})}


def warnings_of(objects: Mapping[str, object], held: PlacedObjects = OBJECTS, **spec: object) -> list[str]:
    """Return the paths of the warnings about one placement."""
    files = {**EU, "p": placement("p", objects=objects, **spec)}
    found = objects_in(catalog := read(files))
    (declared,) = found.placements
    assert isinstance(declared, Placement)
    clusters = tuple(found.clusters.values())
    return [one.problem.path for one in find_unmatched_placements([declared], catalog.destinations, held, clusters)]


def test_a_selector_that_matches_something_has_no_warning() -> None:
    matching = {"rgds": ["web*"], "instances": {"matchLabels": {"tier": "web"}}, "plain": {"namespaces": ["shop"]}}
    assert warnings_of(matching) == []


def test_each_entry_that_matches_nothing_is_named_by_its_path() -> None:
    missing = {"rgds": ["webapp", "wepapp"], "plain": {"namespaces": ["shopp"], "kinds": ["ConfigMap", "Secret"]}}
    assert warnings_of(missing) == [
        "spec.objects.rgds[1]",
        "spec.objects.plain.namespaces[0]",
        "spec.objects.plain.kinds[1]",
    ]
    assert warnings_of({"instances": {"matchLabels": {"tier": "webb"}}}) == ["spec.objects.instances"]


def test_a_placement_without_a_cluster_has_one_warning_whatever_its_overrides() -> None:
    override = {"clusters": {"matchLabels": {"region": "us"}}, "patch": {"spec": {"replicas": 1}}}
    nowhere = {"matchLabels": {"region": "asia"}}
    assert warnings_of({}, clusters=nowhere, overrides=[override]) == ["spec.clusters"]
    assert warnings_of({}, overrides=[override]) == ["spec.overrides[0].clusters"]


def test_a_file_that_cannot_be_read_may_hold_what_is_missing() -> None:
    uncertain = PlacedObjects(frozenset(), (), frozenset(), frozenset(), is_certain=False)
    assert warnings_of({"plain": {"namespaces": ["shop"]}}, uncertain) == []
