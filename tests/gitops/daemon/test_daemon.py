"""The daemon with real repositories and a real file system: a configuration that changes while it runs (docs/configuration.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import pytest

from gitops import source_config
from gitops.clock import SystemClock
from gitops.config import read_config
from gitops.daemon.daemon import Daemon
from gitops.daemon.follower import Follower
from gitops.daemon.live_config import LiveConfig
from gitops.decisions.decision import Decision
from gitops.external_facts import ExternalFactPoller
from gitops.gates.evaluate import ExternalFact
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.rollouts.state import Halt, Revert, RolloutState, TargetRevision
from tests.support.clock import START
from tests.support.external_server import ExternalServer
from tests.support.follower import IdleReconciler, found
from tests.support.git.repository import WorkTree
from tests.support.link_platform import LinkPlatform

T = TypeVar("T")


@dataclass
class Passes(IdleReconciler):
    """Stands where the cluster is: what each pass was given."""

    given: asyncio.Queue[dict[str, SourceState]] = field(default_factory=asyncio.Queue)
    found: ReconcileResult = field(default_factory=found)
    follows: Collection[str] | None = None

    async def reconcile(self, sources: Sequence[SourceState]) -> ReconcileResult:
        self.given.put_nowait({state.catalog.source: state for state in sources})
        return self.found


@dataclass
class Running:
    """A daemon that runs; `told` is what it says of its configuration."""

    daemon: Daemon
    passes: Passes
    told: asyncio.Queue[str]

    async def passed(self, fits: Callable[[dict[str, SourceState]], bool]) -> dict[str, SourceState]:
        return await _first(self.passes.given, fits)

    async def says(self, text: str) -> str:
        return await _first(self.told, lambda said: text in said)


async def _first(queue: asyncio.Queue[T], fits: Callable[[T], bool]) -> T:
    async with asyncio.timeout(60):
        while not fits(one := await queue.get()):
            pass
    return one


@dataclass
class ConfiguredSources:
    """A configuration file and the repositories that it names."""

    directory: Path

    @property
    def file(self) -> Path:
        return self.directory / "levelgate.yaml"

    def repository(self, name: str) -> WorkTree:
        work = WorkTree.create(self.directory / name)
        work.commit(a="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        return work

    def configure(self, *sources: str, more: str = "") -> None:
        head = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources:\n"
        self.file.write_text(head + "".join(f"- {{{one}, interval: 1h}}\n" for one in sources) + more)

    @asynccontextmanager
    async def running(self, lead: asyncio.Event | None = None) -> AsyncIterator[Running]:
        """Another process leads until `lead` is set."""
        passes, told = Passes(), asyncio.Queue[str]()
        config = read_config(self.file)
        follower = Follower(
            source_config.create_mirrors(config.sources, lambda: False),
            cast(Reconciler, passes),
            SystemClock(),
            configs={one.name: one for one in config.sources},
        )

        def notice(name: str, text: str) -> None:
            told.put_nowait(f"{name}: {text}")

        configuration = LiveConfig(config, self.file, notice)
        daemon = Daemon(follower, ExternalFactPoller(SystemClock()), configuration, notice, config.resync)
        async with configuration.follow_file():
            task = asyncio.create_task(self._led(daemon, lead))
            try:
                yield Running(daemon, passes, told)
            finally:
                follower.stop.set()
                await asyncio.wait_for(task, 60)

    async def _led(self, daemon: Daemon, lead: asyncio.Event | None) -> None:
        if lead:
            await lead.wait()
        await daemon.run()


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfiguredSources:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ConfiguredSources(tmp_path)


async def test_a_source_that_is_added_is_followed_and_one_that_is_taken_out_is_left_alone(
    platform: ConfiguredSources,
) -> None:
    platform.repository("one")
    platform.repository("two")
    platform.configure("name: one, url: one")
    async with platform.running() as run:
        await run.passed(lambda given: set(given) == {"one"})
        assert run.passes.follows == {"one"}
        platform.configure("name: one, url: one", "name: two, url: two, policies: All")
        given = await run.passed(lambda given: set(given) == {"one", "two"})
        assert (given["one"].governors, given["two"].governors) == (frozenset({"two"}), frozenset())
        platform.configure("name: two, url: two")
        assert "its objects remain" in await run.says("one: no longer followed")
        await run.passed(lambda given: set(given) == {"two"})
        assert run.passes.follows == {"two"}


async def test_a_commit_to_a_repository_that_was_added_is_seen_at_once(platform: ConfiguredSources) -> None:
    platform.repository("one")
    platform.configure("name: one, url: one")
    async with platform.running() as run:
        two = platform.repository("two")
        platform.configure("name: one, url: one", "name: two, url: two")
        await run.passed(lambda given: "two" in given)
        commit = two.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
        await run.passed(lambda given: given["two"].catalog.commit == commit)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_commit_is_seen_at_once_after_the_watch_of_its_repository_died(
    platform: ConfiguredSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The death is told under the name of the source. Its interval of an hour has no part in it."""
    from watchdog.observers.api import EventEmitter

    monkeypatch.setattr("gitops.daemon.file_watch.CHECK_INTERVAL_SECONDS", 0.05)

    def fail(self: EventEmitter, timeout: float) -> None:
        raise RuntimeError("killed by the test")

    one = platform.repository("one")
    platform.configure("name: one, url: one")
    with monkeypatch.context() as deadly:
        deadly.setattr("watchdog.observers.inotify.InotifyEmitter.queue_events", fail)
        async with platform.running() as run:
            await run.passed(lambda given: "one" in given)
            assert "(a thread of the watch has ended); Levelgate still polls it" in await run.says("one: ")
            deadly.undo()
            commit = one.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
            await run.passed(lambda given: given["one"].catalog.commit == commit)
            commit = one.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
            await run.passed(lambda given: given["one"].catalog.commit == commit)


async def test_a_repository_of_several_sources_is_asked_as_often_as_the_most_eager_wants(
    platform: ConfiguredSources,
) -> None:
    """One question for all of its sources; two of them may follow different refs."""
    one = platform.repository("one")
    one.git("branch", "next")
    platform.configure("name: one, url: one, ref: {branch: main}")
    text = platform.file.read_text()
    platform.file.write_text(f"{text}- {{name: two, url: one, ref: {{branch: next}}, interval: 5m}}\n")
    async with platform.running() as run:
        await run.passed(lambda given: set(given) == {"one", "two"})
        assert list(run.daemon._intervals.values()) == [timedelta(minutes=5)]
        one.git("checkout", "--quiet", "next")
        commit = one.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
        given = await run.passed(lambda given: given["two"].catalog.commit == commit)
        assert given["one"].catalog.commit != commit


async def test_a_broken_file_is_told_and_what_was_taken_before_stays(platform: ConfiguredSources) -> None:
    one = platform.repository("one")
    platform.configure("name: one, url: one, path: .")
    async with platform.running() as run:
        await run.passed(lambda given: "one" in given)
        platform.configure("name: one, url: one, pth: x")
        told = await run.says("rejected; the previous configuration")
        assert f"{platform.file}:4: sources[0].pth: no field 'pth'; did you mean 'path'?" in told
        commit = one.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
        await run.passed(lambda given: given["one"].catalog.commit == commit)
        run.daemon.live_config.reread()
        assert run.told.empty()
        assert run.daemon.live_config.refusal in told
        platform.configure("name: one, url: one, path: .")
        await run.says("is valid again, and equals the configuration in force")
        assert run.daemon.live_config.refusal == ""
        platform.configure("name: one, url: one, suspend: INC-7")
        given = await run.passed(lambda given: given["one"].suspend == "INC-7")
        assert given["one"].catalog.commit == commit


async def test_everything_is_read_anew_from_time_to_time_though_nothing_is_told(platform: ConfiguredSources) -> None:
    """T8, I7: an event that never arrives costs time, for as long as `resync` says."""
    platform.repository("one")
    platform.configure("name: one, url: one", more="resync: 1s\n")
    async with platform.running() as run:
        for _ in range(3):
            await run.passed(lambda given: set(given) == {"one"})


async def test_a_timer_wakes_what_time_alone_lets_go_on(platform: ConfiguredSources) -> None:
    """The end of a suspension, the edge of a window: a pass is run then, though nothing is told and nothing was committed."""
    work = platform.repository("one")
    platform.configure("name: one, url: one")
    async with platform.running() as run:
        await run.passed(lambda given: set(given) == {"one"})
        due = SystemClock().now() + timedelta(seconds=0.3)
        run.passes.found = replace(found(), propagation=Decision(wake_at=due))
        commit = work.commit(b="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
        await run.passed(lambda given: given["one"].catalog.commit == commit)
        await run.passed(lambda _: SystemClock().now() >= due)


async def test_who_stands_by_takes_changes_too_and_leads_with_what_was_in_force_last(
    platform: ConfiguredSources,
) -> None:
    """Surface 2.5, S2-12: two replicas see one file; a takeover brings back nothing that had been changed before."""
    platform.repository("one")
    platform.repository("two")
    platform.configure("name: one, url: one")
    lead = asyncio.Event()
    async with platform.running(lead) as run:
        platform.configure("name: two, url: two")
        await run.says("accepted; following two")
        platform.configure("name: two, url: two, pth: x")
        assert run.daemon.live_config.refusal in await run.says("rejected; the previous configuration")
        assert run.passes.given.empty()
        lead.set()
        await run.passed(lambda given: set(given) == {"two"})
        assert run.daemon.live_config.refusal


async def test_another_path_is_read_although_the_commit_is_the_same(platform: ConfiguredSources) -> None:
    one = platform.repository("one")
    one.write("apps/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
    one.commit("apps")
    platform.configure("name: one, url: one")
    async with platform.running() as run:
        await run.passed(lambda given: "one" in given)
        platform.configure("name: one, url: one, path: apps")
        given = await run.passed(lambda given: given["one"].path == "apps")
        assert [item.manifest["metadata"]["name"] for item in given["one"].catalog.objects] == ["b"]


async def test_what_counts_from_the_next_start_on_is_told(platform: ConfiguredSources) -> None:
    platform.repository("one")
    platform.configure("name: one, url: one")
    async with platform.running() as run:
        await run.passed(lambda given: "one" in given)
        platform.configure("name: one, url: one", more="applyConcurrency: 4\n")
        await run.says("take effect at the next start")


async def test_a_mounted_configmap_changes_by_a_link(platform: ConfiguredSources) -> None:
    """The kubelet writes new contents beside the old ones and moves the link `..data` to them."""
    platform.repository("one")
    platform.repository("two")
    platform.configure("name: one, url: ../../one")
    mount = platform.directory / "mount"
    for version, source in (("..1", "one"), ("..2", "two")):
        (mount / version).mkdir(parents=True)
        text = platform.file.read_text().replace("one", source).replace("../../", str(platform.directory) + "/")
        (mount / version / "levelgate.yaml").write_text(text)
    (mount / "..data").symlink_to("..1")
    platform.file.unlink()
    platform.file.symlink_to(mount / "..data" / "levelgate.yaml")
    mounted = ConfiguredSources(mount)
    mounted.file.symlink_to("..data/levelgate.yaml")
    async with mounted.running() as run:
        await run.passed(lambda given: set(given) == {"one"})
        (mount / "..new").symlink_to("..2")
        (mount / "..new").rename(mount / "..data")
        await run.passed(lambda given: set(given) == {"two"})


async def test_facts_are_asked_for_before_the_first_pass_and_a_new_one_when_it_is_declared(
    platform: ConfiguredSources,
) -> None:
    platform.repository("one")
    async with ExternalServer().serving() as server:
        budget, freeze = (
            f'- {{name: {name}, maxAge: 1h, http: {{url: "{server.url}", expect: "true"}}}}\n'
            for name in ("budget", "freeze")
        )
        platform.configure("name: one, url: one", more=f"externals:\n{budget}")
        async with platform.running() as run:
            await run.passed(lambda given: "one" in given)
            now = SystemClock().now()
            assert run.daemon.fact_poller.facts(now) == {"budget": ExternalFact(True)}
            while not run.passes.given.empty():
                run.passes.given.get_nowait()
            platform.configure("name: one, url: one", more=f"externals:\n{freeze}")
            await run.says("accepted; following")
            await run.passed(lambda _: run.daemon.fact_poller.facts(now) == {"freeze": ExternalFact(True)})
            assert server.asked == 2


async def test_a_halt_that_wants_a_revert_is_taken_up_and_again_with_what_was_missing(
    platform: ConfiguredSources,
) -> None:
    """S1-33: the configuration says where it is proposed, also one that is changed while the daemon runs."""
    platform.repository("one")
    platform.configure("name: one, url: one")
    (platform.directory / "token").write_text("t\n")
    halted = halt()
    async with platform.running() as run:
        run.passes.found = halted
        run.daemon.follower.reconcile_all()
        told = await run.says("one: revert of links.g.test r2")
        assert told.endswith("source one has no `forge` in levelgate.yaml; add `forge`")
        forge = "forge: {kind: gitea, url: 'http://127.0.0.1:1', repository: a/b, tokenFile: token}"
        platform.configure(f"name: one, url: one, {forge}")
        assert "the connection failed" in await run.says("one: a revert of links.g.test r2 is not proposed yet")


def halt() -> ReconcileResult:
    """After a pass that has halted a definition of source `one`."""
    fleet = LinkPlatform()
    fleet.push()
    assert fleet.catalog is not None
    definitions = fleet.catalog.definitions
    halts = (Halt(2, START, "levelgate", "1 of 2 failed", Revert()),)
    state = RolloutState({"all": TargetRevision(2, "b" * 12)}, completed=TargetRevision(1, "a" * 12), halts=halts)
    pass_ = found()
    owners = dict.fromkeys(definitions, "one")
    bundle = replace(pass_.bundle, definitions=definitions, owners=owners)
    return replace(pass_, bundle=bundle, propagation=Decision(states={"links.g.test": state}))
