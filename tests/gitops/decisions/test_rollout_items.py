"""Items of rollouts in a graph: what one of them costs, what happens with time, and the memory of their progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from applier.causes import Reason
from gitops.decisions import live, rollout_items, rules
from gitops.decisions.instances import placement
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rollout_items import CountedItems, TargetProgress, progress_change, rollout_item
from gitops.decisions.rollout_steps import rollout_step
from gitops.rollouts.collection import Counters
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import DEFAULT_POLICY, ItemOrder, Policy, PolicySelector
from gitops.rollouts.source_rules import SourceRules
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.label_selector import LabelSelector
from renderer.render.instance_cache import RevisionPlacement
from tests.support.graph_fleet import instance_key
from tests.support.rollout_fleet import MINUTE, NAME, RolloutFleet
from tests.support.windows.documents import window

X0, X1 = map(instance_key, ("x0", "x1"))
X1_B = ObjectKey("", "ConfigMap", "default", "x1-b")
BAKING = replace(DEFAULT_POLICY, name="p", bake=5 * MINUTE, progress_deadline=15 * MINUTE, max_flaps=0)


def counters(fleet: RolloutFleet, policy: Policy = BAKING) -> Counters:
    return CountedItems(fleet.graph, NAME, policy, {"all": timedelta()}).counters


def moving(count: int = 3) -> RolloutFleet:
    """Return a fleet whose first instance may move to revision 2."""
    fleet = RolloutFleet(count, BAKING)
    fleet.tick(5 * MINUTE)
    fleet.record(fleet.step().state.dated(fleet.graph.now))
    fleet.roll_out("two")
    fleet.tick()
    assert fleet.carry_out() == ["x0"]
    return fleet


def lose(fleet: RolloutFleet, key: ObjectKey) -> None:
    """Delete an object by hand."""
    fleet.set((live.live.at(key), None))


def test_an_object_counts_its_own_instance_alone_among_any_number() -> None:
    costs = []
    for count in (10, 300):
        fleet = RolloutFleet(count)
        fleet.cost_of_step()
        assert counters(fleet).healthy == count
        costs.append(fleet.set((live.live.at(X1_B), None)) + fleet.cost_of_step())
        assert counters(fleet).healthy == count - 1
    assert costs[0] == costs[1]
    assert (costs[0]["observed_item"], costs[0]["_ranked_item"], costs[0]["rollout_step"]) == (1, 1, 1)


def test_a_grant_evaluates_its_own_instance_alone_among_any_number() -> None:
    costs = []
    for count in (10, 300):
        fleet = moving(count)
        fleet.cost_of_step()
        costs.append(fleet.set((granted_revision.at(X1), 2)) + fleet.cost_of_step())
    assert costs[0] == costs[1]
    assert costs[0]["observed_item"] == 1


def test_an_item_settles_at_the_end_of_its_bake_time() -> None:
    fleet = moving()
    fleet.bring("x0")
    begun = fleet.tick()
    assert counters(fleet) == Counters(3, 1, 0, 0, 3, 0, 0)
    assert fleet.graph.next_moment == begun + 5 * MINUTE
    fleet.graph.advance(begun + 5 * MINUTE - timedelta.resolution)
    assert fleet.step().grants == {}
    fleet.graph.advance(begun + 5 * MINUTE)
    assert counters(fleet).settled == 1
    assert fleet.step().grants == {X1: 2}


def test_an_item_fails_after_its_deadline() -> None:
    fleet = moving()
    begun = fleet.graph.now
    fleet.graph.advance(begun + 15 * MINUTE)
    assert (counters(fleet).failed, fleet.step().state.halts) == (0, ())
    assert fleet.graph.next_moment == begun + 15 * MINUTE + timedelta.resolution
    fleet.graph.advance(begun + 15 * MINUTE + timedelta.resolution)
    assert counters(fleet).failed == 1
    (halt,) = fleet.step().state.halts
    assert halt.target == 2


def test_the_shell_is_told_once_which_observation_a_progress_lacks() -> None:
    fleet = moving()
    fleet.bring("x0")
    assert fleet.take_progress() == [X0]
    assert fleet.take_progress() == []
    found = rollout_items.item_progress(fleet.graph, X0)
    assert found
    assert (found.revision, found.progress.ready_since, found.progress.levels) == (2, fleet.graph.now, 1)
    lose(fleet, ObjectKey("", "ConfigMap", "default", "x0-b"))
    fleet.graph.advance(fleet.graph.now + MINUTE)
    assert fleet.take_progress() == [X0]
    found = rollout_items.item_progress(fleet.graph, X0)
    assert found
    assert found.progress == ItemProgress(flaps=1, running_since=fleet.graph.now)
    assert counters(fleet).failed == 1


def test_an_item_without_known_progress_neither_settles_nor_fails() -> None:
    fleet = moving()
    fleet.bring("x0")
    fleet.set((rollout_items.item_progress.at(X0), None))
    fleet.graph.advance(fleet.graph.now + timedelta(days=1))
    item = rollout_item(fleet.graph, X0)
    assert item
    assert (item.updated, item.healthy, item.progress) == (True, True, ItemProgress())
    assert (counters(fleet).settled, counters(fleet).failed) == (0, 0)


def test_the_status_tells_the_progress_after_a_restart_and_no_longer_once_it_was_observed() -> None:
    fleet = moving()
    fleet.bring("x0")
    fleet.tick()
    since = fleet.graph.now - 3 * MINUTE
    obj = live.live(fleet.graph, X0)
    assert obj
    stored = {"revision": 2, **ItemProgress(ready_since=since, levels=1).to_dict()}
    fleet.observe({**obj, "status": {"levelgate": {"progress": stored}}})
    item = rollout_item(fleet.graph, X0)
    assert item
    assert item.progress.ready_since == fleet.graph.now, "a status that could not be written restarts no bake"
    fleet.set((rollout_items.item_progress.at(X0), None))
    item = rollout_item(fleet.graph, X0)
    assert item
    assert item.progress.ready_since == since
    assert progress_change(fleet.graph, X0) is None
    fleet.observe({**obj, "status": {"levelgate": {"progress": {**stored, "revision": 1}}}})
    change = progress_change(fleet.graph, X0)
    assert change
    assert (change.before, change.revision) == (None, 2)


def test_a_progress_ends_with_its_target() -> None:
    fleet = moving()
    fleet.bring("x0")
    fleet.tick()
    fleet.roll_out("three")
    assert fleet.take_progress() == [X0]
    assert rollout_items.item_progress(fleet.graph, X0) is None
    old = TargetProgress(2, ItemProgress(ready_since=fleet.graph.now, levels=1))
    fleet.set((rollout_items.item_progress.at(X0), old), (granted_revision.at(X0), 3))
    assert progress_change(fleet.graph, X0) is None
    fleet.set((placement.at(X0), RevisionPlacement(3, 3)))
    change = progress_change(fleet.graph, X0)
    assert change
    assert (change.before, change.revision) == (None, 3)


def test_an_instance_that_leaves_its_rollout_leaves_its_progress() -> None:
    fleet = moving()
    del fleet.files["x0.json"]
    fleet.commit(fleet.files)
    assert fleet.take_progress() == [X0]
    assert rollout_items.item_progress(fleet.graph, X0) is None
    assert counters(fleet).total == 2


def test_a_rollout_with_an_instance_that_nobody_has_read_is_unread() -> None:
    fleet = RolloutFleet(3)
    assert fleet.graph.answer(rollout_step, NAME).unread == frozenset()
    with fleet.graph.transaction() as transaction:
        transaction.doubt(live.live.at(X1_B))
    assert fleet.graph.answer(rollout_step, NAME).unread == {live.live.at(X1_B)}
    assert fleet.graph.answer(rollout_item, X0).unread == frozenset()


def test_items_move_in_the_order_of_their_priority_or_of_a_shuffle() -> None:
    def order(policy: Policy) -> list[str]:
        fleet = RolloutFleet(6, policy)
        fleet.roll_out("two")
        fleet.tick()
        view = CountedItems(fleet.graph, NAME, policy, {"all": timedelta()})
        assert [sort_key[-1] for sort_key in view.waves["all"].eligible] == [item.key for item in view]
        return [item.key for item in view]

    stable = order(BAKING)
    assert stable == sorted(stable)
    shuffled = order(replace(BAKING, order=ItemOrder.SHUFFLE_PER_REVISION))
    assert shuffled != stable
    assert sorted(shuffled) == stable


def annotate(fleet: RolloutFleet, key: ObjectKey, **annotations: str) -> None:
    obj = live.live(fleet.graph, key)
    assert obj
    known = obj["metadata"].get("annotations") or {}
    fleet.observe({**obj, "metadata": {**obj["metadata"], "annotations": {**known, **annotations}}})


def test_an_item_shows_what_people_ask_of_its_instance() -> None:
    fleet = RolloutFleet(2)
    annotate(fleet, X0, **{well_known.SUSPEND: "audit"})
    annotate(fleet, X1, **{well_known.PRIORITY: "7"})
    found = [rollout_item(fleet.graph, key) for key in (X0, X1)]
    assert [(item.held and item.held.reason, item.priority) for item in found if item] == [
        (Reason.SUSPENDED, 0),
        (None, 7),
    ]


def test_closed_windows_block_an_item() -> None:
    fleet = RolloutFleet(1)
    fleet.roll_out("two")
    night = window("night", cron="0 22 * * *", duration="2h", zone="UTC")
    fleet.set((rules.source_rules.at("platform"), SourceRules("platform", {"night": night})))
    item = rollout_item(fleet.graph, X0)
    assert item
    assert item.blocked
    assert item.blocked.reason is Reason.WINDOW_CLOSED


def test_an_unread_instance_may_belong_to_any_rollout() -> None:
    fleet = RolloutFleet(2)
    fleet.files["x0.json"] = fleet.files["x0.json"].replace('"name": "x0"', '"name": "x0", "labels": {"tier": "c"}')
    fleet.commit(fleet.files)
    selector = PolicySelector(instances=LabelSelector.from_object({"matchLabels": {"tier": "c"}}))
    fleet.rule(Policy("c", selector=selector))
    fleet.record(None, name=f"{NAME}.c")
    with fleet.graph.transaction() as transaction:
        transaction.doubt(live.live.at(X1_B))
    assert fleet.graph.answer(rollout_step, f"{NAME}.c").unread == {live.live.at(X1_B)}
