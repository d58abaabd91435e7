"""What a graph decides, during random histories: equal to what is decided from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.identity import ObjectKey
from tests.support.comparing_step import comparing_steps
from tests.support.link_platform import LinkPlatform
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.happenings import NAMES, PLAIN, happens, plain
from tests.support.properties.meddling import STUCK
from tests.support.properties.reading_histories import READERS, reading_histories
from tests.support.properties.repositories import repositories

Copies = Callable[[], AbstractContextManager[LinkPlatform]]
EVENTS = st.one_of(
    st.tuples(
        st.sampled_from(["delete", "unready", "ready", "commit", "edit", "label", "delete instance"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.sampled_from(["delete plain", "edit plain", "commit plain"]), st.sampled_from(PLAIN)),
    st.tuples(st.just("remove from Git"), st.sampled_from((*NAMES, *PLAIN))),
)


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_the_graph_decides_what_is_decided_from_scratch(history: Sequence[Files], instant: bool) -> None:
    """Over commits, and over the rounds and passes of each, with controllers at work."""
    with comparing_steps() as comparing, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []
    assert comparing.plans > len(history)


@examples(6)
@given(history=reading_histories(), stuck=st.sampled_from(["", *READERS]))
def test_the_graph_orders_the_deletions_of_objects_that_are_read(history: list[Files], stuck: str) -> None:
    """Also while a reader has a finalizer, so that what it reads waits."""
    with comparing_steps() as comparing, CheckedPlatform() as platform:
        for number, files in enumerate(history):
            platform.commit(files)
            platform.settle(anew=False)
            hanging = ObjectKey("", "ConfigMap", "default", f"{stuck}-c")
            if number == 0 and hanging in platform.cluster.objects:
                platform.cluster.edit(hanging, lambda obj: obj["metadata"].update(finalizers=[STUCK]))
    assert comparing.plans > len(history)


def remove(fleet: LinkPlatform, name: str) -> None:
    """Commit that the source declares `name` no longer."""
    fleet.written = {other: spec for other, spec in fleet.written.items() if other != name}
    fleet.plain = {other: obj for other, obj in fleet.plain.items() if other != name}
    fleet.push()


@pytest.fixture(scope="module")
def settled() -> Iterator[Copies]:
    """Copies of one settled fleet."""
    with LinkPlatform(names=NAMES, plain={name: plain(name, "one") for name in PLAIN}) as fleet:
        fleet.start()
        fleet.available("web")
        fleet.step()
        yield fleet.copied


@settings(max_examples=10, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_graph_follows_what_happens_to_a_fleet(settled: Copies, steps: list[list[tuple[str, str]]]) -> None:
    """Over drift, deletions and commits of people, with a rollout of a Deployment for each instance."""
    with comparing_steps() as comparing, settled() as fleet:
        fleet.step()
        for events in steps:
            for what, name in events:
                if what == "remove from Git":
                    remove(fleet, name)
                elif name in fleet.written or name in fleet.plain:
                    happens(fleet, what, name)
            fleet.settle()
    assert comparing.plans > len(steps)
