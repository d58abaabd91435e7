"""Wanted and former objects in a graph, in cases that random repositories rarely meet."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.decisions import instances, wanted
from renderer.catalog.catalog import Catalog
from renderer.identity import GroupKind, ObjectKey, applyset_id, key_hash, source_parent
from renderer.render.render import render
from renderer.render.revisions import AppliedSnapshot, StoredRevisions
from renderer.render.world import ClusterView
from tests.support.graph_inputs import GraphFeed, load_texts
from tests.support.graph_renderings import assert_renders
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

LINK = GroupKind(GROUP, "Link")
GIVEN = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "given"}}}
LINKS = {"l.json": definition("Link", [config_map("a")])}
READERS = {"l.json": definition("Link", [GIVEN, config_map("a")])}
X = ObjectKey(*LINK, "default", "x")
X_A = ObjectKey("", "ConfigMap", "default", "x-a")


def follow(catalogs: list[Catalog], world: ClusterView, feed: GraphFeed | None = None) -> GraphFeed:
    """Return a graph of these sources, compared with a rendering from scratch."""
    feed = feed or GraphFeed()
    feed.follow_files(catalogs, world)
    assert_renders(feed.graph, render(catalogs, world))
    return feed


def test_sources_come_before_instances_in_their_order() -> None:
    platform = load_texts("platform", {**LINKS, "x.json": instance("Link", "x")})
    second, third = load_texts("second", {"p.json": plain("x-a")}), load_texts("third", {"p.json": plain("x-a")})
    feed = follow([platform, third, second], ClusterView())
    parents = source_parent("third"), source_parent("second"), X
    assert wanted.wanting_parents(feed.graph, X_A) == parents
    assert wanted.wanting_sets(feed.graph, X_A) == tuple(map(applyset_id, parents))
    follow([platform, second], ClusterView(), feed)
    assert wanted.wanting_parents(feed.graph, X_A) == (source_parent("second"), X)


def test_readers_are_found_by_what_they_read() -> None:
    platform = load_texts("platform", {**READERS, "x.json": instance("Link", "x")})
    feed = follow([platform], ClusterView())
    given = key_hash(ObjectKey("", "ConfigMap", "default", "given"))
    assert wanted.wanted_readers(feed.graph, given) == {X_A}
    follow([load_texts("platform", {**LINKS, "x.json": instance("Link", "x")})], ClusterView(), feed)
    assert wanted.wanted_readers(feed.graph, given) == frozenset()


def applied_before() -> StoredRevisions:
    metadata = {"name": "x", "namespace": "default"}
    manifest = {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata, "spec": {"text": "old"}}
    return StoredRevisions(applied={X: AppliedSnapshot(1, "d", "r", "platform", manifest)})


def live_instance() -> dict[ObjectKey, Any]:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return {X: {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata}}


@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize("gated", [frozenset(), frozenset({X})], ids=["free", "at a gate"])
@pytest.mark.parametrize("definitions", [LINKS, READERS], ids=["reads nothing", "reads"])
def test_an_unwanted_instance_is_rendered_as_it_was_applied_where_somebody_asks(
    definitions: Files, gated: frozenset[ObjectKey], is_declared: bool
) -> None:
    files = {**definitions, **({"x.json": instance("Link", "x")} if is_declared else {})}
    world = ClusterView(live=live_instance(), stored=applied_before(), gated=gated)
    catalog = load_texts("platform", files)
    feed = follow([catalog], world)
    leaving, former = instances.leaving_set(feed.graph, X), instances.former_set(feed.graph, X)
    assert (leaving is not None) == (bool(gated) and not is_declared)
    assert (former is not None) == (definitions is READERS and not is_declared)
    gone = follow([catalog], ClusterView(stored=applied_before(), gated=gated), feed)
    assert instances.former_set(gone.graph, X) is None


def test_a_former_instance_of_a_source_that_is_gone_is_not_rendered() -> None:
    other = load_texts("other", READERS)
    feed = follow([other], ClusterView(live=live_instance(), stored=applied_before()))
    assert instances.former_set(feed.graph, X) is None


def test_the_set_of_an_id_is_found_while_it_is_wanted() -> None:
    files = {**LINKS, "x.json": instance("Link", "x")}
    feed = follow([load_texts("platform", files)], ClusterView())
    found = wanted.wanted_set(feed.graph, X)
    assert found
    assert wanted.wanted_parent(feed.graph, found.id) == X
    assert wanted.wanted_set(feed.graph, source_parent("platform"))
    follow([load_texts("platform", LINKS)], ClusterView(), feed)
    assert wanted.wanted_parent(feed.graph, found.id) is None
