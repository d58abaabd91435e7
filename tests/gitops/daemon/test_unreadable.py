"""A source that cannot be read: what was read last stays, is healed, and says why; after a start as well (fault table, Git rows; I8, I12).

Real Git over HTTP, and the follower of the daemon on the sandbox. "Cannot fetch" is never "empty".
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from applier.errors import ClusterError
from gitops.daemon import follower
from gitops.reconcile.context import ReconcileResult
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.git.damage import DAMAGES
from tests.support.git.platform import ONE, TWO, GitPlatform, uid
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer, serving

THREE = ONE.replace("one", "three")


@dataclass
class Served:
    """A source behind a server; the follower is asked to look once at a time."""

    world: GitPlatform
    server: GitServer

    async def look(self) -> ReconcileResult:
        """Ask the server, and bring about what is known."""
        return await self.world.follower.run_once(wait=timedelta(0))

    async def drift(self) -> None:
        """Somebody deletes an object of the source."""
        world = self.world
        key = ObjectKey("", "ConfigMap", "default", "two")
        await world.cluster.delete(key, uid=await uid(world, "two"), resource_version=None)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(tmp_path) as server:
        world = GitPlatform(tmp_path, ref="main", url=server.url("platform"))
        world.work.commit(one=ONE, two=TWO)
        found = Served(world, server)
        asyncio.run(found.look())
        yield found


def answering(status: int) -> Callable[[Served], None]:
    def act(served: Served) -> None:
        served.server.status = status

    act.__name__ = f"status_{status}"
    return act


def branch_gone(served: Served) -> None:
    served.world.work.git("checkout", "--quiet", "--detach")
    served.world.work.git("branch", "-D", "main")


def branch_renamed(served: Served) -> None:
    served.world.work.git("branch", "--move", "trunk")


def repository_gone(served: Served) -> None:
    served.world.work.path.rename(served.world.work.path.with_name("away"))


def token_revoked(served: Served) -> None:
    served.server.token = "another"


def redirected(served: Served) -> None:
    served.server.redirect_to = "https://elsewhere.example.com"


def cut_off(served: Served) -> None:
    served.world.work.commit(three=THREE)
    served.server.cut_at = 0.5


def emptied(served: Served) -> None:
    """A server that was set up anew has no ref at all."""
    git = served.world.work.path / ".git"
    shutil.rmtree(git)
    WorkTree.create(served.world.work.path)


FAULTS = [
    (branch_gone, "branch main does not exist; check `ref`, or push the ref"),
    (branch_renamed, "branch main does not exist; check `ref`, or push the ref"),
    (emptied, "branch main does not exist; check `ref`, or push the ref"),
    (repository_gone, "no such repository, or no permission to see it"),
    (token_revoked, "the server refused access"),
    (answering(403), "the server refused access"),
    (answering(404), "no such repository, or no permission to see it"),
    (answering(429), "the server limits the rate of requests"),
    (answering(500), "the server did not answer, or closed the connection"),
    (answering(503), "the server did not answer, or closed the connection"),
    (redirected, "the server redirects to another URL, and Levelgate follows no redirect"),
    (cut_off, "the server did not answer, or closed the connection"),
]


@pytest.mark.parametrize(("fault", "why"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_what_was_read_last_stays_is_healed_and_says_why(
    served: Served, fault: Callable[[Served], None], why: str
) -> None:
    world = served.world
    accepted = world.work.git("rev-parse", "main")
    fault(served)

    async def story() -> None:
        await served.drift()
        await served.look()
        assert await world.deployed() == {"one", "two"}
        record = await world.record()
        assert (record.target, record.applied, record.state) == (accepted, accepted, "Settled")
        assert record.unreadable
        assert why in record.unreadable.why
        assert [text for text in world.notices if "cannot be read" in text][1:] == []  # it is told once

        world.restart()  # from here on nothing is known but what the record and the copy say
        await served.drift()
        await served.look()
        assert await world.deployed() == {"one", "two"}
        after = await world.record()
        assert after.unreadable
        assert (after.unreadable.since, why in after.unreadable.why) == (record.unreadable.since, True)
        assert (after.target, after.applied, after.state) == (accepted, accepted, "Settled")

    asyncio.run(story())


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_while_the_server_is_away(served: Served, damage: Callable[[Path], None]) -> None:
    """What runs goes on with what it knows; what starts has nothing to go by, and touches nothing. Then it repairs itself."""
    world = served.world
    served.server.status = 503

    async def story() -> None:
        damage(world.directory / "cache")
        await served.drift()
        await served.look()
        assert await world.deployed() == {"one", "two"}
        world.restart()
        await served.look()
        assert await world.deployed() == {"one", "two"}
        assert (await world.record()).unreadable
        served.server.status = 0
        commit = world.work.commit(three=THREE)
        world.restart()
        await served.look()
        assert await world.deployed() == {"one", "two", "three"}
        assert ((record := await world.record()).applied, record.unreadable) == (commit, None)

    asyncio.run(story())


def test_what_can_be_read_again_is_taken_and_the_record_says_so(served: Served) -> None:
    world = served.world

    async def story() -> None:
        served.server.status = 503
        await served.look()
        first = (await world.record()).unreadable
        served.server.status = 403
        await served.look()
        second = (await world.record()).unreadable
        assert first
        assert second
        assert (first.since, first.why == second.why) == (second.since, False)
        served.server.status = 0
        commit = world.work.commit(one=ONE, three=THREE)
        await served.look()
        assert await world.deployed() == {"one", "two", "three"}
        assert ((record := await world.record()).applied, record.unreadable) == (commit, None)

    asyncio.run(story())


def test_a_server_that_hangs_from_the_start_keeps_nobody_waiting(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: what was accepted is healed while a new commit does not come; and who stops waits for it no more (fault table: "graceful stop")."""
    monkeypatch.setattr(follower, "FIRST_FETCH_TIMEOUT_SECONDS", 0.2)
    world, release, gave_up = served.world, threading.Event(), list[bool]()
    served.server.before_pack = lambda: gave_up.append(not release.wait(600))

    async def story() -> None:
        world.work.commit(three=THREE)
        world.restart()
        await served.drift()
        healed = asyncio.Event()
        world.follower.reconciler.report = lambda _: healed.set()
        following = asyncio.ensure_future(world.follower.run_forever())
        await asyncio.wait_for(healed.wait(), 60)
        assert await world.deployed() == {"one", "two"}
        world.follower.stop.set()
        await following

    try:
        asyncio.run(story())
        assert gave_up == []  # Git was ended, not waited for
        assert not any("cannot be read" in text for text in world.notices)
    finally:
        release.set()


def test_nothing_is_told_in_a_cluster_where_everything_is_suspended(served: Served) -> None:
    """surface 5.2: no new write."""
    world = served.world

    async def story() -> None:
        said = {"metadata": {"annotations": {"levelgate.dev/suspend": "INC-7"}}}
        await world.cluster.merge(ObjectKey("", "ConfigMap", "levelgate-system", "levelgate"), said, manager="person")
        await served.look()
        served.server.status = 503
        await served.look()
        assert (await world.record()).unreadable is None

    asyncio.run(story())


def test_where_the_record_cannot_be_written_it_is_told_later(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    world = served.world
    merge, failures = world.cluster.merge, [ClusterError("away")]

    async def failing(*arguments: object, **more: object) -> object:
        if failures:
            raise failures.pop()
        return await merge(*arguments, **more)  # type: ignore[arg-type]

    async def story() -> None:
        monkeypatch.setattr(world.cluster, "merge", failing)
        served.server.status = 503
        await served.look()
        await served.look()
        assert failures == []
        assert (await world.record()).unreadable

    asyncio.run(story())


def test_a_record_says_nothing_of_it_that_cannot_be_understood() -> None:
    for text in ("", "x", "[]", '{"since": 1}', '{"why": ""}'):
        parent = {"metadata": {"annotations": {well_known.UNREADABLE: text}}}
        assert SourceRecord.from_object(parent).unreadable is None
