"""Plans of sets in a graph: what they cost, and cases that random histories rarely meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Reason
from applier.cluster import Discovery
from applier.errors import Invalid
from applier.plan.constraints import RefusedWrite, refusal_relevant_state
from applier.plan.model import NodeAction
from applier.plan.prune_candidate import PruneOutcome
from gitops.decisions import instances, live, plan_inputs, planned
from gitops.decisions.plan_inputs import PruneApproval, SourceSettings
from gitops.decisions.planned import RecordedScope, planned_parents
from gitops.decisions.set_plans import set_plan
from gitops.queries import QueryGraph, Roots, query
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.revisions import StoredRevisions
from tests.support import apply_sets
from tests.support.graph_inputs import GraphFeed, changed, load_texts
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

CONFIG_MAP, LINK = GroupKind("", "ConfigMap"), GroupKind(GROUP, "Link")
LINKS = {"l.json": definition("Link", [config_map("a"), config_map("b")])}
PLATFORM = source_parent("platform")


@query
def all_parents(graph: QueryGraph) -> frozenset[ObjectKey]:
    return frozenset(planned_parents(graph))


PLANS = Roots("plans", members=all_parents, result=set_plan)


class Fleet:
    """Graph of one source whose plans are followed, in a cluster whose kinds were listed whole."""

    def __init__(self, files: Files) -> None:
        self.feed, self.catalog = GraphFeed(), load_texts("platform", files)
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))
            for kind in (CONFIG_MAP, LINK):
                transaction.set(live.listing.at(kind), live.ListExtent.WHOLE)
        self.commit(files)

    @property
    def graph(self) -> QueryGraph:
        return self.feed.graph

    def commit(self, files: Files) -> Counter[str]:
        """Commit these files, and return the evaluations that the plans cost, by query."""
        self.catalog = load_texts("platform", files, self.catalog)
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            self.feed.set_catalogs(transaction, [self.catalog], StoredRevisions())
            self.feed.set_declarations(transaction, [self.catalog])
        return self._settled(before)

    def observe(self, *objects: Any) -> Counter[str]:
        """Set objects that a read has returned, and return the evaluations that the plans cost, by query."""
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            live.set_objects(transaction, objects)
        return self._settled(before)

    def set(self, *inputs: tuple[Any, Any]) -> Counter[str]:
        """Set other inputs, and return the evaluations that the plans cost, by query."""
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            for key, value in inputs:
                transaction.set(key, value)
        return self._settled(before)

    def _settled(self, before: Counter[str]) -> Counter[str]:
        changed(self.graph, PLANS)
        return self.graph.cost.evaluations - before

    def apply(self, parent: ObjectKey) -> None:
        """Write all objects of a set as Levelgate writes them."""
        rendered = planned.planned_set(self.graph, parent)
        assert rendered
        objects = [apply_sets.live(rendered, node.key.name) for node in rendered.nodes if node.key]
        for obj in objects:
            if obj["kind"] == LINK.kind:
                obj["metadata"]["labels"][well_known.PARENT_ID] = applyset_id(ObjectKey.from_manifest(obj))
                obj["metadata"]["annotations"][well_known.TOOLING] = "levelgate/v0"
        self.observe(*objects)

    def outcomes(self, parent: ObjectKey) -> dict[str, tuple[PruneOutcome, bool, Reason | None]]:
        """Return the prune candidates of a set by name: outcome, permission and reason."""
        plan = set_plan(self.graph, parent)
        assert plan
        return {
            one.member.key.name: (one.outcome, one.allowed, one.blocked.reason if one.blocked else None)
            for one in plan.prune_candidates
        }


def labelled(key: ObjectKey, holder: ObjectKey) -> Any:
    """Return a live instance that the set of `holder` has."""
    labels = {well_known.PART_OF: applyset_id(holder), well_known.PARENT_ID: applyset_id(key)}
    metadata = {"name": key.name, "namespace": "default", "uid": key.name, "resourceVersion": "1", "labels": labels}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata}


def instance_key(name: str) -> ObjectKey:
    return ObjectKey(*LINK, "default", name)


def links(names: Iterable[str], **spec: str) -> Files:
    return {**LINKS, **{f"{name}.json": instance("Link", name, **spec) for name in names}}


def named(count: int) -> list[str]:
    return [f"x{number}" for number in range(count)]


def test_an_object_plans_its_own_set_alone_among_any_number_of_instances() -> None:
    costs = []
    for count in (10, 300):
        fleet = Fleet(links(named(count)))
        metadata = {"name": "x1-a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        costs.append(fleet.observe({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        plan = set_plan(fleet.graph, instance_key("x1"))
        assert plan
        assert [node.action for node in plan.nodes] == [NodeAction.ADOPT, NodeAction.CREATE]
    assert costs[0] == costs[1]
    assert (costs[0]["_set_plan"], costs[0]["node_state"]) == (1, 1)


def test_a_refused_write_plans_the_set_of_its_object_alone() -> None:
    fleet = Fleet(links(named(10)))
    rendered = instances.instance_set(fleet.graph, instance_key("x1"))
    assert rendered
    node = rendered.nodes_by_id["a"]
    assert node.key
    refused = RefusedWrite(Invalid("no such field"), node.manifest, refusal_relevant_state(None))
    cost = fleet.set((plan_inputs.refused_writes.at(instance_key("x1")), {node.key: refused}))
    assert (cost["_set_plan"], cost["node_state"]) == (1, 0)
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert plan.nodes[0].blocked
    assert plan.nodes[0].blocked.reason is Reason.APPLY_FAILED


def test_a_commit_that_deletes_more_than_the_brake_permits_waits_for_an_approval() -> None:
    objects = {f"{name}.json": plain(name) for name in "abcdefgh"}
    fleet = Fleet(objects)
    fleet.apply(PLATFORM)
    fleet.commit({"a.json": objects["a.json"]})
    held = (PruneOutcome.DELETE, False, Reason.BRAKE_ENGAGED)
    assert fleet.outcomes(PLATFORM) == dict.fromkeys("bcdefgh", held)
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval(is_approved=True)))
    assert Reason.BRAKE_ENGAGED not in {reason for *_, reason in fleet.outcomes(PLATFORM).values()}
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval()))
    fleet.commit({name: objects[name] for name in ("a.json", "b.json", "c.json")})
    assert Reason.BRAKE_ENGAGED not in {reason for *_, reason in fleet.outcomes(PLATFORM).values()}
    fleet.set((plan_inputs.prune_approval.at("platform"), PruneApproval(hold_message="Git went back")))
    assert fleet.outcomes(PLATFORM) == dict.fromkeys("defgh", held)


def test_the_members_of_a_deleted_instance_count_for_the_brake() -> None:
    """Two instances with four objects each are ten deletions; all other objects count among the live ones."""
    four = {"l.json": definition("Link", [config_map(name) for name in "abcd"])}
    files = {**four, **{f"{name}.json": instance("Link", name) for name in ("x0", "x1", "x2")}}
    fleet = Fleet(files)
    for parent in (PLATFORM, *map(instance_key, ("x0", "x1", "x2"))):
        fleet.apply(parent)
    fleet.commit({name: files[name] for name in ("l.json", "x0.json")})
    plan = set_plan(fleet.graph, PLATFORM)
    assert plan
    messages = {one.blocked.message.partition(";")[0] for one in plan.prune_candidates if one.blocked}
    assert messages == {"10 of 16 objects would be deleted"}


def test_a_source_that_deletes_nothing_keeps_what_it_no_longer_wants() -> None:
    fleet = Fleet({"a.json": plain("a"), "b.json": plain("b")})
    fleet.apply(PLATFORM)
    fleet.commit({"a.json": plain("a")})
    fleet.set((plan_inputs.source_settings.at("platform"), SourceSettings(prunes=False)))
    assert fleet.outcomes(PLATFORM) == {"b": (PruneOutcome.KEEP, False, Reason.DELETION_BLOCKED)}


def test_the_members_of_an_instance_that_is_gone_are_found_by_the_recorded_scope() -> None:
    fleet = Fleet(links(["x0", "x1"]))
    fleet.apply(instance_key("x1"))
    fleet.commit(links(["x0"]))
    assert set_plan(fleet.graph, instance_key("x1")) is None
    scope = Scope(frozenset({CONFIG_MAP}))
    fleet.set((planned.recorded_scope.at(instance_key("x1")), RecordedScope(scope, "platform")))
    assert fleet.outcomes(instance_key("x1")).keys() == {"x1-a", "x1-b"}
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert plan.is_lost
    fleet.commit(links(["x0", "x1"]))
    plan = set_plan(fleet.graph, instance_key("x1"))
    assert plan
    assert not plan.is_lost


def test_labels_in_a_circle_lead_to_no_owner() -> None:
    """Two instances that nobody wants, each of which has the label of the other's set."""
    fleet = Fleet(links(["x0"]))
    one, two = instance_key("one"), instance_key("two")
    fleet.observe(*(labelled(key, other) for key, other in ((one, two), (two, one))))
    assert {one, two}.isdisjoint(planned_parents(fleet.graph))
    assert set_plan(fleet.graph, one) is None
    fleet.observe(labelled(one, PLATFORM))
    assert [key for key in planned_parents(fleet.graph) if key in {one, two}] == [one, two]
    assert planned.holding_parent(fleet.graph, two) == one
