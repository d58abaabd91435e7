"""What the record of a source keeps of the passes that did something (docs/people.md, "What a commit did")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from applier.causes import Cause, Reason
from applier.errors import Invalid
from applier.execute.results import Result
from gitops.records import pass_history
from gitops.records.pass_history import (
    MAX_LISTED_PER_PASS,
    MAX_PASSES,
    MAX_TOTAL_BYTES,
    PassActivity,
    append_pass,
    parse_passes,
)
from gitops.rollouts.state import DecisionRecord
from renderer.identity import ObjectKey, source_parent
from tests.support.link_platform import LinkPlatform
from tests.support.platform import OWN
from tests.support.windows.calendars import HOURS, SATURDAY

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOURCE = source_parent("platform")
SHOP = ObjectKey("g.test", "Link", "prod", "shop")
CHILD = ObjectKey("", "ConfigMap", "prod", "shop-config")


def happened(*results: Result, holds: list[pass_history.SetObstacle] | None = None) -> PassActivity:
    return PassActivity(results, frozenset({SOURCE}), frozenset({SHOP}), holds or ())


def after(text: str, what: PassActivity, *, commit: str = "c1", state: str = "Settled", minutes: int = 0) -> str:
    return append_pass(text, what, commit=commit, state=state, now=NOON + timedelta(minutes=minutes))


def test_a_pass_that_did_nothing_leaves_no_trace() -> None:
    """Rule 5: a world at rest causes no write. Bookkeeping is no deed."""
    first = after("", happened())
    covered = Result(SHOP, SHOP, "covered")
    foreign = Result(SHOP._replace(name="other"), CHILD, "updated")
    assert after(first, happened(covered, foreign), minutes=1) == first
    assert [one.state for one in parse_passes(first)] == ["Settled"]


def test_a_failure_is_told_once_for_each_commit() -> None:
    """I11: a write that is refused at every pass does not fill the record."""
    refused = happened(Result(SHOP, CHILD, "updated", 0, "config", error=Invalid("no such field")))
    first = after("", refused)
    assert after(first, refused, minutes=1) == first
    assert [one.deeds[0].error for one in parse_passes(after(first, refused, commit="c2"))] == ["no such field"] * 2


def test_what_goes_with_an_instance_belongs_to_its_source() -> None:
    """The instance is no part of the source any more when its children go, one pass later."""
    gone, its = SHOP._replace(name="gone"), CHILD._replace(name="gone-config")
    first = after("", happened(Result(SOURCE, gone, "deleted", 1)))
    second = after(first, happened(Result(gone, its, "deleted", 0, "config")), minutes=1)
    assert parse_passes(second)[-1].deeds == (pass_history.RecordedAction(str(gone), str(its), "deleted", 0, "config"),)


def test_a_gate_is_met_once_and_waiting_for_ones_turn_is_no_gate() -> None:
    window = Cause(Reason.WINDOW_CLOSED, "waits for window hours", node="database")
    pace = Cause(Reason.PACE_REACHED, "8th of 8")
    holds: list[pass_history.SetObstacle] = [(SHOP, window), (SHOP, pace)]
    first = after("", happened(holds=holds), state="Held")
    assert [one.reason for one in parse_passes(first)[0].met] == ["WindowClosed"]
    assert after(first, happened(holds=holds), state="Held", minutes=9) == first


def test_the_oldest_passes_go_where_the_record_has_room_for_fewer() -> None:
    """A source of very many instances needs the room for them; a pass that did nothing frees it as well."""
    text = ""
    for number in range(9):
        text = after(text, happened(Result(SHOP, CHILD, "updated", 0, "config")), commit=f"c{number}", minutes=number)
    fewer = append_pass(text, happened(), commit="c8", state="Settled", now=NOON, max_bytes=len(text) // 2)
    assert 0 < len(fewer) <= len(text) // 2
    assert [one.commit for one in parse_passes(fewer)][-2:] == ["c8", "c8"]
    assert append_pass(fewer, happened(), commit="c8", state="Settled", now=NOON, max_bytes=len(text) // 2) == fewer


def test_a_thousand_gates_are_told_once_as_far_as_there_is_room() -> None:
    closed = Cause(Reason.WINDOW_CLOSED, "waits")
    holds: list[pass_history.SetObstacle] = [
        (SHOP._replace(name=f"i{number}"), closed) for number in range(MAX_LISTED_PER_PASS + 200)
    ]
    first = after("", happened(holds=holds), state="Held")
    assert len(parse_passes(first)[0].met) == MAX_LISTED_PER_PASS
    assert after(first, happened(holds=holds), state="Held", minutes=1) == first


def test_it_is_bounded_in_number_and_in_size() -> None:
    """surface 3.1: the last 50, in at most 256 KiB."""
    text = ""
    for number in range(MAX_PASSES + 5):
        text = after(text, happened(), commit=f"c{number}", minutes=number)
    assert [one.commit for one in parse_passes(text)] == [f"c{number}" for number in range(5, MAX_PASSES + 5)]
    many = [Result(SHOP, CHILD._replace(name="n" * 200 + str(number)), "created", 0, "x") for number in range(400)]
    for number in range(9):
        text = after(text, happened(*many), commit=f"big{number}", minutes=100 + number)
    assert len(text.encode()) <= MAX_TOTAL_BYTES
    last = parse_passes(text)[-1]
    assert (last.commit, len(last.deeds), last.more) == ("big8", MAX_LISTED_PER_PASS, 400 - MAX_LISTED_PER_PASS)


def test_what_stands_in_passes_that_are_dropped_is_not_taken_for_new_for_ever() -> None:
    """I7: sixty gates, refused writes and approvals, met one after the other and all still standing, cause no write at rest."""
    closed = Cause(Reason.WINDOW_CLOSED, "waits")
    holds: list[pass_history.SetObstacle] = [
        (SHOP._replace(name=f"i{number}"), closed) for number in range(MAX_PASSES + 10)
    ]
    refused = [
        Result(SHOP, CHILD._replace(name=f"i{n}"), "updated", error=Invalid("no")) for n in range(MAX_PASSES + 10)
    ]
    words = [DecisionRecord(NOON, "approved", "commit c1", "ada")]
    text = ""
    for number in range(MAX_PASSES + 10):
        known = PassActivity(refused[: number + 1], frozenset({SHOP}), (), holds[: number + 1], words)
        text = after(text, known, minutes=number)
    assert len(parse_passes(text)) == MAX_PASSES
    assert {one.set for passed in parse_passes(text) for one in passed.met} == {str(key) for key, _ in holds}
    assert {deed.object for passed in parse_passes(text) for deed in passed.deeds} == {str(one.key) for one in refused}
    assert [one.what for passed in parse_passes(text) for one in passed.words] == ["approved"]
    assert after(text, known, minutes=MAX_PASSES + 10) == text


@pytest.mark.parametrize("text", ["{", "7", '[{"at": "soon"}]', '[{"at": "2026-11-20T12:00:00Z", "deeds": [7]}]'])
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    assert parse_passes(text) == ()
    assert len(parse_passes(after(text, happened()))) == 1


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        yield found


def kept(fleet: LinkPlatform) -> tuple[pass_history.PassRecord, ...]:
    return parse_passes(fleet.record().passes)


def test_a_commit_from_its_first_write_until_it_has_settled(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.push("two")
    fleet.move("two")
    mine = [one for one in kept(fleet) if one.commit == fleet.state.catalog.commit]
    deeds = [(deed.object, deed.action, deed.level) for one in mine for deed in one.deeds]
    assert ("Deployment.apps/default/a-app", "updated", 0) in deeds
    assert ("ConfigMap/default/a-app", "updated", 1) in deeds
    assert (mine[0].state, mine[-1].state) == ("Waiting", "Settled")
    before = fleet.writes
    fleet.step(timedelta(hours=1))
    assert fleet.writes == before


@pytest.mark.parametrize(("signed", "by"), [({}, "kubectl-annotate"), ({"break_glass_by": "ada"}, "ada")])
def test_who_went_past_which_window_stands_with_the_commit(
    fleet: LinkPlatform, signed: dict[str, str], by: str
) -> None:
    """surface 5.2: gates met, overrides; by the name that is given with the word, else by the field manager that gave it."""
    fleet.start()
    fleet.clock.moment = SATURDAY
    fleet.push("two", hours=HOURS)
    fleet.step()
    until = (SATURDAY + timedelta(hours=1)).isoformat()
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until=until, **signed)
    fleet.step()
    mine = [one for one in kept(fleet) if one.commit == fleet.state.catalog.commit]
    assert {(one.set, one.reason) for passed in mine for one in passed.met} >= {
        (f"Link.g.test/default/{name}", "WindowClosed") for name in "ab"
    }
    words = [one for passed in mine for one in passed.words]
    assert {(one.what, one.by, one.why) for one in words} == {("overridden", by, "INC-7")}
    fleet.step()
    assert [one for passed in kept(fleet) for one in passed.words] == words


def test_an_approval_of_a_commit_is_told_with_who_gave_it(fleet: LinkPlatform) -> None:
    fleet.start()
    said = {"approved_commit": fleet.state.catalog.commit, "requested_by": "ada"}
    fleet.put(f"{OWN}/source-platform", **said)
    fleet.step()
    words = [one for passed in kept(fleet) for one in passed.words]
    assert [(one.what, one.by) for one in words] == [("approved", "ada")]


def test_the_text_is_that_of_a_configmap(fleet: LinkPlatform) -> None:
    fleet.start()
    data = fleet.request("GET", f"{OWN}/source-platform")["data"]
    assert all(isinstance(text, str) for text in data.values())
    assert {"at", "commit", "state"} <= orjson.loads(data["passes"])[0].keys()
