"""Sets of sources in a graph, in cases that random repositories rarely meet."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gitops.decisions import source_sets
from renderer import well_known
from renderer.catalog.catalog import Catalog, load
from renderer.definition import crd
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.render import render
from renderer.render.revisions import AppliedSnapshot, DefinitionRevision, StoredRevisions
from renderer.render.world import ClusterView
from tests.support.graph_inputs import GraphFeed
from tests.support.graph_renderings import assert_renders
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

LINK, INNER, OUTER = (GroupKind(GROUP, kind) for kind in ("Link", "Inner", "Outer"))
LINKS = {"l.json": definition("Link", [config_map("a")])}
NESTED = {
    "id": "inner",
    "template": {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": {"name": "${schema.spec.text}"}, "spec": {}},
}


def follow(feed: GraphFeed, files: Files, world: ClusterView | None = None, previous: Catalog | None = None) -> Catalog:
    """Let a graph follow a commit, compare all sets with a rendering from scratch, and return the catalog."""
    texts = {name: text.encode() for name, text in files.items()}
    catalog, view = load(texts, source="platform", previous=previous or Catalog()), world or ClusterView()
    feed.follow_files([catalog], view)
    assert_renders(feed.graph, render([catalog], view))
    return catalog


def follow_all(*commits: Files, world: ClusterView | None = None) -> GraphFeed:
    """Return a graph that has followed these commits."""
    feed, catalog = GraphFeed(), Catalog()
    for files in commits:
        catalog = follow(feed, files, world, catalog)
    return feed


def test_objects_that_two_files_declare_are_in_error_until_one_of_them_is_left() -> None:
    once = {**LINKS, "b.json": plain("p", text="one"), "x.json": instance("Link", "x")}
    twice = {**once, "a.json": plain("p", text="two"), "w.json": instance("Link", "x", text="two")}
    feed = follow_all(once, twice)
    node = source_sets.placed_node(feed.graph, "platform", ObjectKey("", "ConfigMap", "default", "p"))
    assert node
    assert "is declared at a.json:1 and b.json:1" in node.error
    follow_all(once, twice, once)


def test_an_object_that_an_instance_makes_as_well_is_in_error_on_both_sides() -> None:
    files = {**LINKS, "x.json": instance("Link", "x")}
    both = {**files, "p.json": plain("x-a")}
    feed = follow_all(files, both)
    node = source_sets.placed_node(feed.graph, "platform", ObjectKey("", "ConfigMap", "default", "x-a"))
    assert node
    assert "Link.g.test/default/x makes it as well" in node.error
    follow_all(files, both, files)


@pytest.mark.parametrize("is_held_by_maker", [True, False])
def test_an_instance_that_another_instance_nests_as_well_stays_as_it_is(is_held_by_maker: bool) -> None:
    files = {
        "i.json": definition("Inner", [config_map("a")]),
        "o.json": definition("Outer", [config_map("c"), NESTED]),
        "o1.json": instance("Outer", "o1", text="shared"),
        "shared.json": instance("Inner", "shared"),
    }
    maker, shared = ObjectKey(*OUTER, "default", "o1"), ObjectKey(*INNER, "default", "shared")
    labels = {well_known.PART_OF: applyset_id(maker)} if is_held_by_maker else {}
    metadata = {"name": "shared", "namespace": "default", "uid": "u", "resourceVersion": "1", "labels": labels}
    live = {shared: {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": metadata}}
    manifest = {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": {"name": "shared", "namespace": "default"}}
    stored = StoredRevisions(applied={shared: AppliedSnapshot(1, "d", "r", "platform", {**manifest, "spec": {}})})
    feed = follow_all(files, world=ClusterView(live=live, stored=stored))
    found = source_sets.source_set(feed.graph, "platform")
    assert [node.error for node in found.nodes if node.key == shared] != [""]


def described(**spec: str) -> dict[str, Any]:
    schema = {"spec": {"text": "string | default=one", "on": "boolean | default=true", **spec}}
    return {"l.json": definition("Link", [config_map("a")], **schema)}


@pytest.mark.parametrize("earlier", ["string", "integer"])
def test_the_crd_serves_all_revisions_at_which_instances_are(earlier: str) -> None:
    """If no schema serves all of them, the CRD stays as it is."""
    old = load({name: text.encode() for name, text in described(size=earlier).items()}, source="platform")
    new = described(other="string", **({"size": "string"} if earlier == "integer" else {}))
    newest = load({name: text.encode() for name, text in new.items()}, source="platform").definitions[LINK]
    revisions = [
        DefinitionRevision(number, found.digest, f"r{number}", found.manifest)
        for number, found in enumerate((old.definitions[LINK], newest), start=1)
    ]
    x = ObjectKey(*LINK, "default", "x")
    stored, places = StoredRevisions({LINK: tuple(revisions)}), {x: RevisionPlacement(1, 2)}
    files = {**new, "x.json": instance("Link", "x", size="1" if earlier == "string" else 1)}
    feed = GraphFeed()
    catalog = follow(feed, files, ClusterView(stored=stored, places=places))
    found = source_sets.definition_crd(feed.graph, "platform", LINK)
    assert found
    assert found.node.key == crd.key_of(LINK)
    fields = found.node.manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert ("size" in fields, "other" in fields) == (True, True)
    assert bool(found.problem) == (earlier == "integer")
    catalog = follow(feed, files, ClusterView(stored=stored), catalog)
    # An unreadable file may declare the instance. So the instance stays at the revision at which it was applied last.
    manifest = json.loads(files["x.json"])
    labels = {well_known.PART_OF: applyset_id(source_parent("platform"))}
    metadata = {**manifest["metadata"], "uid": "u", "labels": labels, "annotations": {well_known.SOURCE_FILE: "x.json"}}
    applied = {x: AppliedSnapshot(1, "d", "r", "platform", manifest)}
    world = ClusterView(live={x: {**manifest, "metadata": metadata}}, stored=replace(stored, applied=applied))
    follow(feed, {**files, "x.json": "spec: ["}, world, catalog)
    found = source_sets.definition_crd(feed.graph, "platform", LINK)
    assert found
    assert bool(found.problem) == (earlier == "integer")


def test_a_value_of_another_type_is_another_value() -> None:
    """To Python, `1` and `True` are equal."""
    widget = {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": {"name": "w"}}
    follow_all(*({"w.json": json.dumps({**widget, "spec": {"a": value}})} for value in (1, True)))
