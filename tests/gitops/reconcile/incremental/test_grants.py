"""What rollouts let move between two passes over everything: kept collections, moved by parts, asked one at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from gitops.decisions.decided_rollouts import decided_rollouts
from gitops.reconcile import reconciler
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.grants import miscounted
from gitops.reconcile.incremental.scope import WidenScope
from gitops.rollouts.queue_position import WaveForecast
from gitops.rollouts.shapes import Exponential, frontier
from gitops.rollouts.state import RolloutState, TargetRevision
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, TEN, LinkPlatform
from tests.support.platform import MERGE, OWN, Died
from tests.support.properties.examples import FUZZ

EXPONENTIAL = {"shape": {"exponential": {"factor": 2}}}


def key(name: str) -> ObjectKey:
    return ObjectKey(GROUP, "Link", "default", name)


def named(roots: Collection[ObjectKey]) -> list[str]:
    return sorted(root.name for root in roots)


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform() as found:
        found.start(paced=EXPONENTIAL)
        found.settle()
        yield found


def looked_at(fleet: LinkPlatform, *names: str) -> None:
    """Passes over these instances until they do nothing, none over everything."""
    while True:
        found = fleet.call(fleet.reconciler.reconcile_roots([key(name) for name in names]))
        assert isinstance(found, ReconcileResult), found.why
        if not found.changed:
            return


def granted(fleet: LinkPlatform) -> list[str]:
    found = fleet.call(fleet.reconciler.reconcile_grants())
    assert not isinstance(found, WidenScope), found.why
    return named(found)


def elapsed(fleet: LinkPlatform) -> list[str]:
    found = fleet.reconciler.advance_clock()
    assert found is not None
    return named(found)


def widened(fleet: LinkPlatform) -> str:
    found = fleet.call(fleet.reconciler.reconcile_grants())
    assert isinstance(found, WidenScope), found
    return found.why


def test_a_rollout_goes_on_by_parts_alone(fleet: LinkPlatform) -> None:
    """2.2, exponential over ten: 0, 1, 2-3, 4-7, 8-9; each readiness lets the next ones move without a look at the others."""
    fleet.push("two")
    fleet.settle()
    moved, rounds = fleet.at("two"), []
    while moved:
        rounds.append(moved)
        fleet.ready(*moved)
        for name in moved:
            looked_at(fleet, name)
        if rounds[-1][-1] == "i9":
            break
        moved = granted(fleet)
        for name in moved:
            looked_at(fleet, name)
        assert fleet.at("two") == sorted([*(one for past in rounds for one in past), *moved])
    assert [len(one) for one in rounds] == [1, 1, 2, 4, 2]
    assert widened(fleet) == f"a wave ends in the rollout links.{GROUP}"
    fleet.settle()
    assert set(fleet.waits().values()) == {"Settled"}


def test_who_begins_to_bake_is_looked_at_alone_and_time_is_for_a_whole_pass(fleet: LinkPlatform) -> None:
    """It says so, a flap meanwhile counts and begins the bake anew, and nobody follows before its end, which is not slept through."""
    fleet.push("two", paced={**EXPONENTIAL, "bake": "30m"})
    fleet.settle()
    begun = fleet.clock.moment
    fleet.ready("i0")
    looked_at(fleet, "i0")
    assert fleet.propagated("i0")[0] == "Baking"
    assert granted(fleet) == []
    for is_ready in (False, True):
        fleet.clock.moment += timedelta(minutes=1)
        fleet.ready("i0", ready=is_ready)
        looked_at(fleet, "i0")
    assert fleet.status("i0")["levelgate"]["progress"]["flaps"] == 1
    whole, ends = fleet.reconciler.whole, begun + timedelta(minutes=32)
    assert whole
    assert begun < (whole.snapshot.propagation.wake_at or begun) <= ends
    fleet.clock.moment = ends - timedelta(seconds=1)
    fleet.settle()
    assert fleet.at("two") == ["i0"]
    fleet.clock.moment = ends
    fleet.settle()
    assert fleet.at("two") == ["i0", "i1"]


def test_what_was_let_move_is_counted_before_anything_is_written(fleet: LinkPlatform) -> None:
    """P8: asked twice nothing more is granted, and a process that is killed in between grants the same, and no more."""
    fleet.push("two")
    fleet.settle()
    fleet.ready("i0")
    looked_at(fleet, "i0")
    assert granted(fleet) == ["i1"]
    assert granted(fleet) == []
    assert fleet.at("two") == ["i0"]
    fleet.restart()
    fleet.settle()
    assert fleet.at("two") == ["i0", "i1"]


def test_parts_side_by_side_do_not_grant_the_last_slot_twice(fleet: LinkPlatform) -> None:
    """P1: two instances become ready at once, and are looked at at once; the room that both make is given once."""
    fleet.push("two")
    fleet.settle()
    for name in ("i0", "i1"):
        fleet.ready(name)
        looked_at(fleet, name)
        for moved in granted(fleet):
            looked_at(fleet, moved)
    assert fleet.at("two") == ["i0", "i1", "i2", "i3"]
    fleet.ready("i2", "i3")

    async def both() -> list[object]:
        parts = [fleet.reconciler.reconcile_roots([key(name)]) for name in ("i2", "i3")]
        found = await asyncio.gather(parts[0], fleet.reconciler.reconcile_grants(), parts[1])
        return [*found, await fleet.reconciler.reconcile_grants(), await fleet.reconciler.reconcile_grants()]

    for _ in range(2):  # a status that was written is seen by the next
        found = fleet.call(both())
    assert not any(isinstance(one, WidenScope) for one in found)
    whole = fleet.reconciler.whole
    assert whole
    assert named(whole.granted) == ["i4", "i5", "i6", "i7"]


def test_the_last_one_that_settles_is_counted_although_nobody_is_let_move(fleet: LinkPlatform) -> None:
    """What settles by a part does so later than everything was looked at; the record tells it all the same."""
    fleet.push("two")
    assert sum(map(len, fleet.move("two"))) == len(TEN)
    fleet.settle()
    fleet.ready("i3", ready=False)
    fleet.settle()
    assert fleet.rollout().waves[0].settled == len(TEN) - 1
    fleet.clock.moment += timedelta(seconds=5)
    fleet.ready("i3")
    looked_at(fleet, "i3")
    writes = fleet.writes
    assert granted(fleet) == []
    assert fleet.writes == writes
    fleet.call(fleet.reconciler.report_sources())
    assert fleet.rollout().waves[0].settled == len(TEN)


def test_what_a_person_wrote_into_the_record_wins(fleet: LinkPlatform) -> None:
    """A halt that was not heard yet: the record is only written over the version that was read."""
    fleet.push("two")
    fleet.settle()
    fleet.ready("i0")
    looked_at(fleet, "i0")
    fleet.order(halt="INC-7")
    assert "are not recorded" in widened(fleet)
    fleet.settle()
    assert fleet.at("two") == ["i0"]
    assert fleet.waits()["i1"] == "Halted"


def test_nothing_is_let_move_while_everything_is_suspended(fleet: LinkPlatform) -> None:
    fleet.push("two")
    fleet.settle()
    fleet.ready("i0")
    looked_at(fleet, "i0")
    fleet.put(f"{OWN}/levelgate", suspend="INC-7")
    assert "INC-7" in widened(fleet)


def test_a_window_that_has_closed_since_keeps_those_whose_turn_it_is(fleet: LinkPlatform) -> None:
    """I5: what was open when everything was looked at is asked again."""
    fleet.push(hours={"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "until": "17:00"})
    fleet.settle()
    fleet.push("two")
    fleet.settle()
    assert fleet.at("two") == ["i0"]
    fleet.ready("i0")
    looked_at(fleet, "i0")
    fleet.clock.moment += timedelta(minutes=9)
    assert granted(fleet) == ["i1"]
    looked_at(fleet, "i1")
    fleet.ready("i1")
    looked_at(fleet, "i1")
    fleet.clock.moment += timedelta(hours=6)
    assert granted(fleet) == []
    assert fleet.at("two") == ["i0", "i1"]


def test_the_end_of_a_bake_is_for_a_part_and_the_deadline_of_one_that_is_there_for_nobody(fleet: LinkPlatform) -> None:
    """Nobody else is looked at: the rollout goes on by what it counts."""
    fleet.push("two", paced={"shape": {"linear": {"n": 2}}, "bake": "30m", "maxFailures": 1})
    fleet.settle()
    for name in ("i0", "i1"):
        fleet.ready(name)
        looked_at(fleet, name)
        fleet.clock.moment += timedelta(minutes=11)
    assert granted(fleet) == []
    assert elapsed(fleet) == []
    fleet.clock.moment += timedelta(minutes=8)
    assert elapsed(fleet) == ["i0"]
    looked_at(fleet, "i0")
    assert fleet.waits()["i0"] == "Settled"
    assert granted(fleet) == []
    fleet.clock.moment += timedelta(minutes=11)
    assert elapsed(fleet) == ["i1"]
    assert granted(fleet) == ["i2", "i3"]
    looked_at(fleet, "i1", "i2", "i3")
    assert fleet.waits()["i1"] == "Settled"
    whole = fleet.reconciler.whole
    assert whole
    assert whole.propagation.wake_at
    fleet.clock.moment = whole.propagation.wake_at
    assert elapsed(fleet) == ["i2", "i3"], "they are not healthy in time"
    assert widened(fleet) == f"a wave ends in the rollout links.{GROUP}"


def test_time_that_may_have_changed_more_is_for_a_whole_pass(fleet: LinkPlatform) -> None:
    """As where a window opens."""
    fleet.push("two")
    fleet.settle()
    fleet.ready("i0")
    looked_at(fleet, "i0")
    whole = fleet.reconciler.whole
    assert whole
    whole.propagation = replace(whole.propagation, next_edge=fleet.clock.moment)
    assert fleet.reconciler.advance_clock() is None
    assert "time" in widened(fleet)


def test_a_gate_of_the_definition_is_asked_anew(fleet: LinkPlatform) -> None:
    """S1-14: what an expression says of all items may have changed by the readiness of one."""
    fleet.gates = ["${links.filter(l, l.settled()).size() != 1}"]
    fleet.push("two")
    fleet.settle()
    assert fleet.at("two") == ["i0"]
    fleet.ready("i0")
    looked_at(fleet, "i0")
    assert granted(fleet) == []
    fleet.settle()
    whole = fleet.reconciler.whole
    assert whole
    assert not whole.has_stale_causes
    fleet.request("PATCH", f"/apis/{GROUP}/v1/namespaces/default/links/i0", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    looked_at(fleet, "i0")
    assert granted(fleet) == []
    assert whole.has_stale_causes, "it counts as before, and what those are told who wait may be something else"


def serve(fleet: LinkPlatform, *names: str) -> None:
    """As the daemon does: parts for whom an event concerns, then for whom that lets move; everything where these say so."""
    roots = frozenset(map(key, names))
    while roots:
        found = fleet.call(fleet.reconciler.reconcile_roots(sorted(roots)))
        if isinstance(found, ReconcileResult):
            if found.changed:
                continue
            moved = fleet.call(fleet.reconciler.reconcile_grants())
            if isinstance(moved, frozenset):
                roots = moved
                continue
        fleet.settle()
        return


POLICIES = (
    EXPONENTIAL,
    {"shape": {"linear": {"n": 2}}, "mode": "Sliding", "maxFailures": 2},
    {"shape": {"linear": {"n": 1}}, "bake": "5m", "maxFailures": "50%"},
    {
        "shape": {"linear": {"n": 1}},
        "minAvailable": "50%",
        "waves": [{"name": "first", "selector": {"matchLabels": {"tier": "first"}}}],
    },
)


@pytest.mark.parametrize("seed", range(8 * (FUZZ or 1)))
def test_what_is_kept_is_what_a_fresh_process_finds(seed: int) -> None:
    """P7, and the self-check of 2.6: after any event the kept count is that of a process that remembers nothing, and that lets nobody else move."""
    chance = random.Random(seed)
    names = TEN[:6]
    with LinkPlatform(names=names) as fleet:
        fleet.written = {name: {"metadata": {"labels": {"tier": "first"}}} for name in names[:2]}
        fleet.start(paced=POLICIES[seed % len(POLICIES)])
        fleet.push("two")
        fleet.settle()
        for _ in range(14):
            _happens(fleet, chance)
            with fleet.copied() as fresh:
                fresh.step()
                mine, theirs = fleet.reconciler.whole, fresh.reconciler.whole
                assert mine
                assert theirs
                assert fresh.at(fleet.image) == fleet.at(fleet.image)
                assert _counted(fleet) == _counted(fresh)


def _happens(fleet: LinkPlatform, chance: random.Random) -> None:
    name = chance.choice(fleet.names)
    match chance.choice(("ready",) * 8 + ("sick", "drift", "hold", "release", "time", "commit")):
        case "ready":
            fleet.ready(*(moved := fleet.at(fleet.image)))
            for one in moved:
                serve(fleet, one)
        case "sick":
            fleet.ready(name, ready=False)
            serve(fleet, name)
        case "drift":
            fleet.request("DELETE", f"/apis/apps/v1/namespaces/default/deployments/{name}-app")
            serve(fleet, name)
        case "hold" | "release" as what:
            fleet.annotate(name, hold="a game" if what == "hold" else None)
            serve(fleet, name)
        case "time":
            fleet.clock.moment += timedelta(minutes=chance.choice((1, 5, 11)))
            fleet.settle()
        case "commit":
            fleet.push(chance.choice(("one", "two", "three")))
            fleet.settle()


def _short(state: RolloutState) -> RolloutState:
    return replace(state, decisions=(), waves=tuple(replace(wave, ahead=WaveForecast()) for wave in state.waves))


def _counted(fleet: LinkPlatform) -> object:
    """How each rollout stands: the counters and orders of its waves, what each item counts as, and its record but for the times and what is
    ahead of those that wait, which is told by whole passes.
    """
    whole, graph = fleet.reconciler.whole, fleet.reconciler.inputs.graph
    assert whole
    states = whole.snapshot.propagation.states
    rollouts = list(decided_rollouts(graph, states, whole.instances))
    assert miscounted(graph, rollouts) == ()
    return {
        one.name: (
            [
                (wave.counters, list(wave.eligible), list(wave.repairs), list(wave.newcomers))
                for wave in one.collection.waves.values()
            ],
            {item.key: (item.updated, item.granted, item.healthy) for item in one.collection},
            [_short(states[one.name]), len(states[one.name].decisions)],
        )
        for one in rollouts
    }


def test_a_count_that_is_wrong_is_found_and_everything_is_decided_anew(
    fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.6: the recount wins, and a mismatch is a fault to be seen."""
    whole, graph = fleet.reconciler.whole, fleet.reconciler.inputs.graph
    assert whole
    (rollout,) = decided_rollouts(graph, whole.propagation.states, whole.instances)
    assert miscounted(graph, [rollout]) == ()
    rollout.collection.remove(key("i0").qualified_name)
    assert miscounted(graph, [rollout]) == (rollout.name,)
    with monkeypatch.context() as patch:
        patch.setattr(reconciler, "miscounted", lambda *_: (rollout.name,))
        assert fleet.step().miscounted == (rollout.name,)
    assert fleet.reconciler.whole is None
    assert fleet.reconciler.inputs.graph is not graph
    fleet.push("two")
    assert fleet.step().miscounted == ()
    fleet.settle()
    assert fleet.at("two") == ["i0"]


def test_killed_between_any_two_writes_nobody_moves_out_of_turn() -> None:
    """S1-28, P1: a rollout that is served by parts, killed before or after a write; a new process goes on. At each write with LEVELGATE_FUZZ."""
    with LinkPlatform(names=TEN[:3]) as begun:
        begun.start(paced=EXPONENTIAL)
        begun.push("two")
        begun.settle()
        begun.writes = 0
        with begun.copied() as fleet:
            to_the_end(fleet)
            writes = fleet.writes
        assert writes > 12
        for number in range(0, writes, 1 if FUZZ else 3):
            with begun.copied() as fleet:
                fleet.dies_at = (number, bool(number % 2))
                to_the_end(fleet)
                assert fleet.rollout().completed == TargetRevision(2), number


def to_the_end(fleet: LinkPlatform) -> None:
    """Whoever moved gets ready, one after the other; at no time have more moved than the shape lets."""
    fleet.settle()
    for name in fleet.names:
        assert name in fleet.at("two")
        fleet.ready(name)
        try:
            serve(fleet, name)
        except Died:
            fleet.dies_at = None
            fleet.restart()
            fleet.settle()
        settled = fleet.names.index(name) + 1
        assert len(fleet.at("two")) <= frontier(Exponential(2), settled, len(fleet.names))
