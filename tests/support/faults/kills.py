"""Kill the program at every write that it makes, at each of three moments, and see that it makes no difference.

For each point: bring the lane to the first commit, set the second, kill, look at what the server did, start again, look again. The end must be
that of a run that was left alone, and after it there must be nothing to write for five passes (I1 to I4, I7).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count

from tests.support.faults.lane import Commit, Lane, Object, PathKey
from tests.support.faults.observer import ObservedHistory, disturbed, unplaced, violations
from tests.support.faults.proxy import Kill, Moment, Rule
from tests.support.faults.scenarios import Scenario

MOST_WRITES = 80


@dataclass(frozen=True, slots=True)
class Point:
    """One place to die at, and what was found wrong with it."""

    scenario: str
    write: int
    moment: Moment
    violations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario}, write {self.write}, {self.moment}"


@dataclass
class KillBench:
    """One scenario in one lane. `changed` is how the program is changed in the runs that are killed, and after them."""

    scenario: Scenario
    lane: Lane
    changed: Callable[[], AbstractContextManager[object]] = nullcontext
    foreign: list[PathKey] = field(default_factory=list)
    targets: list[dict[PathKey, Object]] = field(default_factory=list)

    async def prepare(self) -> None:
        """Plants what is not ours, then runs cleanly to each commit: what is there afterwards is what every other run must come to."""
        self.lane.plurals = self.scenario.plurals
        self.commits = self.scenario.commits(self.lane)
        await self.to_the_first()
        first = await self.lane.objects()
        for commit in self.commits[1:]:
            await self._set(commit)
            assert not await self.lane.quiet(passes=1), (
                f"{self.scenario.name}: a run that nobody disturbed is not at rest"
            )
            self.targets.append(await self.lane.objects())
        self.first = self.lane.essence(first)

    async def points(self, *, moments: tuple[Moment, ...] = tuple(Moment)) -> AsyncIterator[Point]:
        """Every point, until a run has fewer writes than that."""
        for moment in moments:
            for write in count(1):
                point, killed = await self.point(write, moment)
                if not killed:
                    break
                yield point
                assert write < MOST_WRITES, f"{self.scenario.name} never gets to the end"

    async def point(self, write: int, moment: Moment) -> tuple[Point, bool]:
        """Kill at this point. Return False if the process makes fewer writes."""
        await self.to_the_first()
        with self.changed():
            return await self._killed(write, moment)

    async def _killed(self, write: int, moment: Moment) -> tuple[Point, bool]:
        found = self.lane.essence(await self.lane.objects())
        wrong = [] if found == self.first else [f"I7: back at the first commit: {differences(found, self.first)}"]
        await self.lane.commit(self.commits[1])
        start = await self.lane.objects()
        since = self.lane.audit.mark()
        if self.scenario.meddle:
            await self.scenario.meddle(self.lane)
        life = await self.lane.live(Rule(Kill(moment), nth=write))
        if not life.killed:
            return Point(self.scenario.name, write, moment), False
        wrong += self._judge(start, since, self.targets[0])
        for commit in self.commits[2:]:
            await self.lane.commit(commit)
        since = self.lane.audit.mark()  # first: what is being deleted may go while the objects are read
        middle = await self.lane.objects()
        again = await self.lane.live()
        wrong += [f"I7: the next start failed: {again.error}"] if again.error else []
        wrong += self._judge(middle, since, self.targets[-1])
        end = await self.lane.objects()
        found, wanted = self.lane.essence(end), self.lane.essence(self.targets[-1])
        if found != wanted:
            wrong.append(f"I7: {differences(found, wanted)}")
        untouched = [*self.foreign, self.lane.config_map("bystander")]
        wrong += unplaced(start, end, recreated=self.scenario.recreated) + disturbed(start, end, untouched)
        if left := await self.lane.quiet():
            wrong.append(f"I7: then it still writes {[f'{one.method} {one.path}' for one in left]}")
        return Point(self.scenario.name, write, moment, tuple(wrong)), True

    async def to_the_first(self) -> None:
        """Back to the first commit, and from nothing if the scenario says so."""
        if self.scenario.fresh or not self.targets:
            await self.lane.wipe()
            self.foreign = await plant(self.lane)
        await self._set(self.commits[0])

    async def _set(self, commit: Commit) -> None:
        await self.lane.commit(commit)
        life = await self.lane.live()
        assert life.error is None, life.error
        assert not life.killed
        assert not life.failures, f"{self.scenario.name}: a run that nobody disturbed fails: {life.failures}"

    def _judge(self, start: dict[PathKey, Object], since: int, target: dict[PathKey, Object]) -> list[str]:
        events = self.lane.events(since)
        return violations(
            ObservedHistory.of(start, events),
            events,
            target=target,
            foreign=self.foreign,
            parents_may_vanish=self.scenario.parents_may_vanish,
        )


async def plant(lane: Lane) -> list[PathKey]:
    """Objects of others that look like ours: by name, and by every label and annotation but without our writing them."""
    names = ("one-x", "two-a")
    for name in names:
        labels = {"levelgate.dev/instance": "one", "app": "looks-alike"}
        await lane.create({"metadata": {"name": name, "labels": labels}, "data": {"text": "theirs"}})
    return [lane.config_map(name) for name in names]


def differences(found: dict[PathKey, Object], wanted: dict[PathKey, Object]) -> str:
    """Return the differences between two worlds, one line each."""
    return "; ".join(
        f"{key}: {_difference(found.get(key), wanted.get(key))}"
        for key in sorted(found.keys() | wanted.keys())
        if found.get(key) != wanted.get(key)
    )


def _difference(found: Object | None, wanted: Object | None) -> str:
    if found is None or wanted is None:
        return "should be there" if found is None else "should not be there"
    return ", ".join(
        f"{name} is {found.get(name)}, not {wanted.get(name)}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    )
