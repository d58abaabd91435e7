"""What is told as an Event: on transitions only, in words of the vocabulary, bounded (surface 3.3; docs/people.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from applier.causes import EventReason, Reason
from applier.execute.results import Result
from gitops.reconcile.events import event
from gitops.records.source_record import SourceRecord
from gitops.records.transitions import (
    MAX_TRANSITIONS,
    Transition,
    TransitionSubject,
    instance_transitions,
    limit_transitions,
    source_transitions,
)
from renderer.identity import ObjectKey
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE
from tests.support.windows.calendars import HOURS, SATURDAY

LINK = {"apiVersion": "g.test/v1", "kind": "Link", "metadata": {"name": "a", "namespace": "default", "uid": "u"}}
ABOUT = TransitionSubject(LINK, "platform", "c1")
CHILD = ObjectKey("", "ConfigMap", "default", "x")


def row(reason: str, node: str = "") -> dict[str, object]:
    return {"reason": reason, "message": "why", "node": node}


def status(propagated: str, *rows: dict[str, object]) -> dict[str, object]:
    conditions = [{"type": "Propagated", "reason": propagated}]
    return {"conditions": conditions, "levelgate": {"blocked": list(rows)}}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, status("Settled"), ["Settled"]),
        (status("Settled"), status("Settled"), []),
        (status("Settled"), status("WindowClosed", row("WindowClosed")), ["Blocked"]),
        (status("WindowClosed", row("WindowClosed")), status("WindowClosed", row("WindowClosed")), []),
        (status("WindowClosed", row("WindowClosed")), status("Progressing"), ["Unblocked"]),
        (status("Settled"), status("PaceReached", row("PaceReached")), []),
        (status("Settled"), status("Halted", row("Halted")), []),
        (status("Progressing"), status("ApplyFailed", row("ApplyFailed", "app")), ["ApplyFailed"]),
        (status("Progressing"), status("DeletionBlocked", row("DeletionBlocked")), ["DeletionBlocked"]),
        (status("ApplyFailed", row("ApplyFailed")), status("Settled"), ["Unblocked", "Settled"]),
        ({}, {"conditions": [{"type": "InstanceManaged", "reason": "NotInGit"}]}, ["NotInGit"]),
    ],
)
def test_an_instance_tells_what_has_changed(
    before: dict[str, object], after: dict[str, object], words: list[str]
) -> None:
    assert [str(one.event_reason) for one in instance_transitions(ABOUT, before, after, ())] == words


def test_many_objects_are_one_event() -> None:
    results = [Result(CHILD, CHILD._replace(name=f"x{number}"), "created", 0) for number in range(9)]
    (found,) = instance_transitions(ABOUT, {}, {}, results)
    assert (found.event_reason, found.message) == (
        EventReason.UPDATED,
        "ConfigMap/x0 created, ConfigMap/x1 created, ConfigMap/x2 created and 6 more",
    )


def test_servers_take_the_event_of_a_long_name_and_a_long_message() -> None:
    """A name is a DNS subdomain, also where it is cut; a note has at most 1024 bytes, whatever its letters (events.k8s.io/v1)."""
    key = ObjectKey("kro.run", "Webapp", "prod", f"{'a' * 198}-.b")
    said = Transition(EventReason.SETTLED, "ü" * 1000, key, "kro.run/v1alpha1", "uid", "platform", "")
    made = event(said, SATURDAY)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", made["metadata"]["name"])
    assert made["note"] == "ü" * 500


def test_a_source_tells_its_commits_and_what_holds_it() -> None:
    one = SourceRecord(target="a" * 40, state="Settled")
    two = SourceRecord(target="b" * 40, state="Held", causes=(row("HistoryRewritten"),))
    assert [str(one.event_reason) for one in source_transitions(ABOUT, SourceRecord(), one, ())] == [
        "Updated",
        "Settled",
    ]
    assert [(str(found.event_reason), found.is_warning) for found in source_transitions(ABOUT, one, two, ())] == [
        ("Updated", False),
        ("HistoryRewritten", True),
    ]
    assert list(source_transitions(ABOUT, two, two, ())) == []


def test_a_pass_tells_of_a_hundred_and_of_warnings_first() -> None:
    many: list[Transition] = [ABOUT(EventReason.UPDATED, str(number)) for number in range(300)]
    found = limit_transitions([*many, ABOUT(Reason.APPLY_FAILED, "no")])
    assert len(found) == MAX_TRANSITIONS + 1
    assert found[0].event_reason is Reason.APPLY_FAILED
    assert found[-1].message == "99 (and 200 more, not reported one by one)"
    assert len(limit_transitions(many[:MAX_TRANSITIONS])) == MAX_TRANSITIONS


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        yield found


def told(fleet: LinkPlatform) -> list[tuple[str, str]]:
    """Reason and object of every Event, as kubectl sees them."""
    found = fleet.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    ordered = sorted(found, key=lambda one: one["eventTime"])
    assert {one["reason"] for one in ordered} <= {*EventReason, *Reason}
    return [(one["reason"], one["regarding"]["name"]) for one in ordered if one["reportingController"] == "levelgate"]


def test_the_life_of_an_instance_in_events(fleet: LinkPlatform) -> None:
    before = told(fleet)
    assert {("Updated", "a"), ("Settled", "a"), ("Updated", "source-platform"), ("Settled", "source-platform")} <= {
        *before
    }
    fleet.clock.moment = SATURDAY
    fleet.push("two", hours=HOURS)
    fleet.step()
    fleet.step(timedelta(minutes=1))
    new = told(fleet)[len(before) :]
    assert sorted(new) == [("Blocked", "a"), ("Blocked", "b"), ("Updated", "source-platform")]
    until = (SATURDAY + timedelta(hours=1)).isoformat()
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until=until)
    fleet.step(timedelta(minutes=1))
    assert ("BreakGlassUsed", "source-platform") in told(fleet)[len(before) + 3 :]


def test_a_restart_tells_nothing_again(fleet: LinkPlatform) -> None:
    before = told(fleet)
    fleet.restart()
    fleet.step(timedelta(minutes=1))
    assert told(fleet) == before


def test_a_repair_says_what_made_it_necessary(fleet: LinkPlatform) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/a-app"
    fleet.request("PATCH", f"{path}?fieldManager=ada", {"metadata": {"annotations": {"text": None}}}, MERGE)
    fleet.step(timedelta(minutes=1))
    found = fleet.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    (healed,) = [one for one in found if one["reason"] == "Healed"]
    assert healed["regarding"]["name"] == "a"
    assert "Deployment/a-app healed (.metadata.annotations.text is removed)" in healed["note"]


def test_a_cluster_that_takes_no_events_gets_all_else() -> None:
    """The roles of the cluster let Levelgate write no Events."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", plural="events")]
        fleet.start()
        assert fleet.request("GET", "/apis/events.k8s.io/v1/events")["items"] == []
        assert fleet.waits() == {"a": "Settled"}
