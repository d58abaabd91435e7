"""S3-8: two clusters of one fleet, in process, whose revisions are numbered by one hub before they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from applier.errors import Unavailable
from gitops.fleet.revision_numbers import NumbersBySource, issue_number
from renderer import well_known
from renderer.identity import GroupKind
from renderer.render.model import NewRevision
from tests.support.link_platform import LinkPlatform

REVISIONS = "/apis/apps/v1/namespaces/levelgate-system/controllerrevisions"


@dataclass
class Hub:
    """Gives numbers, and none while it `is_down`; `asked` is how often."""

    numbers: NumbersBySource = field(default_factory=dict)
    is_down: bool = False
    asked: int = 0

    async def number(self, revisions: Sequence[NewRevision]) -> Mapping[GroupKind, int]:
        await asyncio.sleep(0)
        self.asked += 1
        if self.is_down:
            raise Unavailable("the hub does not answer")
        for one in revisions:
            self.numbers = issue_number(self.numbers, one)
        return {one.kind: self.numbers[one.source].number_of(one.kind, one.digest) for one in revisions}


@dataclass
class Two:
    first: LinkPlatform
    second: LinkPlatform
    hub: Hub


@pytest.fixture
def two() -> Iterator[Two]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(LinkPlatform(names=("a",), gates=[])) for _ in range(2))
        hub = Hub()
        first.reconciler.numbering = second.reconciler.numbering = hub
        yield Two(first, second, hub)


def numbers(fleet: LinkPlatform) -> dict[int, str]:
    """The digest of each stored revision, by its number."""
    found: dict[int, str] = {}
    for item in fleet.request("GET", REVISIONS)["items"]:
        if item["metadata"]["labels"][well_known.RECORD] == "definition":
            annotations = item["metadata"]["annotations"]
            found[int(annotations[well_known.REVISION])] = annotations[well_known.HASH]
    return found


def test_a_cluster_that_comes_late_has_the_numbers_of_the_others(two: Two) -> None:
    two.first.start()
    two.first.push("2")
    two.first.settle()
    assert sorted(numbers(two.first)) == [1, 2]
    two.second.push("2")
    two.second.settle()
    assert numbers(two.second) == {2: numbers(two.first)[2]}


def test_without_the_hub_nothing_new_begins_and_the_revision_before_serves_on(two: Two) -> None:
    """What a number cannot be had for says why, and goes on as soon as the hub is back."""
    two.first.start()
    before = numbers(two.first)
    two.hub.is_down = True
    two.first.push("2")
    result = two.first.step()
    assert "the hub does not answer" in " ".join(problem.message for problem in result.bundle.problems)
    assert numbers(two.first) == before
    two.hub.is_down = False
    two.first.settle()
    assert sorted(numbers(two.first)) == [1, 2]


def test_nobody_is_asked_for_a_content_that_the_cluster_has(two: Two) -> None:
    """A number of the hub is no reason to write anything: whoever has r13 keeps r13."""
    two.first.start()
    two.first.settle()
    two.hub.numbers, two.hub.asked = {}, 0
    two.first.step()
    two.first.restart()
    two.first.reconciler.numbering = two.hub
    result = two.first.step()
    assert (two.hub.asked, result.changed) == (0, 0)
