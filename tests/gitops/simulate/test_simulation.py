"""Simulated time: the controller itself, on a sandbox whose clock jumps (docs/simulate.md)."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import orjson
import pytest

from applier.causes import Reason
from applier.sandbox.wire import Request, Response
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.engine import CommitPush, Simulation
from gitops.simulate.svg import Axis, render_svg
from gitops.simulate.timeline import Timeline, Track, TrackSpan, TrackState, held_time
from gitops.simulate.timeline_json import as_json
from gitops.simulate.world import SimulatedCluster
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.clock import START
from tests.support.link_platform import TEN, LinkPlatform

FREEZE: dict[str, Any] = {
    "kind": "Deny",
    "timeZone": "Europe/Berlin",
    "schedule": {"cron": "0 12 * * 5"},
    "duration": "60h",
}
FRIDAY = datetime(2026, 11, 20, 10, 50, tzinfo=UTC)
FREEZES, THAWS = datetime(2026, 11, 20, 11, tzinfo=UTC), datetime(2026, 11, 22, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def simulated(
    fleet: LinkPlatform,
    assume: str = "ready=4m",
    *,
    seed: int = 0,
    start: datetime = START,
    lasts: timedelta = timedelta(days=14),
    subject: str = "move to two",
    **rules: Any,
) -> Timeline:
    """The fleet at one image, with its rules, moves to another."""
    fleet.push(**rules)
    base = fleet.state
    fleet.push("two")
    simulation = Simulation(start, Assumptions.parse(assume, seed=seed), "0", LOCAL)
    asyncio.run(simulation.run(base, [CommitPush(start, fleet.state, subject)], start + lasts))
    return simulation.timeline()


def spans(timeline: Timeline, name: str) -> list[tuple[str, datetime, datetime]]:
    return [(span.state.word, span.begins, span.ends) for span in spans_of(timeline, name)]


def spans_of(timeline: Timeline, name: str) -> Sequence[TrackSpan]:
    return next(one for one in timeline.tracks if one.instance.name == name).spans


def told(timeline: Timeline, kind: str) -> list[tuple[datetime, str]]:
    return [(event.at, event.text) for event in timeline.events if event.kind == kind]


def test_a_rollout_that_meets_a_weekend_waits_for_its_end_and_goes_on_where_it_was() -> None:
    """Exponential, four minutes each: three rounds before the freeze; what moves is followed to readiness, and the rest begins when it is over."""
    found = simulated(LinkPlatform(), start=FRIDAY, freeze=FREEZE)
    assert told(found, "window") == [(FREEZES, "window begins (Deny)"), (THAWS, "window ends (Deny)")]
    assert spans(found, "i1")[1] == ("progressing", FRIDAY + 4 * MINUTE, FRIDAY + 8 * MINUTE)
    assert spans(found, "i3")[1:3] == [
        ("progressing", FRIDAY + 8 * MINUTE, FRIDAY + 12 * MINUTE),
        ("settled", FRIDAY + 12 * MINUTE, found.ends),
    ]
    assert spans(found, "i4") == [
        ("waiting", FRIDAY, FREEZES),
        ("held", FREEZES, THAWS),
        ("progressing", THAWS, THAWS + 4 * MINUTE),
        ("settled", THAWS + 4 * MINUTE, found.ends),
    ]
    held = next(span for track in found.tracks if track.instance.name == "i4" for span in track.spans[1:2])
    assert (held.state.reason, held.state.blockers, held.state.until) == (Reason.WINDOW_CLOSED, ("freeze",), THAWS)
    (commit,) = found.arrivals
    assert (found.end_reason, commit.started, commit.settled) == ("all matches Git", FRIDAY, THAWS + 8 * MINUTE)


def test_a_commit_that_comes_while_another_moves_overtakes_it() -> None:
    """It arrives at its own time; of the first the others never move to that."""
    fleet = LinkPlatform(names=TEN[:4])
    fleet.push()
    base, pushes = fleet.state, list[CommitPush]()
    for number, image in enumerate(("two", "three")):
        fleet.push(image)
        pushes.append(CommitPush(START + number * 6 * MINUTE, fleet.state, image))
    simulation = Simulation(START, Assumptions.parse("ready=4m"), "0", LOCAL)
    asyncio.run(simulation.run(base, pushes, START + timedelta(days=14)))
    found = simulation.timeline()
    settled = START + 18 * MINUTE
    assert [(one.at, one.started, one.settled, one.is_superseded) for one in found.arrivals] == [
        (START, START, None, True),
        (START + 6 * MINUTE, START + 6 * MINUTE, settled, False),
    ]
    told_of = [(one["commit"], one.get("overtaken")) for one in as_json(found, assumptions="", seed=0)["commits"]]
    assert told_of == [(pushes[0].catalog.commit, True), (pushes[1].catalog.commit, None)]


def test_instances_stand_in_the_order_of_their_waves() -> None:
    """Not in that of their names; and each that was changed is drawn, be it for no time at all."""
    last = {"metadata": {"labels": {"tier": "last"}}}
    waves = [{"name": tier, "selector": {"matchLabels": {"tier": tier}}} for tier in ("first", "last")]
    written = {"a": last, "b": {"metadata": {"labels": {"tier": "first"}}}}
    found = simulated(LinkPlatform(names=("a", "b"), written=written), pace={"waves": waves})
    assert [(one.instance.name, one.wave) for one in found.tracks] == [("b", "first"), ("a", "last")]
    at_once = replace(found.tracks[0], spans=found.tracks[0].spans[-1:])
    assert at_once.spans[0].state.word == "settled"
    for changed, rows in ((at_once, 2), (replace(at_once, written=False), 1)):
        drawn = render_svg(replace(found, tracks=(changed, found.tracks[1])))
        assert ("Not shown: 1 unchanged instance." in drawn) == (rows == 1)


HELD = TrackState(Reason.WINDOW_CLOSED)


@pytest.mark.parametrize(
    ("minutes", "held_for"),
    [
        ([(0, 10)], 10),
        ([(0, 10), (5, 20)], 20),
        ([(0, 20), (5, 10)], 20),
        ([(0, 5), (10, 20)], 15),
        ([(-10, 5), (25, 40)], 10),
        ([(-10, -5), (30, 40)], 0),
    ],
)
def test_how_long_something_was_held_counts_no_minute_twice(minutes: list[tuple[int, int]], held_for: int) -> None:
    """Between two times, half an hour apart, whoever it was."""
    tracks = tuple(
        Track(
            ObjectKey("g", "Link", "", str(number)), "", "", (TrackSpan(START + a * MINUTE, START + b * MINUTE, HELD),)
        )
        for number, (a, b) in enumerate(minutes)
    )
    timeline = Timeline("platform", START, START, "", (), tracks, (), ())
    assert held_time(timeline, START, START + 30 * MINUTE) == held_for * MINUTE


def test_who_holds_it_is_told_for_as_long_as_that_is_so() -> None:
    """A weekend that is closed is followed by a night outside of working hours."""
    hours = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 9 * * 1-5"}, "until": "17:00"}
    found = simulated(LinkPlatform(names=TEN[:4]), start=FRIDAY + 5 * MINUTE, freeze=FREEZE, hours=hours)
    held = [one for one in spans_of(found, "i3") if one.state.is_held]
    opens = THAWS + timedelta(hours=9)
    assert [(one.state.blockers, one.ends) for one in held] == [(("freeze",), THAWS), (("hours",), opens)]


def test_one_of_ten_never_becomes_ready_and_the_rollout_halts() -> None:
    """B1, S1-16: the fourth of ten hangs; it holds the second half, and when its time is over six have never been touched."""
    found = simulated(LinkPlatform(), "ready=2m,hang=i3")
    assert told(found, "halted")[0][1] == "r2 HALTED: 1 of 10 items failed in wave all, more than the limit of 0"
    assert [track.instance.name for track in found.tracks if track.written] == list(TEN[:4])
    ends = {track.instance.name: track.spans[-1].state.reason for track in found.tracks}
    assert ends == {
        **dict.fromkeys(TEN[:3], Reason.SETTLED),
        "i3": Reason.UNHEALTHY,
        **dict.fromkeys(TEN[4:], Reason.HALTED),
    }
    assert found.end_reason == "nothing will change any more by itself"
    assert found.arrivals[0].settled is None


def test_one_that_fails_is_told_as_failed_and_halts_the_rollout() -> None:
    """Whoever waits for its namesake, with the namespace, is not meant."""
    found = simulated(LinkPlatform(names=TEN[:4]), "ready=2m,fail=default/i1,fail=elsewhere/i0")
    assert [text for _, text in told(found, "failed")] == ["FAILED: not healthy at r2 within the progress deadline"]
    assert told(found, "halted")[0][1] == "r2 HALTED: 1 of 4 items failed in wave all, more than the limit of 0"
    assert [track.instance.name for track in found.tracks if track.written] == ["i0", "i1"]
    assert found.warnings == ("fail=elsewhere/i0 names no workload that was changed",)


def test_one_that_loses_its_health_again_and_again_halts_a_rollout_that_bakes() -> None:
    """However often the policy lets it, it is followed until then."""
    pace = {"bake": "30m", "maxFlaps": 12}
    found = simulated(LinkPlatform(names=TEN[:4]), "ready=2m,flap=i1", pace=pace, lasts=timedelta(hours=2))
    assert "lost its health 13 times while baking" in told(found, "failed")[0][1]
    assert told(found, "halted")[0][1] == "r2 HALTED: 1 of 4 items failed in wave all, more than the limit of 0"


def test_what_flaps_for_ever_is_not_followed_for_two_weeks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing bakes it holds nobody up for long, but all is never as Git says; a window that opens on the third day is not missed."""
    passes: list[datetime] = []
    reconcile = Reconciler.reconcile

    async def counted(self: Reconciler, sources: Sequence[SourceState]) -> ReconcileResult:
        passes.append(self.clock.now())
        return await reconcile(self, sources)

    monkeypatch.setattr(Reconciler, "reconcile", counted)
    window = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 12 * * 1"}, "duration": "1h"}
    late = {"selector": {"instances": {"matchLabels": {"late": "yes"}}}}
    fleet = LinkPlatform(names=("i0", "i1"), written={"i1": {"metadata": {"labels": {"late": "yes"}}}})
    found = simulated(fleet, "ready=2m,flap=i0", late={**window, **late})
    monday = START + timedelta(days=3)
    state, begins, ends = spans(found, "i1")[-2]
    assert (state, ends - begins) == ("progressing", 2 * MINUTE)
    assert monday <= begins <= monday + 2 * MINUTE
    assert found.end_reason.endswith("except workloads that flap")
    assert len(passes) < 200


def test_a_window_keeps_to_its_zone_where_the_clocks_change() -> None:
    """W1: at nine in Berlin, which is seven in summer and eight in winter, UTC; the night between is that of 25 October."""
    berlin = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 9 * * *"}, "until": "09:20"}
    saturday = datetime(2026, 10, 24, 7, 18, tzinfo=UTC)
    sunday = datetime(2026, 10, 25, 8, tzinfo=UTC)
    found = simulated(LinkPlatform(names=("i0", "i1")), start=saturday, berlin=berlin)
    assert told(found, "window") == [
        (saturday + 2 * MINUTE, "window ends (Allow)"),
        (sunday, "window begins (Allow)"),
    ]
    assert spans(found, "i1")[-2] == ("progressing", sunday, sunday + 4 * MINUTE)


def test_bake_is_told_with_its_end() -> None:
    """Healthy is not settled yet."""
    found = simulated(LinkPlatform(names=("i0",)), pace={"bake": "30m"})
    assert [state for state, _, _ in spans(found, "i0")] == ["progressing", "baking", "settled"]
    assert told(found, "healthy") == [(START + 4 * MINUTE, "healthy after 4m, bakes until {until}")]
    assert found.arrivals[0].settled == START + 34 * MINUTE


def test_equal_seeds_give_equal_bytes() -> None:
    """Times that are drawn follow from the seed alone, in every output."""

    def drawn(seed: int) -> tuple[bytes, str]:
        found = simulated(LinkPlatform(names=TEN[:4]), "ready=1m..9m", seed=seed)
        return orjson.dumps(as_json(found, assumptions="", seed=0)), render_svg(found)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("assume", ["ready=2m", "ready=2m,hang=i1", "ready=2m,fail=i2", "ready=2m,flap=i3"])
def test_a_status_is_stored_as_an_apply_would_leave_it(assume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[Any] = []
    door = SimulatedCluster._handle_request

    async def seen(world: SimulatedCluster, request: Request) -> Response:
        response = await door(world, request)
        if request.target.partition("?")[0].endswith("/status"):
            statuses.append(orjson.loads(response.body)["status"])
        return response

    monkeypatch.setattr(SimulatedCluster, "_handle_request", seen)
    fleet: dict[str, Any] = {"freeze": FREEZE, "pace": {"bake": "30m"}, "start": FRIDAY, "lasts": timedelta(days=4)}
    laid = simulated(LinkPlatform(names=TEN[:4]), assume, **fleet)
    stored, statuses[:] = statuses.copy(), ()
    monkeypatch.setattr(SimulatedCluster, "_replace_status", lambda *_: None)
    assert as_json(simulated(LinkPlatform(names=TEN[:4]), assume, **fleet), assumptions="", seed=0) == as_json(
        laid, assumptions="", seed=0
    )
    assert statuses == stored
    assert len(stored) > 20


def test_who_gets_ready_is_looked_at_alone_and_everything_where_that_is_not_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other: a pass over the one that is healthy, and one over the next, which it lets move, and again over that once its Deployment is
    seen, which writes what comes after it. The last one ends the wave, and its source reads that it is settled.
    """
    looks: list[tuple[datetime, list[str] | None]] = []
    reconcile, part = Reconciler.reconcile, Reconciler.reconcile_roots

    async def whole(self: Reconciler, sources: Sequence[SourceState]) -> ReconcileResult:
        looks.append((self.clock.now(), None))
        return await reconcile(self, sources)

    async def over(self: Reconciler, roots: Collection[ObjectKey]) -> ReconcileResult | WidenScope:
        looks.append((self.clock.now(), [root.name for root in roots]))
        return await part(self, roots)

    monkeypatch.setattr(Reconciler, "reconcile", whole)
    monkeypatch.setattr(Reconciler, "reconcile_roots", over)
    found = simulated(LinkPlatform(names=TEN[:4]), "ready=2m", pace={"shape": {"linear": {"n": 1}}})
    ready = [START + number * 2 * MINUTE for number in range(1, 5)]
    at = {moment: [roots for then, roots in looks if then == moment] for moment in ready}
    assert [at[moment] for moment in ready[:3]] == [[[name], [after], [after]] for name, after in pairwise(TEN[:4])]
    assert at[ready[3]] == [["i3"], ["i3"], None]
    assert found.arrivals[0].settled == ready[-1]


@pytest.mark.parametrize("assume", ["hang=*", "ready=5m"])
def test_the_end_of_the_simulation_cuts_what_is_under_way(assume: str) -> None:
    """What would come at that very moment does not."""
    found = simulated(LinkPlatform(names=("i0",)), assume, lasts=5 * MINUTE)
    assert (found.end_reason, found.ends) == ("the time is over", START + 5 * MINUTE)
    assert spans(found, "i0") == [("progressing", START, START + 5 * MINUTE)]


def test_what_is_held_of_the_source_itself_is_not_as_git_says() -> None:
    """An object in no instance; and an instance that not even the base has brought about is told."""
    fleet = LinkPlatform(names=("i0",), written={"i0": {"metadata": {"annotations": {well_known.SUSPEND: "INC-7"}}}})
    metadata = {"name": "plain", "annotations": {well_known.RECONCILE: "disabled"}}
    fleet.plain = {"plain": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
    fleet.push()
    base = fleet.state
    fleet.plain["plain"]["data"] = {"a": "one"}
    fleet.written.clear()
    fleet.push("two")
    simulation = Simulation(START, Assumptions(), "0", LOCAL)
    asyncio.run(simulation.run(base, [CommitPush(START, fleet.state, "move to two")], START + timedelta(days=14)))
    found = simulation.timeline()
    assert spans(found, "i0")[-1][0] == "settled"
    assert (found.end_reason, found.arrivals[0].settled) == ("nothing will change any more by itself", None)
    assert found.warnings == ("at the beginning not all of the base matches Git: platform, Link default/i0",)


def test_what_the_world_has_besides_git_is_taken_for_granted() -> None:
    """A namespace that no manifest holds, a kind of an operator, and an external fact that is open."""
    certificate = {
        "id": "certificate",
        "propagateWhen": ["${external('budget')}"],
        "template": {
            "apiVersion": "cert.example.com/v1",
            "kind": "Certificate",
            "metadata": {"name": "${app.metadata.name}"},
            "spec": {"image": "IMAGE"},
        },
    }
    fleet = LinkPlatform(names=("i0",), more=[certificate], written={"i0": {"metadata": {"namespace": "elsewhere"}}})
    found = simulated(fleet)
    assert (found.warnings, found.end_reason) == ((), "all matches Git")
    assert "level 1  certificate updated" in [text for _, text in told(found, "write")]


def test_a_wave_that_is_over_is_told_once_although_its_next_target_follows_at_once() -> None:
    """It settles at the first commit in the moment in which the wave before it lets it move to the second."""
    canary = {"metadata": {"labels": {"tier": "canary"}}}
    fleet = LinkPlatform(names=("a", "b", "c"), written={"a": canary})
    waves = [{"name": "first", "selector": {"matchLabels": {"tier": "canary"}}}]
    fleet.push(pace={"onNewRevision": "Pipeline", "waves": waves})
    simulation, base, pushes = Simulation(START, Assumptions.parse("ready=4m"), "0", LOCAL), fleet.state, []
    for image, at in (("two", START), ("three", START + 8 * MINUTE)):
        fleet.push(image)
        pushes.append(CommitPush(at, fleet.state, image))
    asyncio.run(simulation.run(base, pushes, START + timedelta(days=1)))
    first, rest = "wave first settled, 1 of 1; wave rest starts", "wave rest settled, 2 of 2"
    assert told(simulation.timeline(), "wave") == [
        (START + number * MINUTE, text) for number, text in ((4, first), (12, first), (12, rest), (20, rest))
    ]


def test_a_pattern_that_names_nothing_is_told() -> None:
    found = simulated(LinkPlatform(names=("i0",)), "hang=web-7")
    assert found.warnings == ("hang=web-7 names no workload that was changed",)


@pytest.mark.parametrize(
    "text", ["ready", "ready=soon", "ready=5m..2m", "fail=", "sleep=3", "ready=1m,=x", "ready=99999999d"]
)
def test_what_is_no_assumption_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|longer"):
        Assumptions.parse(text)


def test_assumptions_are_told_as_they_are_written() -> None:
    assert str(Assumptions.parse("fail=a*,ready=90s..2h")) == "ready=1m30s..2h,fail=a*"


def test_the_picture_is_well_formed_and_says_what_it_shows() -> None:
    """It can be read without seeing it, and nothing that people write gets out of its text."""
    hostile = "<script>alert(1)</script> ]]> & \x07"
    found = simulated(
        LinkPlatform(names=TEN[:4]), start=FRIDAY, subject=hostile, freeze={**FREEZE, "description": hostile}
    )
    root = ET.fromstring(render_svg(found))
    names = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
    assert "script" not in names
    assert names <= {"svg", "title", "desc", "style", "defs", "pattern", "rect", "circle", "path", "text", "line"}
    title, description = list(root)[:2]
    assert root.get("role") == "img"
    assert (title.text, "4 settled" in (description.text or "")) == ("Simulation of platform", True)
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert any(text.startswith("Link default/i3: WindowClosed") or "i3: Settled" in text for text in titles)


def test_quiet_stretches_are_drawn_shorter_and_the_order_stays() -> None:
    """A weekend between minutes takes no more room than a few of them, and is marked."""
    moments = [START, START + MINUTE, START + 2 * MINUTE, START + timedelta(days=3), START + timedelta(days=3) + MINUTE]
    axis = Axis.from_events(moments, 1000)
    places = [axis.position_of(moment) for moment in moments]
    assert places == sorted(places)
    assert (places[0], round(places[-1])) == (0.0, 1000)
    assert len(axis.breaks) == 1
    assert axis.position_of(START + MINUTE / 2) == pytest.approx(places[1] / 2)


def test_a_few_minutes_are_seen_beside_three_days() -> None:
    """Most stretches between what happens are hours, as they are around a weekend; what moves for six minutes is no hair."""
    minutes = (0, 5, 6, 5 * 60, 60 * 60, 69 * 60, 69 * 60 + 6)
    axis = Axis.from_events([START + number * MINUTE for number in minutes], 1000)
    assert min(axis.position_of(START + 6 * MINUTE), 1000 - axis.position_of(START + 69 * 60 * MINUTE)) > 40


def test_a_span_knows_nothing_of_other_words() -> None:
    """Two standings are one span as long as only their words differ."""
    found = simulated(LinkPlatform(names=TEN[:4]))
    for track in found.tracks:
        pairs: list[tuple[TrackSpan, TrackSpan]] = list(zip(track.spans, track.spans[1:], strict=False))
        assert not any(after.state.continues(before.state) for before, after in pairs)
        assert all(before.ends == after.begins for before, after in pairs)
