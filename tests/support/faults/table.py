"""What the tests of the fault table share: what a cluster, and the people and programs in it, do to one process of Levelgate.

Each test ends as every fault must: once it is over, the state is that of a run that was left alone, and then nothing is written (I7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.faults.kills import differences
from tests.support.faults.lane import Commit, Lane, Object, PathKey, essence
from tests.support.faults.observer import ObservedHistory, violations
from tests.support.faults.scenarios import CHAIN, graph, instance

NOWHERE = "https://127.0.0.1:1/"


def platform(lane: Lane, needs: Mapping[str, str] = CHAIN, *, text: str = "one", **more: Any) -> Commit:
    """A chain A, B, C, D with `z` that nothing uses."""
    return {"git": {"chain.json": graph(lane, {"z": "", **needs}, **more), "one.json": instance(lane, text=text)}}


async def settled(lane: Lane, commit: Commit) -> dict[PathKey, Object]:
    """Brought to this commit without faults, and at rest; its state."""
    await lane.commit(commit)
    life = await lane.live()
    assert life.error is None, life.error
    assert await lane.quiet(passes=1) == []
    return await lane.objects()


async def reference(lane: Lane, *commits: Commit) -> dict[PathKey, Object]:
    """What these commits come to without faults."""
    for commit in commits:
        found = await settled(lane, commit)
    return found


async def assert_settles(lane: Lane, wanted: Mapping[PathKey, Object]) -> None:
    """I7: a new process, without faults, comes to this state, and then there is nothing to write for five passes."""
    life = await lane.live()
    assert life.error is None, life.error
    found, expected = essence(await lane.objects()), essence(wanted)
    assert found == expected, differences(found, expected)
    assert await lane.quiet() == []


def broken(
    lane: Lane, start: Mapping[PathKey, Object], since: int, target: Mapping[PathKey, Object], **options: Any
) -> list[str]:
    events = lane.events(since)
    return violations(ObservedHistory.of(start, events), events, target=target, **options)


def deleted(lane: Lane, since: int, resource: str = "configmaps") -> list[str]:
    """Names of what Levelgate deleted, in the order in which the server received it; requests that had no effect too."""
    events = sorted(lane.events(since), key=lambda event: event.time)
    return [e.name for e in events if (e.user, e.verb, e.resource) == ("levelgate", "delete", resource)]


async def names(lane: Lane) -> set[str]:
    found = await lane.objects()
    return {key.name for key in found if key.resource == "configmaps" and key.namespace == lane.namespace}


def configmaps(lane: Lane) -> str:
    """Paths of the lane's ConfigMaps."""
    return f"/namespaces/{lane.namespace}/configmaps/"
