"""The objects that a cluster would hold after a commit: a plan of the same commit against them is empty."""

from __future__ import annotations

from applier.applyset.member import Member
from applier.cluster import CONTENT_MANAGER
from gitops.plan.assumed_state import assume_applied, completed_rollouts
from renderer import well_known
from renderer.catalog.catalog import Catalog, load
from renderer.identity import ObjectKey
from renderer.render.render import render
from tests.support.git.commits import planned
from tests.support.properties.plans import rule
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

FILES = {
    "link.json": definition("Link", [config_map("a"), config_map("b", "a")]),
    "x.json": instance("Link", "x"),
    "own.json": plain("own"),
}
X = ObjectKey(GROUP, "Link", "default", "x")
NODE = ObjectKey("", "ConfigMap", "default", "x-b")


def catalog(**more: str) -> Catalog:
    data = {file: text.encode() for file, text in {**FILES, **more}.items()}
    return load(data, source="platform", commit="b" * 40)


def test_the_objects_of_the_commit_are_there_as_levelgate_writes_them() -> None:
    found = catalog()
    objects = assume_applied(found, render([found]), "1", ())
    assert {X, NODE, ObjectKey("", "ConfigMap", "default", "own")} <= objects.keys()
    node = objects[NODE]
    assert [entry["manager"] for entry in node["metadata"]["managedFields"]] == [CONTENT_MANAGER]
    assert (Member.from_object(node).node_id, Member.from_object(node).level) == ("b", 1)
    assert objects[X]["metadata"]["labels"][well_known.PARENT_ID]


def test_a_plan_of_the_same_commit_is_empty() -> None:
    report = planned(FILES, FILES)
    assert (report.changes, report.moves, report.problems) == ((), (), ())


def test_each_rollout_has_completed() -> None:
    found = catalog(**{"policy.json": rule("PropagationPolicy", {})})
    (record,) = completed_rollouts(found, render([found]))
    assert record["metadata"]["name"]
    assert completed_rollouts(catalog(), render([catalog()])) != ()
