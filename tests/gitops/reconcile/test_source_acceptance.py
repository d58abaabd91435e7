"""A source goes forward; rewritten history, a moved tag and a replaced repository wait for a person (rulings, *Sources*; I8)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from renderer.identity import ObjectKey
from tests.support.git.platform import ONE, TWO, GitPlatform, rewritten, settled, uid


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitPlatform:
    return settled(tmp_path, monkeypatch)


def test_rewritten_history_is_held_and_the_commit_before_stays_in_force(world: GitPlatform) -> None:
    commit = rewritten(world)

    async def story() -> None:
        await world.settle()
        assert await world.deployed() == {"one", "two"}
        record = await world.record()
        assert (record.state, record.offered) == ("Held", commit)
        assert record.causes[0]["reason"] == "HistoryRewritten"
        assert f"levelgate approve source/platform --commit {commit[:12]}" in world.notices[-1]
        await world.cluster.delete(
            ObjectKey("", "ConfigMap", "default", "two"), uid=await uid(world, "two"), resource_version=None
        )
        count = len(world.notices)
        await world.settle()
        assert await world.deployed() == {"one", "two"}  # drift is healed
        assert len(world.notices) == count  # it is told once
        await world.approve(commit)
        await world.settle()
        assert await world.deployed() == {"one"}
        assert (await world.record()).offered == ""

    asyncio.run(story())


def test_it_is_held_after_a_restart_as_well(world: GitPlatform) -> None:
    """By the record of the source: the process remembers nothing, and the cache still has the commit."""
    commit = rewritten(world)
    world.restart()
    asyncio.run(world.settle())
    assert asyncio.run(world.deployed()) == {"one", "two"}
    assert asyncio.run(world.record()).offered == commit


def test_without_the_commit_before_nothing_of_the_source_is_deleted(world: GitPlatform) -> None:
    """The cache is lost: what was accepted cannot be read any more, and what was rewritten is not taken for it."""
    commit = rewritten(world)
    shutil.rmtree(world.directory / "cache")
    world.restart()
    asyncio.run(world.settle())
    assert asyncio.run(world.deployed()) == {"one", "two"}
    assert "HELD: history was rewritten" in world.notices[-1]
    asyncio.run(world.approve(commit))
    asyncio.run(world.settle())
    assert asyncio.run(world.deployed()) == {"one"}


DEFINITION = """\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: notes.g.test}
spec:
  propagateWhen: ['${now < timestamp("2000-01-01T00:00:00Z")}']
  schema: {group: g.test, apiVersion: v1, kind: Note, spec: {text: string}}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-config"}
      data: {text: "${schema.spec.text}", of: REVISION}
"""
INSTANCE = """\
apiVersion: g.test/v1
kind: Note
metadata: {name: a, namespace: default}
spec: {text: hello}
"""


def test_an_instance_behind_a_gate_is_healed_whatever_becomes_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-25: from its applied revision: with the history rewritten, the copy lost, and the definition deleted from Git, one after the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = GitPlatform(tmp_path)
    config = ObjectKey("", "ConfigMap", "default", "a-config")
    steps: list[str] = []

    async def healed(step: str) -> None:
        """What somebody deletes is made again as it was applied."""
        steps.append(step)
        live = await world.cluster.get(config)
        assert live, steps
        await world.cluster.delete(config, uid=live["metadata"]["uid"], resource_version=None)
        await world.settle()
        again = await world.cluster.get(config)
        assert again, steps
        assert again["data"] == {"text": "hello", "of": "one"}, steps

    async def story() -> None:
        ungated = "\n".join(line for line in DEFINITION.splitlines() if "propagateWhen" not in line)
        world.work.commit(definition=ungated.replace("REVISION", "one"), instance=INSTANCE)
        await world.settle()
        world.work.commit(definition=DEFINITION.replace("REVISION", "two"))
        await world.settle()
        await healed("behind the gate")
        world.work.git("checkout", "--quiet", "--orphan", "other")
        world.work.git("rm", "--quiet", "--cached", "-r", ".")
        (world.work.path / "definition.yaml").unlink()
        commit = world.work.commit("without the definition")
        world.work.git("branch", "--force", "main", "other")
        await world.settle()
        await healed("history rewritten")
        shutil.rmtree(world.directory / "cache")
        world.restart()
        await world.settle()
        await healed("copy lost as well")
        assert "HistoryRewritten" in {cause["reason"] for cause in (await world.record()).causes}
        await world.approve(commit)
        await world.settle()
        assert (await world.record()).target == commit
        await healed("definition deleted from Git")
        shutil.rmtree(world.directory / "cache")
        world.restart()
        await world.settle()
        await healed("and the copy lost again")
        world.work.commit(definition=ungated.replace("REVISION", "three"))
        await world.settle()
        live = await world.cluster.get(config)
        assert live
        assert live["data"]["of"] == "three"

    asyncio.run(story())


def test_a_commit_that_follows_is_taken_and_so_is_a_history_that_comes_back(world: GitPlatform) -> None:
    before = world.work.git("rev-parse", "main").strip()
    rewritten(world)
    asyncio.run(world.settle())
    world.work.git("reset", "--quiet", "--hard", before)
    world.work.git("rm", "--quiet", "two.yaml")
    world.work.commit(one=ONE)
    asyncio.run(world.settle())
    assert asyncio.run(world.deployed()) == {"one"}
    assert asyncio.run(world.record()).offered == ""


def test_an_approval_counts_once(world: GitPlatform) -> None:
    """Fault table, "force push": a server that is set back later to a commit that was approved then asks again."""
    commit = rewritten(world)

    async def story() -> None:
        await world.settle()
        await world.approve(commit)
        await world.settle()
        world.work.commit(two=TWO)
        await world.settle()
        assert await world.deployed() == {"one", "two"}
        world.work.git("reset", "--quiet", "--hard", commit)
        await world.settle()
        assert await world.deployed() == {"one", "two"}
        assert (await world.record()).offered == commit

    asyncio.run(story())


def test_another_path_in_the_configuration_is_its_own_approval(world: GitPlatform) -> None:
    rewritten(world)
    world.restart(path="elsewhere")
    asyncio.run(world.settle())
    assert asyncio.run(world.record()).offered == ""


def test_a_moved_tag_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it moved forward: a tag is a promise."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = GitPlatform(tmp_path, ref="refs/tags/v1")
    world.work.commit(one=ONE)
    world.work.git("tag", "v1")
    asyncio.run(world.settle())
    world.work.commit(two=TWO)
    world.work.git("tag", "--force", "v1")
    asyncio.run(world.settle())
    assert asyncio.run(world.deployed()) == {"one"}
    assert "tag v1 was moved" in world.notices[-1]


def released(world: GitPlatform, tag: str, **files: str) -> str:
    """A commit, and the tag of its version."""
    commit = world.work.commit(**files)
    world.work.git("tag", "--force", tag)
    return commit


def test_a_range_of_versions_goes_to_higher_ones_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that is taken back, or that is not any more what it was, waits for a person; after a restart as well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = GitPlatform(tmp_path, ref="semver:^1")
    first = released(world, "v1.4.0", one=ONE)
    asyncio.run(world.settle())
    world.work.git("checkout", "--quiet", "-b", "hotfix")
    second = released(world, "v1.4.1", one=ONE, two=TWO)

    async def told(offered: str, why: str, version: str) -> None:
        await world.settle()
        record = await world.record()
        assert (record.offered, record.version) == (offered, version)
        assert [row["message"] for row in record.causes] == ([why] if why else [])

    async def story() -> None:
        await told("", "", "v1.4.1")  # whatever branch it is on
        assert await world.deployed() == {"one", "two"}
        rebuilt = released(world, "v1.4.1+build.2", one=ONE)
        same = "the highest version in ^1 was v1.4.1 and is v1.4.1+build.2 now, which is not higher"
        await told(rebuilt, same, "v1.4.1")
        world.work.git("tag", "--delete", "v1.4.1+build.2")
        world.work.git("reset", "--quiet", "--hard", second)
        world.work.git("tag", "--delete", "v1.4.1")
        lower = "the highest version in ^1 was v1.4.1 and is v1.4.0 now, which is not higher"
        await told(first, lower, "v1.4.1")
        world.restart()
        await told(first, lower, "v1.4.1")
        moved = released(world, "v1.4.1", one=ONE)
        await told(moved, f"tag v1.4.1 was moved from {second[:7]} to {moved[:7]}", "v1.4.1")
        assert await world.deployed() == {"one", "two"}
        released(world, "v1.10.0", one=ONE, two=TWO)
        await told("", "", "v1.10.0")
        world.work.git("tag", "--delete", "v1.10.0")
        await world.settle()
        await world.approve(moved)
        await told("", "", "v1.4.1")

    asyncio.run(story())
