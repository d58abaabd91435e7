"""Servers that fail are left alone for a while, each by itself (fault table: "rate limit"; I11)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from applier.applyset.inventory import Scope
from applier.plan.model import ApplySetPlan, Plan
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.daemon.fetcher import Fetcher
from gitops.errors import SourceError, Throttled, Unauthorized, Unreachable
from gitops.reconcile.context import ReconcileResult
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.identity import source_parent
from renderer.render.model import RenderedApplySet
from tests.support.clock import StillClock
from tests.support.follower import ListedMirror, found


@dataclass
class Failing(ListedMirror):
    """A server that says no, as long as `error` is set."""

    error: SourceError | None = None

    def list_refs(self, *names: str) -> dict[str, str]:
        found = super().list_refs(*names)
        if self.error:
            raise self.error
        return found


def asked(error: SourceError, *, minutes: int) -> tuple[list[str], list[str]]:
    """The questions that two servers get in so many minutes, asked every second; one of them fails."""
    clock, bad, good = StillClock(), list[str](), list[str]()
    mirrors = {"bad": Failing("bad", bad, "s", error=error), "good": ListedMirror("good", good, "t")}
    fetcher = Fetcher(mirrors, {}, cluster_of(Sandbox().answer), LOCAL, clock, lambda _source, _text: None)  # type: ignore[arg-type]

    async def story() -> None:
        for _ in range(minutes * 60):
            fetcher.mark_due(["bad", "good"])
            await fetcher.fetch()
            clock.moment += timedelta(seconds=1)

    asyncio.run(story())
    return bad, good


def test_a_server_that_does_not_answer_is_asked_less_and_less_and_the_others_as_ever() -> None:
    bad, good = asked(Unreachable("https://x", "no answer"), minutes=10)
    assert 8 <= len(bad) <= 13
    assert len([line for line in good if line.startswith("t ")]) == 600


def test_a_server_that_wants_to_be_asked_less_often_is_left_alone_at_once() -> None:
    bad, _ = asked(Throttled("https://x", "429"), minutes=3)
    assert len(bad) == 2  # at once, after a minute; then two minutes


def test_what_a_server_wants_counts() -> None:
    error = Throttled("https://x", "429")
    error.retry_after = 100.0
    bad, _ = asked(error, minutes=5)
    assert len(bad) == 3


def test_a_server_that_answers_again_is_asked_as_ever() -> None:
    clock, log = StillClock(), list[str]()
    mirror = Failing("a", log, error=Unreachable("https://x", "no answer"))
    fetcher = Fetcher({"a": mirror}, {}, cluster_of(Sandbox().answer), LOCAL, clock, lambda _source, _text: None)  # type: ignore[dict-item]

    async def story() -> None:
        for seconds in (0, 0, 0, 2, 0, 0):
            clock.moment += timedelta(seconds=seconds)
            if seconds:
                mirror.error = None
            fetcher.mark_due(["a"])
            await fetcher.fetch()

        assert len([line for line in log if line.startswith("https")]) == 6
        assert fetcher.errors == {}
        mirror.error = Unreachable("https://x", "no answer")
        for _ in range(3):  # as after a start: what was before counts no more
            fetcher.mark_due(["a"])
            await fetcher.fetch()
        assert len([line for line in log if line.startswith("https")]) == 9

    asyncio.run(story())


class Alone:
    """A source, and how often its server, which answers with this error, is asked."""

    def __init__(self, error: type[SourceError]) -> None:
        self.clock, self.log = StillClock(), list[str]()
        self.mirror = Failing("a", self.log, error=error("https://x", "no"))
        self.fetcher = Fetcher(
            {"a": self.mirror},  # type: ignore[dict-item]
            {},
            cluster_of(Sandbox().answer),
            LOCAL,
            self.clock,
            lambda _source, _text: None,
        )

    async def poll(self) -> int:
        before = len(self.log)
        self.fetcher.mark_due(["a"])
        await self.fetcher.fetch()
        return len(self.log) - before

    async def settle(self) -> None:
        """Until it is left alone."""
        for _ in range(8):
            await self.poll()
            self.clock.moment += timedelta(seconds=1)


@pytest.mark.parametrize(("error", "questions"), [(Unauthorized, 1), (Throttled, 0)])
def test_another_credential_is_tried_at_once(error: type[SourceError], questions: int) -> None:
    """docs/operations.md: a file that is replaced counts at once, also of a server that is left alone by now."""
    alone = Alone(error)

    async def story() -> None:
        await alone.settle()
        alone.mirror.credential_states = ("replaced",)
        assert await alone.poll() == questions
        assert await alone.poll() == 0

    asyncio.run(story())


def requested() -> ReconcileResult:
    """What a pass finds where a person wants the source to be looked at."""
    parent = source_parent("a")
    said = {"name": parent.name, "namespace": parent.namespace, "annotations": {well_known.SYNC_REQUESTED_AT: "now"}}
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": said}
    return replace(
        found(), plan=Plan((ApplySetPlan(RenderedApplySet(parent=parent, nodes=(), source="a"), live, Scope()),))
    )


def test_a_person_who_is_heard_is_answered_by_a_pass_though_nothing_has_moved() -> None:
    """S2-10: the echo stands in the record, which a pass writes."""
    alone = Alone(Unreachable)
    alone.mirror.error = None

    async def story() -> None:
        await alone.poll()
        moved = []
        for what in (found(), requested()):
            alone.fetcher.has_new_state = False
            alone.fetcher.take_requests(what)
            await alone.poll()
            moved.append(alone.fetcher.has_new_state)
        assert moved == [False, True]
        assert [list(state.synced.values()) for state in alone.fetcher.states] == [["now"]]

    asyncio.run(story())


class Overloaded(Unreachable):
    """503 with `Retry-After`."""

    retry_after = 600.0


@pytest.mark.parametrize(("error", "questions"), [(Unreachable, 1), (Throttled, 0), (Overloaded, 0)])
def test_a_person_is_heard_once_while_a_server_is_left_alone(error: type[SourceError], questions: int) -> None:
    """S2-10: `levelgate reconcile` after a credential was corrected. What the server wants itself counts more."""
    alone, wanted = Alone(error), requested()

    async def story() -> None:
        await alone.settle()
        assert await alone.poll() == 0
        assert alone.fetcher.take_requests(wanted) == {"a"}
        assert await alone.poll() == questions
        assert alone.fetcher.take_requests(wanted) == set()
        assert await alone.poll() == 0

    asyncio.run(story())
