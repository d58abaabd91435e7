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
from gitops.daemon.git_servers import MAX_BACKOFF_SECONDS
from gitops.records.source_record import SourceRecord
from gitops.source import BranchRef
from renderer import well_known
from tests.support.git.damage import DAMAGES
from tests.support.git.platform import GitPlatform, config_maps
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer, serving
from tests.support.platform import CONFIG_MAPS, OWN


@dataclass(kw_only=True)
class ServedPlatform(GitPlatform):
    """A source behind a Git server."""

    server: GitServer

    def look(self) -> None:
        """Ask the server after any backoff, and reconcile once."""
        self.step(after=timedelta(seconds=MAX_BACKOFF_SECONDS))

    def drift(self) -> None:
        """Delete an object of the source, as a person does."""
        self.request("DELETE", f"{CONFIG_MAPS}/two")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[ServedPlatform]:
    with serving(tmp_path) as server, ServedPlatform(tmp_path, server=server) as platform:
        platform.retarget(url=server.url("platform"), ref=BranchRef("main"))
        platform.commit(config_maps("one", "two"))
        platform.settle()
        yield platform


def answering(status: int) -> Callable[[ServedPlatform], None]:
    def act(platform: ServedPlatform) -> None:
        platform.server.status = status

    act.__name__ = f"status_{status}"
    return act


def branch_gone(platform: ServedPlatform) -> None:
    platform.work.git("checkout", "--quiet", "--detach")
    platform.work.git("branch", "-D", "main")


def branch_renamed(platform: ServedPlatform) -> None:
    platform.work.git("branch", "--move", "trunk")


def repository_gone(platform: ServedPlatform) -> None:
    platform.work.path.rename(platform.work.path.with_name("away"))


def token_revoked(platform: ServedPlatform) -> None:
    platform.server.token = "another"


def redirected(platform: ServedPlatform) -> None:
    platform.server.redirect_to = "https://elsewhere.example.com"


def cut_off(platform: ServedPlatform) -> None:
    platform.commit(config_maps("one", "two", "three"))
    platform.server.cut_at = 0.5


def emptied(platform: ServedPlatform) -> None:
    """A server that was set up anew has no ref at all."""
    shutil.rmtree(platform.work.path / ".git")
    WorkTree.create(platform.work.path)


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
    platform: ServedPlatform, fault: Callable[[ServedPlatform], None], why: str
) -> None:
    accepted = platform.work.git("rev-parse", "main")
    fault(platform)
    platform.drift()
    platform.look()
    assert platform.listed("configmaps") == ["one", "two"]
    record = platform.record()
    assert (record.target, record.applied, record.state) == (accepted, accepted, "Settled")
    assert record.unreadable
    assert why in record.unreadable.why
    assert [text for text in platform.notices if "cannot be read" in text][1:] == []  # it is told once

    platform.restart()  # from here on nothing is known but what the record and the copy say
    platform.drift()
    platform.look()
    assert platform.listed("configmaps") == ["one", "two"]
    after = platform.record()
    assert after.unreadable
    assert (after.unreadable.since, why in after.unreadable.why) == (record.unreadable.since, True)
    assert (after.target, after.applied, after.state) == (accepted, accepted, "Settled")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_while_the_server_is_away(platform: ServedPlatform, damage: Callable[[Path], None]) -> None:
    """What runs goes on with what it knows; what starts has nothing to go by, and touches nothing. Then it repairs itself."""
    platform.server.status = 503
    damage(platform.cache)
    platform.drift()
    platform.look()
    assert platform.listed("configmaps") == ["one", "two"]
    platform.restart()
    platform.look()
    assert platform.listed("configmaps") == ["one", "two"]
    assert platform.record().unreadable
    platform.server.status = 0
    commit = platform.commit(config_maps("one", "two", "three"))
    platform.restart()
    platform.look()
    assert platform.listed("configmaps") == ["one", "three", "two"]
    assert ((record := platform.record()).applied, record.unreadable) == (commit, None)


def test_what_can_be_read_again_is_taken_and_the_record_says_so(platform: ServedPlatform) -> None:
    platform.server.status = 503
    platform.look()
    first = platform.record().unreadable
    platform.server.status = 403
    platform.look()
    second = platform.record().unreadable
    assert first
    assert second
    assert (first.since, first.why == second.why) == (second.since, False)
    platform.server.status = 0
    commit = platform.commit(config_maps("one", "two", "three"))
    platform.look()
    assert platform.listed("configmaps") == ["one", "three", "two"]
    assert ((record := platform.record()).applied, record.unreadable) == (commit, None)


def test_a_server_that_hangs_from_the_start_keeps_nobody_waiting(
    platform: ServedPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: what was accepted is healed while a new commit does not come; and who stops waits for it no more (fault table: "graceful stop")."""
    monkeypatch.setattr(follower, "FIRST_FETCH_TIMEOUT_SECONDS", 0.2)
    release, gave_up = threading.Event(), list[bool]()
    platform.server.before_pack = lambda: gave_up.append(not release.wait(600))

    platform.commit(config_maps("one", "two", "three"))
    platform.restart()
    platform.drift()

    async def start_and_stop() -> None:
        healed = asyncio.Event()
        platform.reconciler.report = lambda _: healed.set()
        following = asyncio.ensure_future(platform.follower.run_forever())
        await asyncio.wait_for(healed.wait(), 60)
        assert platform.listed("configmaps") == ["one", "two"]
        platform.follower.stop.set()
        await following

    try:
        platform.call(start_and_stop())
        assert gave_up == []  # Git was ended, not waited for
        assert not any("cannot be read" in text for text in platform.notices)
    finally:
        release.set()


def test_nothing_is_told_in_a_cluster_where_everything_is_suspended(platform: ServedPlatform) -> None:
    """surface 5.2: no new write."""
    platform.put(f"{OWN}/levelgate", suspend="INC-7")
    platform.look()
    platform.server.status = 503
    platform.look()
    assert platform.record().unreadable is None


def test_where_the_record_cannot_be_written_it_is_told_later(
    platform: ServedPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge, failures = platform.cluster.merge, [ClusterError("away")]

    async def failing(*arguments: object, **more: object) -> object:
        if failures:
            raise failures.pop()
        return await merge(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(platform.cluster, "merge", failing)
    platform.server.status = 503
    platform.look()
    platform.look()
    assert failures == []
    assert platform.record().unreadable


def test_a_record_says_nothing_of_it_that_cannot_be_understood() -> None:
    for text in ("", "x", "[]", '{"since": 1}', '{"why": ""}'):
        parent = {"metadata": {"annotations": {well_known.UNREADABLE: text}}}
        assert SourceRecord.from_object(parent).unreadable is None
