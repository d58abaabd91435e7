"""Definitions and scopes in a graph: equal to those of a rendering from scratch, at a cost that follows a change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from applier.cluster import Discovery
from gitops.decisions import definitions, live
from gitops.queries import QueryGraph, Roots, query
from gitops.reconcile.context import Context
from gitops.reconcile.graph_step import GraphDecider
from renderer import well_known
from renderer.catalog.catalog import Catalog, load
from renderer.definition import crd
from renderer.definition.compile import Definition
from renderer.identity import GroupKind, applyset_id, source_parent
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.revisions import DefinitionRevision
from tests.support.comparing_step import after_each_look, view_of
from tests.support.graph_inputs import new_graph
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import config_map, definition, instance, repositories, widgets


@query
def everything(graph: QueryGraph) -> frozenset[str]:
    return frozenset({""})


@query
def all_definitions(graph: QueryGraph, _: str) -> definitions.KindDefinitions:
    return definitions.definitions(graph)


ROOTS = Roots("definitions", order=99, members=everything, result=all_definitions)


def outline(found: Any) -> dict[GroupKind, Any]:
    """Return what tells definitions apart. Each check of a definition makes a new object."""
    return {
        kind: (one.digest, one.origin, one.name) if isinstance(one, Definition) else one for kind, one in found.items()
    }


def compare_selections(decider: GraphDecider, catalogs: Sequence[Catalog], known: Context) -> None:
    """Assert that a graph has the definitions and scopes of a rendering from scratch."""
    graph = decider.graph
    from_scratch = render._Render(catalogs, view_of(decider, catalogs, known), RenderCache())
    assert all(answer.fault is None for answer in graph.changed(ROOTS))
    found, selection = definitions.definitions(graph), from_scratch.definitions
    assert outline(found.current) == outline(selection.current)
    assert outline(found.new) == outline(selection.issued)
    assert (found.numbers, found.owners) == (selection.numbers, selection.owner)
    assert (found.held, found.refused) == (selection.held, selection.refused)
    assert list(found.problems) == selection.problems
    unread = graph.answer(definitions.definitions).unread
    assert {key.args[0] for key in unread if key.family is definitions.read_record} == selection.unread
    for kind in {*from_scratch.scopes, *found.held, GroupKind("unknown.test", "Unknown")}:
        assert definitions.namespaced(graph, kind) == from_scratch.scopes.get(kind)
    for kind, revisions in known.archive.stored_revisions.revisions.items():
        for revision in revisions:
            stored = definitions.definition_at(graph, kind, revision.number)
            other = selection.at(kind, revision.number)
            assert (stored and stored.digest) == (other and other.digest)


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_the_definitions_in_a_graph_are_those_of_a_rendering_from_scratch(
    history: Sequence[Files], instant: bool
) -> None:
    """Over commits with broken and missing definitions, and over the rounds and passes of each."""
    with after_each_look(compare_selections), CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []


FILES = {
    "l.json": definition("Link", [config_map("a")]),
    "m.json": definition("Mesh", [config_map("a")]),
    "x.json": instance("Link", "x", text="one"),
}
LINK, MESH = GroupKind("g.test", "Link"), GroupKind("g.test", "Mesh")


def cluster(files: Files) -> tuple[QueryGraph, Catalog]:
    """Return a graph with a source of *files* and with no stored revision, and the catalog."""
    graph, catalog = new_graph(), load({name: text.encode() for name, text in files.items()}, source="platform")
    with graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({}))
        transaction.set(definitions.sources.at(), ("platform",))
        transaction.set(definitions.catalog.at("platform"), definitions.shared_content(catalog))
        live.set_absent(transaction, map(crd.key_of, (LINK, MESH)))
        for kind in (LINK, MESH):
            transaction.set(definitions.stored_revisions.at(kind), ())
    assert [answer.fault for answer in graph.changed(ROOTS)] == [None]
    return graph, catalog


def test_a_commit_that_changes_an_instance_selects_no_definition_again() -> None:
    graph, before = cluster(FILES)
    files = {**FILES, "x.json": instance("Link", "x", text="two")}
    after = load({name: text.encode() for name, text in files.items()}, source="platform", previous=before)
    evaluations = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.set(definitions.catalog.at("platform"), definitions.shared_content(after))
    assert list(graph.changed(ROOTS)) == []
    assert (graph.cost.evaluations - evaluations)["definitions"] == 0


def test_a_new_revision_of_one_kind_changes_no_other_definition() -> None:
    graph, before = cluster(FILES)
    mesh = definitions.definition_at(graph, MESH, 1)
    files = {**FILES, "l.json": definition("Link", [config_map("a"), config_map("b", "a")])}
    after = load({name: text.encode() for name, text in files.items()}, source="platform", previous=before)
    with graph.transaction() as transaction:
        transaction.set(definitions.catalog.at("platform"), definitions.shared_content(after))
    (answer,) = graph.changed(ROOTS)
    assert answer.value
    assert [node.id for node in answer.value.current[LINK].nodes] == ["a", "b"]
    assert definitions.definition_at(graph, MESH, 1) is mesh


def test_the_kind_of_a_plain_crd_has_the_scope_of_the_crd() -> None:
    manifest = widgets("free.test", {"properties": {}})
    manifest["spec"]["scope"] = "Cluster"
    graph, _ = cluster({**FILES, "crd.json": json.dumps(manifest)})
    assert definitions.namespaced(graph, GroupKind("free.test", "Widget")) is False
    assert definitions.namespaced(graph, LINK) is True
    assert definitions.namespaced(graph, GroupKind("free.test", "Gadget")) is None


def test_a_status_of_a_crd_describes_no_kind_again() -> None:
    """A controller that reports conditions on a CRD leaves all definitions as they are."""
    graph, _ = cluster(FILES)
    described = widgets("free.test", {"properties": {"spec": {"type": "object"}}})
    described["metadata"] |= {"uid": "u1", "resourceVersion": "1"}
    with graph.transaction() as transaction:
        live.set_objects(transaction, [described])
    list(graph.changed(ROOTS))
    evaluations = graph.cost.evaluations.copy()
    changed = {**described, "metadata": {**described["metadata"], "resourceVersion": "2"}, "status": {"conditions": []}}
    with graph.transaction() as transaction:
        live.set_objects(transaction, [changed])
    assert list(graph.changed(ROOTS)) == []
    assert (graph.cost.evaluations - evaluations)["definitions"] == 0


def test_a_revision_without_content_is_read_first() -> None:
    graph, _ = cluster(FILES)
    with graph.transaction() as transaction:
        stored = (DefinitionRevision(1, "d1", "record-1"),)
        transaction.set(definitions.stored_revisions.at(MESH), stored)
    answer = graph.answer(definitions.definition_at, MESH, 1)
    assert answer.value is None
    assert {key.args for key in answer.unread} == {("record-1",)}


def test_a_revision_that_could_not_be_stored_holds_its_kind() -> None:
    graph, _ = cluster(FILES)
    with graph.transaction() as transaction:
        transaction.set(definitions.store_error.at(LINK), "quota exceeded")
    (answer,) = graph.changed(ROOTS)
    assert answer.value
    assert answer.value.held == {LINK: "its new revision could not be stored: quota exceeded"}
    assert definitions.current_revision(graph, LINK) == 0
    assert definitions.current_revision(graph, MESH) == 1


def test_a_changed_crd_describes_its_kind_anew() -> None:
    graph, _ = cluster(FILES)
    for version, described in (("1", {"host": {"type": "string"}}), ("2", {"port": {"type": "integer"}})):
        found = widgets("free.test", {"properties": {"spec": {"type": "object", "properties": described}}})
        found["metadata"] |= {"uid": "u1", "resourceVersion": version}
        with graph.transaction() as transaction:
            live.set_objects(transaction, [found])
        (answer,) = graph.changed(ROOTS)
        assert answer.value
        assert answer.value.types["platform"].described[GroupKind("free.test", "Widget")].crd is found


def test_the_source_that_has_installed_the_crd_owns_the_kind() -> None:
    graph, catalog = cluster(FILES)
    with graph.transaction() as transaction:
        transaction.set(definitions.sources.at(), ("platform", "other"))
        transaction.set(definitions.catalog.at("other"), definitions.shared_content(replace(catalog, source="other")))
    assert definitions.definitions(graph).owners == {LINK: "platform", MESH: "platform"}
    installed = {**catalog.definitions[LINK].crd, "metadata": {**catalog.definitions[LINK].crd["metadata"]}}
    installed["metadata"] |= {
        "labels": {well_known.PART_OF: applyset_id(source_parent("other"))},
        "annotations": {well_known.DEFINITION: "links.g.test"},
    }
    with graph.transaction() as transaction:
        live.set_objects(transaction, [installed])
    assert definitions.definitions(graph).owners == {LINK: "other", MESH: "platform"}


def test_a_crd_among_the_resources_of_a_definition_tells_the_scope_of_its_kind() -> None:
    nested = widgets("free.test", {"properties": {}})
    nested["spec"]["scope"] = "Cluster"
    graph, _ = cluster({"l.json": definition("Link", [{"id": "crd", "template": nested}])})
    assert definitions.namespaced(graph, GroupKind("free.test", "Widget")) is False


def test_a_broken_definition_serves_on_from_a_revision_that_is_read_first() -> None:
    graph, _ = cluster({"l.json": definition("Link", [config_map("a", "missing")])})
    with graph.transaction() as transaction:
        transaction.set(definitions.stored_revisions.at(LINK), (DefinitionRevision(3, "d3", "record-3"),))
    answer = graph.answer(definitions.definitions)
    assert answer.value
    assert answer.value.held == {LINK: "does not build"}
    assert {key.args for key in answer.unread} == {("record-3",)}
