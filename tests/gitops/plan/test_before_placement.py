"""A plan in Git of a source with a fleet: clusters and placements are left out, and the plan says so."""

from __future__ import annotations

from gitops.plan.before_placement import BEFORE_PLACEMENT, strip_placement, warn_before_placement
from renderer.catalog.catalog import Catalog, load
from tests.support import fleet_documents as documents
from tests.support.git.commits import planned
from tests.support.properties.repositories import plain


def catalog(source: str = "platform", **files: str) -> Catalog:
    return load({file: text.encode() for file, text in files.items()}, source=source, commit="b" * 40)


def test_an_empty_plan_has_the_warning_too() -> None:
    report = planned({"a.json": plain("a")}, {"a.json": plain("a")})
    assert warn_before_placement(report).warnings == (BEFORE_PLACEMENT,)


def test_clusters_are_left_out_and_objects_stay() -> None:
    found = catalog(**{"eu.json": documents.cluster("eu", {}), "own.json": plain("own")})
    assert found.destinations
    stripped = strip_placement(found, "platform")
    assert (stripped.destinations, stripped.objects) == ((), found.objects)


def test_clusters_of_a_source_that_may_not_declare_them_are_problems() -> None:
    found = catalog("apps", **{"eu.json": documents.cluster("eu", {}), "own.json": plain("own")})
    assert found.destinations
    stripped = strip_placement(found, "platform")
    assert stripped.destinations == ()
    assert len(stripped.objects) == 1
    assert set(stripped.problems) > set(found.problems)
