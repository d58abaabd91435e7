"""What people ask of plain objects and sources, as the records remember it, and through crashes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gitops.records.pass_history import parse_passes
from tests.support.clock import START
from tests.support.kill_points import deaths
from tests.support.link_platform import LinkPlatform
from tests.support.platform import OWN
from tests.support.windows.calendars import NIGHT

PLAIN = "/api/v1/namespaces/default/configmaps/plain"
SOURCE = f"{OWN}/source-platform"


def plain(text: str, **annotations: str) -> dict[str, Any]:
    said = {f"levelgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "plain", "namespace": "default", "annotations": said}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a",)) as found:
        found.plain["plain"] = plain("one")
        found.start()
        yield found


def pushed(fleet: LinkPlatform, text: str) -> None:
    fleet.plain["plain"] = plain(text)
    fleet.push()


def text(fleet: LinkPlatform) -> str:
    return str(fleet.request("GET", PLAIN)["data"]["text"])


@pytest.mark.parametrize("path", [PLAIN, SOURCE])
def test_a_hold_lapses_three_days_after_it_was_first_seen(fleet: LinkPlatform, path: str) -> None:
    """The record remembers since when, over restarts, and forgets it with the annotation."""
    fleet.put(path, hold="INC-7")
    fleet.step()
    assert [seen["hold"]["said"] for seen in fleet.record().requests.values()] == ["INC-7"]
    pushed(fleet, "two")
    fleet.restart()
    fleet.step(after=timedelta(hours=71))
    assert text(fleet) == "one"
    fleet.step(after=timedelta(hours=1))
    assert text(fleet) == "two"
    fleet.put(path, hold=None)
    fleet.step()
    assert fleet.record().requests == {}
    assert fleet.step().changed == 0


def test_a_held_object_that_is_at_rest_causes_no_write(fleet: LinkPlatform) -> None:
    """I7: it is told once."""
    fleet.put(PLAIN, hold="INC-7", hold_until=(START + timedelta(hours=2)).isoformat())
    fleet.step()
    told = [(row["reason"], row["object"]) for row in fleet.record().causes]
    assert told == [("Held", "ConfigMap/default/plain")]
    assert fleet.record().state == "Settled"
    assert fleet.step(after=timedelta(minutes=1)).changed == 0
    fleet.step(after=timedelta(hours=2))
    assert fleet.record().causes == ()


def test_killed_at_every_write_what_passes_a_window_is_recorded_before_it_is_written(fleet: LinkPlatform) -> None:
    """I5: there is no change outside of a window of which nobody can read who let it pass."""
    fleet.push(night=NIGHT)
    fleet.step()
    pushed(fleet, "two")
    fleet.put(PLAIN, break_glass_reason="INC-7", break_glass_until=(START + timedelta(hours=1)).isoformat())
    for copy, death in deaths(fleet, LinkPlatform.step):
        assert text(copy) == "one" or "INC-7" in reasons(copy), death
        copy.step()
        assert (text(copy), reasons(copy)) == ("two", ["INC-7"]), death
    fleet.step()
    assert (text(fleet), reasons(fleet)) == ("two", ["INC-7"])


def reasons(fleet: LinkPlatform) -> list[str]:
    """Return the reasons that people gave, by the passes in the record of the source."""
    return [word.why for one in parse_passes(fleet.record().passes) for word in one.words]


def test_an_instance_that_a_person_holds_is_not_deleted(fleet: LinkPlatform) -> None:
    """docs/people.md: no pruning."""
    fleet.annotate("a", hold="a game is running")
    fleet.step()
    fleet.names = ()
    fleet.push()
    fleet.step()
    assert fleet.deployed_names() == ["a-app"]
    fleet.annotate("a", hold=None)
    fleet.step()
    fleet.step()
    assert fleet.deployed_names() == []
