"""What a graph decides, during random histories: equal to what is decided from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.comparing_step import comparing_steps
from tests.support.link_platform import GROUP, LinkPlatform, workers
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.happenings import NAMES, PLAIN, happens, plain
from tests.support.properties.meddling import STUCK
from tests.support.properties.reading_histories import READERS, reading_histories
from tests.support.properties.repositories import config_map, repositories

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
    assert comparing.renderings > len(history)


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
    assert comparing.renderings > len(history)


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
    assert comparing.renderings > len(steps)


NIGHTS: Final[dict[str, Any]] = {
    "kind": "Allow",
    "timeZone": "UTC",
    "schedule": {"cron": "0 22 * * *"},
    "until": "23:00",
}
FREEZE: Final[dict[str, Any]] = {
    "kind": "Deny",
    "timeZone": "UTC",
    "schedule": {"cron": "40 22 * * *"},
    "duration": "10m",
    "selector": {"instances": {"matchLabels": {"tier": "x"}}},
    "drain": "Level",
}
PACED: Final = {"shape": {"linear": {"n": 2}}, "bake": "10m", "barrier": "Level"}
GATES: Final = ["${inWindow('nights') && each.spec.text != 'kept'}"]
NODE_GATES: Final = ["${inWindow('nights') && (schema.spec.text != 'free' || now > timestamp('2026-11-21T22:35:00Z'))}"]
WORDS: Final = ["hold", "suspend", "break_glass_reason"]
LETTERS: Final = st.sampled_from(["a", "b", "c"])
HAPPENINGS = st.one_of(
    st.tuples(st.just("image"), st.sampled_from(["two", "three"])),
    st.tuples(st.sampled_from(["hour", "night", "freeze", "night"]), st.just("")),
    st.tuples(st.sampled_from([*WORDS, "release"]), st.sampled_from(["a", "b", "c", "p", "source"])),
    st.tuples(st.sampled_from(["ready", "unready", "kept", "free", "delete", "leave", "break glass in Git"]), LETTERS),
    st.tuples(st.just("plain"), st.sampled_from(["two", "three"])),
)


def go_on(fleet: LinkPlatform, what: str, name: str) -> None:
    """Let something happen to a fleet with gates and windows."""
    until = (fleet.clock.moment + timedelta(hours=2)).isoformat()
    is_deployed = f"{name}-app" in fleet.deployed_names()
    match what:
        case "image":
            fleet.push(name)
        case "hour":
            fleet.clock.moment += timedelta(hours=1)
        case "night" | "freeze":
            later = fleet.clock.moment.replace(hour=22, minute=30 if what == "night" else 45)
            fleet.clock.moment = max(fleet.clock.moment, later)
        case "ready" | "unready" if is_deployed:
            fleet.ready(name, ready=what == "ready")
        case "delete" if is_deployed:
            fleet.request("DELETE", f"/apis/apps/v1/namespaces/default/deployments/{name}-app")
        case "plain":
            fleet.plain = {"p": plain("p", name)}
            fleet.push()
        case "leave":
            fleet.names = tuple(one for one in fleet.names if one != name)
            fleet.push()
        case "ready" | "unready" | "delete":
            pass
        case "kept" | "free":
            fleet.written[name] = {**fleet.written.get(name, {}), "text": what}
            fleet.push()
        case "break glass in Git":
            said = {well_known.BREAK_GLASS_REASON: "because", well_known.BREAK_GLASS_UNTIL: until}
            metadata = {**fleet.written.get(name, {}).get("metadata", {}), "annotations": said}
            fleet.written[name] = {**fleet.written.get(name, {}), "metadata": metadata}
            fleet.push()
        case _:
            words = {what: "because"} | ({"break_glass_until": until} if what == "break_glass_reason" else {})
            paths = {"source": fleet.record_path(), "p": "/api/v1/namespaces/default/configmaps/p"}
            found = paths.get(name, f"/apis/{GROUP}/v1/namespaces/default/links/{name}")
            if fleet.find(found):
                fleet.put(found, **(dict.fromkeys((*WORDS, "break_glass_until")) if what == "release" else words))


@pytest.fixture(scope="module")
def gated() -> Iterator[Copies]:
    """Copies of a settled fleet whose changes wait for gates, windows and a pace."""
    with LinkPlatform(names=("a", "b", "c")) as fleet:
        fleet.written["a"] = {"metadata": {"labels": {"tier": "x"}}}
        fleet.plain = {"p": plain("p", "one")}
        fleet.start(nights=NIGHTS, freeze=FREEZE, paced=PACED)
        numbered = config_map("copies", name="${schema.metadata.name}-${n}", forEach=[{"n": "${['i', 'j', 'k', 'l']}"}])
        numbered["template"]["data"] = {"image": "IMAGE"}
        fleet.more = [workers("${linearlyReady(each, workers, 2)}"), numbered]
        fleet.gates, fleet.node_gates = GATES, NODE_GATES
        fleet.push()
        fleet.settle()
        assert fleet.step().problems == ()
        yield fleet.copied


def compare_decisions(gated: Copies, steps: list[list[tuple[str, str]]]) -> None:
    """Let these things happen, with two reconciliations after each step, and compare all decisions."""
    with comparing_steps() as comparing, gated() as fleet:
        fleet.step()
        for happenings in steps:
            for what, name in happenings:
                go_on(fleet, what, name)
            fleet.step(timedelta(minutes=1))
            fleet.step(timedelta(minutes=5))
    assert comparing.decisions > len(steps)


@pytest.mark.parametrize(
    "steps",
    [
        [["night:", "image:two"], ["hour:"], ["ready:a", "ready:b"], ["hour:"], ["ready:c"]],
        [["freeze:", "image:two"], ["ready:a"], ["hour:", "ready:b"]],
        [
            ["break_glass_reason:a", "image:two"],
            ["hour:"],
            ["image:three"],
            ["hour:", "ready:a"],
            ["hour:", "image:two"],
        ],
        [["break_glass_reason:source", "plain:two"], ["hour:"], ["hour:"], ["plain:three"], ["hour:"]],
        [["break glass in Git:b", "image:two"], ["hour:"], ["hour:"], ["hour:", "image:three"]],
        [["night:", "image:two"], ["leave:a"], ["hour:", "leave:b"], ["freeze:", "leave:c"]],
    ],
)
def test_the_graph_permits_what_had_begun_and_what_a_break_glass_passes(gated: Copies, steps: list[list[str]]) -> None:
    """Until the time at which a drain or a break-glass ends."""
    told = [[(what, name) for what, _, name in (one.rpartition(":") for one in step)] for step in steps]
    compare_decisions(gated, told)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(HAPPENINGS, min_size=1, max_size=3), min_size=1, max_size=5))
def test_the_graph_permits_what_is_permitted_from_scratch(gated: Copies, steps: list[list[tuple[str, str]]]) -> None:
    """Over gates of instances and of nodes, a pace, windows, and what people ask of instances and of the source."""
    compare_decisions(gated, steps)


ROLLING: Final[dict[str, Any]] = {
    "shape": {"linear": {"n": 1}},
    "bake": "5m",
    "progressDeadline": "15m",
    "maxFlaps": 0,
    "maxFailures": 1,
    "minAvailable": 1,
    "order": "ShufflePerRevision",
    "onHalt": "RollBack",
    "onNewRevision": "Finish",
    "newInstances": "LastCompleted",
    "waves": [
        {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "windows": ["days"], "bake": "2m"},
        {"name": "prod", "selector": {"matchLabels": {"tier": "prod"}}},
    ],
    "approvals": [{"after": {"wave": "canary"}}],
}
DAYS: Final = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 6 * * *"}, "until": "22:00"}
OTHER: Final = {"shape": {"linear": {"n": 2}}, "selector": {"instances": {"matchLabels": {"tier": "prod"}}}}
TIERS: Final = ("canary", "prod", "prod", "rest")
STEERING = st.one_of(
    st.tuples(st.just("image"), st.sampled_from(["two", "three"])),
    st.tuples(st.sampled_from(["minutes", "hours"]), st.just("")),
    st.tuples(
        st.sampled_from(["ready", "ready", "unready", "priority", "tier", "new", "anew"]), st.sampled_from("abcd")
    ),
    st.tuples(
        st.sampled_from(["halt", "resume", "approve_after", "approve_all"]), st.sampled_from(["because", "canary", ""])
    ),
    st.tuples(st.sampled_from(["halt in Git", "rules", "rename", "latest"]), st.sampled_from(["on", "off"])),
)


def steer(fleet: LinkPlatform, what: str, name: str) -> None:
    """Let something happen to a fleet whose rollout has waves."""
    match what:
        case "image":
            fleet.push(name)
        case "minutes" | "hours":
            fleet.clock.moment += timedelta(**{what: 5})
        case "ready" | "unready":
            if f"{name}-app" in fleet.deployed_names():
                fleet.ready(name, ready=what == "ready")
        case "priority":
            if fleet.status(name):
                fleet.annotate(name, priority="5")
        case "tier":
            fleet.written[name] = {"metadata": {"labels": {"tier": "prod"}}}
            fleet.push()
        case "new":
            fleet.names = (*fleet.names, f"{name}{len(fleet.names)}")
            fleet.push()
        case "anew":
            path = f"/apis/{GROUP}/v1/namespaces/default/links/{name}"
            if fleet.find(path):
                fleet.request("DELETE", path)
        case "halt in Git":
            # A rollback takes back the halt in Git, because no target is left to halt, and the halt rolls back again.
            fleet.about = {"levelgate.dev/halt": "because"} if name == "on" else {}
            fleet.push(rolling={**ROLLING, "onHalt": "Stop" if name == "on" else "RollBack"})
        case "rules":
            fleet.push(others=OTHER if name == "on" else None, again=OTHER if name == "on" else None)
        case "rename":
            fleet.push(others=OTHER if name == "on" else None)
        case "latest":
            fleet.push(rolling={**ROLLING, "newInstances": "Latest", "onNewRevision": "Supersede", "onHalt": "Stop"})
        case "approve_all":
            fleet.order(approve_after="canary")
        case _:
            fleet.order(**{what: name})


@pytest.fixture(scope="module")
def rolling() -> Iterator[Copies]:
    """Copies of a settled fleet whose rollout has waves."""
    names = ("a", "b", "c", "d")
    with LinkPlatform(names=names) as fleet:
        fleet.written = {
            name: {"metadata": {"labels": {"tier": tier}}} for name, tier in zip(names, TIERS, strict=True)
        }
        fleet.start(days=DAYS, rolling=ROLLING)
        fleet.settle()
        yield fleet.copied


@settings(max_examples=12, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(STEERING, min_size=1, max_size=3), min_size=2, max_size=6))
def test_the_graph_rolls_out_what_is_rolled_out_from_scratch(
    rolling: Copies, steps: list[list[tuple[str, str]]]
) -> None:
    """Over waves, bakes, deadlines, failures, halts, requests, conflicts of policies, and new instances."""
    with comparing_steps() as comparing, rolling() as fleet:
        fleet.push("two")
        fleet.step()
        for events in steps:
            for what, name in events:
                steer(fleet, what, name)
            fleet.step(timedelta(minutes=1))
            fleet.step(timedelta(minutes=6))
    assert comparing.decisions > len(steps)
