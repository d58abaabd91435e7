"""Sets of instances in a graph: equal to those of a rendering from scratch, at a cost that follows a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.cluster import Discovery
from gitops.decisions import definitions, instances, live
from gitops.decisions.instances import Root, SourceHold
from gitops.queries import QueryGraph, Roots, query
from gitops.reconcile import step
from gitops.reconcile.context import Context
from renderer.catalog.catalog import Catalog, load
from renderer.catalog.file_content import DeclaredObject, declared_key
from renderer.definition.kind_schemas import KindSchemas
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.instances import InstanceOwner, InstanceRenderer
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from renderer.render.revisions import StoredRevisions
from tests.support.graph_inputs import GraphFeed, changed
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import GROUP, config_map, definition, instance, repositories


@query
def all_roots(graph: QueryGraph) -> frozenset[Root]:
    return instances.roots(graph)


@query
def all_sets(graph: QueryGraph, root: Root) -> tuple[RenderedApplySet | None, ...]:
    return tuple(instances.instance_set(graph, key) for key in instances.family(graph, root).sets)


ROOTS = Roots("families", members=all_roots, result=all_sets)


@dataclass
class RecordedRoots:
    """Instances that a rendering from scratch renders or holds for their source."""

    declared: dict[Root, DeclaredObject] = field(default_factory=dict)
    holds: dict[Root, SourceHold] = field(default_factory=dict)
    is_inside: bool = False

    def recording(self, patch: pytest.MonkeyPatch) -> None:
        render_instance, hold = render._Render._instance, InstanceRenderer.hold

        def recorded_instance(
            rendering: render._Render, source: str, declared: DeclaredObject, found: RenderedNode
        ) -> RenderedNode:
            assert found.key
            self.declared[Root(source, found.key)] = declared
            self.is_inside = True
            node = render_instance(rendering, source, declared, found)
            self.is_inside = False
            return node

        def recorded_hold(
            renderer: InstanceRenderer, key: ObjectKey, why: str, manifest: Manifest, by: InstanceOwner, **more: Any
        ) -> None:
            if not self.is_inside:
                self.holds[Root(by.source, key)] = SourceHold(why, manifest, by)
            hold(renderer, key, why, manifest, by, **more)

        patch.setattr(render._Render, "_instance", recorded_instance)
        patch.setattr(InstanceRenderer, "hold", recorded_hold)


@dataclass
class ComparingStep:
    """Rendering of a step, compared with the sets of a graph that follows the same knowledge."""

    feed: GraphFeed = field(default_factory=GraphFeed)
    sets: int = 0

    def rendered(self, catalogs: Sequence[Catalog], known: Context, types: KindSchemas, memo: RenderCache) -> Rendering:
        whole, recorded = (*catalogs, *known.elsewhere), RecordedRoots()
        with pytest.MonkeyPatch.context() as patch:
            recorded.recording(patch)
            expected = render.render(whole, step._world(known, whole, types), RenderCache())
        with self.feed.following(whole, known) as transaction:
            self.feed.set_roots(transaction, recorded.declared, recorded.holds)
        graph = self.feed.graph
        changed(graph, ROOTS)
        found = {key: instances.instance_set(graph, key) for key in expected.instances}
        assert found == expected.instances
        assert all(is_same(a, b) for a, b in zip(manifests(found), manifests(expected.instances), strict=True))
        assert {
            key for root in recorded.declared | recorded.holds for key in instances.family(graph, root).sets
        } == found.keys()
        self.sets += len(found)
        return ORIGINAL(catalogs, known, types, memo)


ORIGINAL = step._rendered


def manifests(sets: Mapping[ObjectKey, RenderedApplySet | None]) -> Iterator[Any]:
    for key in sorted(sets):
        if rendered := sets[key]:
            yield [rendered.manifest, rendered.status, [node.manifest for node in rendered.nodes]]


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_the_sets_in_a_graph_are_those_of_a_rendering_from_scratch(history: Sequence[Files], instant: bool) -> None:
    """Over commits, and over the rounds and passes of each, with controllers at work."""
    comparing = ComparingStep()
    with pytest.MonkeyPatch.context() as patch, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        patch.setattr(step, "_rendered", comparing.rendered)
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []


INNER, OUTER = GroupKind(GROUP, "Inner"), GroupKind(GROUP, "Outer")
NESTED = {
    "id": "inner",
    "template": {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": {"name": "${schema.spec.text}"}, "spec": {}},
}
DEFINITIONS = {
    "i.json": definition("Inner", [config_map("a"), config_map("b")]),
    "o.json": definition("Outer", [config_map("c"), NESTED]),
}
INSTANCES = {f"{name}.json": instance("Outer", name, text="shared") for name in ("o1", "o2")}


def key_of(kind: GroupKind, name: str) -> ObjectKey:
    return ObjectKey(*kind, "default", name)


def cluster(**instances_by_source: Files) -> GraphFeed:
    """Return a graph of sources, each with its instances; the first has the definitions as well."""
    feed, catalogs, declared = GraphFeed(), list[Catalog](), dict[Root, DeclaredObject]()
    for source, files in instances_by_source.items():
        whole = files if catalogs else {**DEFINITIONS, **files}
        catalogs.append(load({name: text.encode() for name, text in whole.items()}, source=source))
        for found in catalogs[-1].objects:
            declared[Root(source, declared_key(found, namespaced=True))] = found
    with feed.graph.transaction() as transaction:
        transaction.set(live.discovery.at(), Discovery({}))
        feed.set_catalogs(transaction, catalogs, StoredRevisions())
        feed.set_roots(transaction, declared, {})
    changed(feed.graph, ROOTS)
    return feed


def test_the_first_of_two_instances_that_nest_one_instance_has_it() -> None:
    feed = cluster(platform=INSTANCES)
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert shared.owner == key_of(OUTER, "o1")
    with feed.graph.transaction() as transaction:
        feed.set_roots(transaction, {root: one for root, one in feed.declared.items() if root.key.name == "o2"}, {})
    changed(feed.graph, ROOTS)
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert shared.owner == key_of(OUTER, "o2")


def test_a_declared_instance_takes_precedence_over_a_nested_one() -> None:
    feed = cluster(platform=INSTANCES, other={"shared.json": instance("Inner", "shared")})
    shared = instances.instance_set(feed.graph, key_of(INNER, "shared"))
    assert shared
    assert (shared.source, shared.is_nested) == ("other", False)


def test_an_instance_whose_kind_has_no_usable_definition_is_not_rendered() -> None:
    feed = cluster(platform=INSTANCES)
    with feed.graph.transaction() as transaction:
        transaction.set(definitions.store_error.at(OUTER), "quota exceeded")
    changed(feed.graph, ROOTS)
    found = instances.instance_set(feed.graph, key_of(OUTER, "o1"))
    assert found
    assert "could not be stored: quota exceeded; the instance stays as it is" in found.error


@pytest.mark.parametrize("field", ["status", "appears"])
def test_the_cost_of_one_object_does_not_depend_on_the_number_of_instances(field: str) -> None:
    costs = []
    for count in (10, 300):
        feed = cluster(platform={f"{n}.json": instance("Inner", f"n{n}") for n in range(count)})
        before = feed.graph.cost.evaluations.copy()
        name = "n3" if field == "status" else "n3-a"
        kind, version = ("Inner", f"{GROUP}/v1") if field == "status" else ("ConfigMap", "v1")
        metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "1"}
        with feed.graph.transaction() as transaction:
            live.set_objects(transaction, [{"apiVersion": version, "kind": kind, "metadata": metadata, "status": {}}])
        changed(feed.graph, ROOTS)
        costs.append(feed.graph.cost.evaluations - before)
    assert costs[0] == costs[1]
    assert costs[0].total() < 30


def test_a_commit_to_one_instance_renders_that_instance() -> None:
    feed = cluster(platform={f"{n}.json": instance("Inner", f"n{n}") for n in range(30)})
    before = feed.graph.cost.evaluations.copy()
    catalog = load({"3.json": instance("Inner", "n3", text="two").encode()}, source="platform")
    with feed.graph.transaction() as transaction:
        feed.set_roots(transaction, {**feed.declared, Root("platform", key_of(INNER, "n3")): catalog.objects[0]}, {})
    changed(feed.graph, ROOTS)
    cost = feed.graph.cost.evaluations - before
    assert cost["family"] == 1
    assert cost["_metered_resource"] == 2
