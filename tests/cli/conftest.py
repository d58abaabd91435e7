"""A terminal in Berlin, beside a fleet: cluster commands as a person types them, against the sandbox and the clock of a story."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from applier.cluster import Cluster
from applier.sandbox.endpoints.transport import cluster_of
from gitops.cli import invoke
from gitops.cli.options import ClusterChoice
from gitops.clock import SystemClock
from tests.support.cli import Printed, Typed
from tests.support.clock import VirtualLoop
from tests.support.link_platform import LinkPlatform
from tests.support.shops import friday, opened


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_berlin: None) -> Printed:
    """`printed(fleet, "status", code=1)`: what the command prints to stdout and to stderr, once its exit code is as expected."""

    def levelgate(fleet: LinkPlatform, *arguments: str, code: int = 0) -> tuple[str, str]:
        @asynccontextmanager
        async def connected(_choice: ClusterChoice, *, concurrency: int = 16, **_: float) -> AsyncIterator[Cluster]:
            yield cluster_of(fleet.answer, name="prod-eu", concurrency=concurrency)

        with monkeypatch.context() as patched:
            patched.setattr(ClusterChoice, "connect_hub", connected)
            patched.setattr(SystemClock, "now", lambda _: fleet.clock.moment)
            found = invoke(list(arguments))
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured.out, captured.err

    return levelgate


@pytest.fixture
def typed(printed: Printed) -> Typed:
    """As `printed`, but one of the two: stdout, or stderr where a `code` beside 0 is expected."""

    def levelgate(fleet: LinkPlatform, *arguments: str, code: int = 0) -> str:
        out, err = printed(fleet, *arguments, code=code)
        return out if code == 0 else err

    return levelgate


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait in a time that costs nothing, however long, and on no machine too long."""
    monkeypatch.setattr(asyncio.events, "new_event_loop", VirtualLoop)


@pytest.fixture
def shops() -> Iterator[LinkPlatform]:
    """Eight shops on Friday at 10:00, under the rules."""
    with opened() as fleet:
        yield fleet


@pytest.fixture(scope="session")
def friday_shops() -> Iterator[LinkPlatform]:
    with opened() as fleet:
        friday(fleet)
        yield fleet


@pytest.fixture
def held_up(friday_shops: LinkPlatform) -> Iterator[LinkPlatform]:
    """The same at 15:20: three have moved, cart has stopped half way, and four wait for it. The process is a new one."""
    with friday_shops.copied() as fleet:
        yield fleet
