"""Members of rollouts in a graph: names of rollouts, policies that conflict, and instances that no rollout counts."""

from __future__ import annotations

from applier.causes import Cause, Reason
from applier.errors import Denied
from gitops.decisions import live
from gitops.decisions.rollout_members import (
    membership,
    policy_conflicts,
    rollout_instances,
    rollout_names_by_identity,
    rollout_prefix,
    rollout_rules,
    rollouts,
    unruled_cause,
)
from gitops.decisions.rollout_records import rollout_state, unrecorded_cause
from gitops.rollouts.policy import DEFAULT_POLICY, Policy, PolicySelector, Wave
from gitops.rollouts.state import RolloutState
from renderer.errors import SourceLocation
from renderer.identity import GroupKind, ObjectKey
from renderer.label_selector import LabelSelector
from renderer.render.revisions import StoredRevisions
from tests.support.graph_fleet import LINK, instance_key
from tests.support.graph_inputs import GraphFeed, load_texts
from tests.support.properties.repositories import GROUP, config_map, definition, instance
from tests.support.rollout_fleet import NAME, RolloutFleet

X0, X1 = map(instance_key, ("x0", "x1"))
CANARY = Wave("canary", LabelSelector.from_object({"matchLabels": {"tier": "canary"}}))


def policy(name: str, *waves: Wave, **labels: str) -> Policy:
    instances = LabelSelector.from_object({"matchLabels": labels}) if labels else None
    return Policy(name, SourceLocation(f"{name}.yaml", 1), PolicySelector(instances=instances), waves=waves)


def test_instances_of_one_definition_under_one_policy_are_in_one_rollout() -> None:
    fleet = RolloutFleet(2)
    assert rollouts(fleet.graph) == {NAME}
    assert rollout_instances(fleet.graph) == {X0, X1}
    found = rollout_rules(fleet.graph, NAME)
    assert found
    assert (found.kind, found.policy, found.is_creation_paced, found.of) == (LINK, DEFAULT_POLICY, False, str(LINK))
    assert rollout_names_by_identity(fleet.graph) == {str(LINK): NAME}
    assert rollout_rules(fleet.graph, "other") is None


def test_a_policy_that_selects_instances_has_a_rollout_of_its_own() -> None:
    fleet = RolloutFleet(2, policy("p", CANARY))
    x0 = instance("Link", "x0").replace('"name": "x0"', '"name": "x0", "labels": {"tier": "canary"}')
    assert '"tier"' in x0
    fleet.files = {**fleet.files, "x0.json": x0}
    fleet.commit(fleet.files)
    found = membership(fleet.graph, X0)
    assert found
    assert (found.rollout, found.wave) == (NAME, "canary")
    fleet.rule(policy("p"), policy("c", tier="canary"))
    assert rollouts(fleet.graph) == {NAME, f"{NAME}.c"}
    other = rollout_rules(fleet.graph, f"{NAME}.c")
    assert other
    assert (other.of, other.is_creation_paced) == (f"{LINK}.c", True)


def test_instances_whose_policies_conflict_are_in_no_rollout() -> None:
    fleet = RolloutFleet(2)
    fleet.rule(policy("one"), policy("two"))
    assert rollout_instances(fleet.graph) == frozenset()
    (problem,) = policy_conflicts(fleet.graph)
    assert unruled_cause(fleet.graph, X0) == Cause(Reason.GATE_ERROR, problem.message)


def test_a_rollout_that_cannot_be_recorded_rules_no_instance() -> None:
    fleet = RolloutFleet(2)
    assert unruled_cause(fleet.graph, X0) is None
    cause = Cause(Reason.APPLY_FAILED, "forbidden")
    fleet.set((unrecorded_cause.at(NAME), cause))
    assert unruled_cause(fleet.graph, X0) == cause
    assert unruled_cause(fleet.graph, ObjectKey("", "ConfigMap", "default", "x0-a")) is None


def test_an_instance_that_nobody_can_see_is_in_no_rollout() -> None:
    fleet = RolloutFleet(2)
    fleet.set((live.unreadable.at(), {LINK: Denied("forbidden")}))
    assert rollout_instances(fleet.graph) == {X0, X1}, "what was read counts"
    with fleet.graph.transaction() as transaction:
        transaction.drop(live.live.at(X0))
    assert rollout_instances(fleet.graph) == {X1}


def test_of_two_definitions_with_one_name_that_of_the_record_has_the_name() -> None:
    knot = GroupKind(GROUP, "Knot")
    named = definition("Knot", [config_map("a")]).replace(f"knots.{GROUP}", NAME)
    second = definition("Link", [config_map("a")])
    feed = GraphFeed()
    catalogs = [load_texts("first", {"k.json": named}), load_texts("second", {"l.json": second})]
    with feed.graph.transaction() as transaction:
        feed.set_catalogs(transaction, catalogs, StoredRevisions())
        transaction.set(rollout_state.at(NAME), None)
    assert [rollout_prefix(feed.graph, kind) for kind in (knot, LINK)] == [NAME, f"{NAME}.link"]
    with feed.graph.transaction() as transaction:
        transaction.set(rollout_state.at(NAME), RolloutState(of=str(LINK)))
    assert [rollout_prefix(feed.graph, kind) for kind in (knot, LINK)] == [f"{NAME}.knot", NAME]
