"""What was agreed to and nothing else: a plan that somebody read is carried out, another one is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from applier.applyset.adoption import NO_ADOPTION, Adoption
from gitops import source_config
from gitops.clock import SystemClock
from gitops.daemon.commit_acceptance import PlanHashMismatch, require_plan_hash
from gitops.explain.overview import Overview
from gitops.explain.phrasing import describe_unreadable
from gitops.plan import planner
from gitops.reconcile.sources import SourceState
from gitops.records.requests import RequestSubject, approve_commit
from gitops.source import locations
from gitops.text import TimeFormat
from gitops.windows.window import LOCAL
from renderer.identity import source_parent
from tests.support.git.platform import ONE, GitPlatform, settled

THREE = ONE.replace("one", "three")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitPlatform:
    found = settled(tmp_path, monkeypatch)
    found.require_plan = True
    found.restart()
    return found


async def planned(world: GitPlatform, adoption: Adoption = NO_ADOPTION) -> str:
    """The hash of what the working tree would do, as `levelgate plan` gives it."""
    head = source_config.load_catalog(locations.read_location(str(world.work.path)), source="platform")
    report = await planner.plan_against_cluster(
        world.cluster, SourceState(head, adoption=adoption), clock=SystemClock(), cluster_name=LOCAL
    )
    return report.hash


def test_a_commit_with_the_hash_of_its_plan_is_taken(world: GitPlatform) -> None:
    async def story() -> None:
        (world.work.path / "three.yaml").write_text(THREE)
        world.work.commit(f"Add three\n\nBecause.\n\nReviewed-by: somebody\nLevelgate-Plan: {await planned(world)}")
        await world.settle()
        assert await world.deployed() == {"one", "two", "three"}
        world.restart()
        await world.settle()
        assert (await world.record()).state != "Held", "there is another plan once it is carried out"

    asyncio.run(story())


def test_the_plan_is_made_under_the_configuration_of_the_source(world: GitPlatform) -> None:
    async def story() -> None:
        world.adoption = Adoption.parse("IfUnowned")
        world.restart()
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three", "namespace": "default"}}
        await world.cluster.apply(manifest, manager="somebody")
        (world.work.path / "three.yaml").write_text(THREE)
        agreed = await planned(world, world.adoption)
        assert agreed != await planned(world)
        world.work.commit(f"Add three\n\nLevelgate-Plan: {agreed}")
        await world.settle()
        assert (await world.record()).state != "Held"

    asyncio.run(story())


@pytest.mark.parametrize("said", ["", "\n\nLevelgate-Plan: 0123456789abcdef"], ids=["none", "another"])
def test_any_other_commit_is_held_until_a_person_approves_it(world: GitPlatform, said: str) -> None:
    async def story() -> None:
        head = world.work.commit(f"Add three{said}", three=THREE)
        await world.settle()
        assert await world.deployed() == {"one", "two"}
        record = await world.record()
        assert (record.state, record.offered) == ("Held", head)
        assert record.causes[0]["reason"] == "ApprovalRequired"
        assert f"its plan is {await planned(world)}" in world.notices[-1]
        told = list(world.notices)
        await world.settle()
        assert world.notices == told, "said again at each look, though nothing has changed"
        await world.approve(head)
        await world.settle()
        assert await world.deployed() == {"one", "two", "three"}

    asyncio.run(story())


def test_a_plan_that_the_cluster_has_outrun_is_held(world: GitPlatform) -> None:
    """The hash is of a plan against the cluster as it was: what changed since has not been read by anybody."""

    async def story() -> None:
        (world.work.path / "three.yaml").write_text(THREE)
        agreed = await planned(world)
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three", "namespace": "default"}}
        await world.cluster.apply(manifest, manager="somebody")
        world.work.commit(f"Add three\n\nLevelgate-Plan: {agreed}")
        await world.settle()
        assert (await world.record()).state == "Held"

    asyncio.run(story())


def test_once_refuses_a_plan_that_is_another(world: GitPlatform) -> None:
    async def story() -> None:
        (world.work.path / "three.yaml").write_text(THREE)
        agreed = await planned(world)
        head = source_config.load_catalog(locations.read_location(str(world.work.path)), source="platform")
        state = SourceState(head)
        await require_plan_hash(world.cluster, state, agreed.upper(), clock=SystemClock(), cluster_name=LOCAL)
        with pytest.raises(PlanHashMismatch, match=f"the plan is {agreed} now, not {agreed[:-1]}x"):
            await require_plan_hash(world.cluster, state, f"{agreed[:-1]}x", clock=SystemClock(), cluster_name=LOCAL)

    asyncio.run(story())


def test_the_first_commit_of_all_can_be_agreed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was taken yet, so there is no record of the source; who looks is told all the same, and what is advised can be done."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = GitPlatform(tmp_path, require_plan=True)
    (world.work.path / "apps").mkdir()
    (world.work.path / "apps" / "one.yaml").write_text(ONE)
    head = world.work.commit("Begin")
    world.restart(path="apps")

    async def story() -> None:
        world.follower.reconciler.follows = ["platform"]
        await world.settle()
        found = await Overview.from_cluster(world.cluster, now=SystemClock().now())
        why, taken = describe_unreadable("source/platform", found.sources["platform"], TimeFormat())
        assert f"levelgate approve source/platform --commit {head[:12]}" in why
        assert taken == "Levelgate has not accepted a commit of source/platform yet."
        key = source_parent("platform")
        live = await world.cluster.get(key) or {}
        order = approve_commit(RequestSubject(key, live, None, "", SystemClock().now(), is_instance=False), head[:12])
        await world.cluster.merge(key, order.patch, manager="person")
        await world.settle()
        assert await world.deployed() == {"one"}

    asyncio.run(story())
