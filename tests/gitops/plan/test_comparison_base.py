"""State beyond the planned cluster: nodes that wait in the base, levels of the whole commit, selectable objects."""

from __future__ import annotations

from gitops.plan.comparison_base import (
    ComparedObjects,
    ComparisonBase,
    own_levels,
    rendered_manifests,
    waiting_manifests,
)
from renderer.catalog.catalog import Catalog, load
from renderer.render.render import render
from tests.support.properties.plans import CLOSED, rule
from tests.support.properties.repositories import config_map, definition, deployment, instance, plain


def catalog(**files: str) -> Catalog:
    data = {f"{file}.json": text.encode() for file, text in files.items()}
    return load(data, source="platform", commit="b" * 40)


def test_a_node_that_reads_a_status_waits_in_the_base() -> None:
    reader = config_map("b")
    reader["template"]["data"] = {"replicas": "${string(a.status.readyReplicas)}"}
    found = catalog(link=definition("Link", [deployment("a"), reader]), x=instance("Link", "x"))
    assert [node_id for _, node_id in waiting_manifests(render([found]))] == ["b"]


def test_own_objects_have_levels_and_nodes_of_instances_do_not() -> None:
    found = catalog(
        a=plain("a"), b=plain("b", "a"), link=definition("Link", [config_map("n")]), x=instance("Link", "x")
    )
    levels = {key.name: level for key, level in own_levels(render([found])).items() if key}
    assert levels["a"] < levels["b"]
    assert "x-n" not in levels
    assert "x-n" in {manifest["metadata"]["name"] for manifest in rendered_manifests(render([found]))}


def test_objects_are_compared_only_where_the_commit_has_rules() -> None:
    window = rule("PropagationWindow", {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}})
    plainly, ruled = catalog(a=plain("a")), catalog(a=plain("a"), w=window)
    assert ComparedObjects.from_commits(ruled, render([ruled]), plainly, render([plainly]), "local") is None
    compared = ComparedObjects.from_commits(plainly, render([plainly]), ruled, render([ruled]), "local")
    assert compared
    assert compared.before.kinds <= compared.after.kinds


def test_a_real_cluster_has_nothing_to_add() -> None:
    assert ComparisonBase() == ComparisonBase(unresolved=None, levels={}, selectable=None, hidden=frozenset())
