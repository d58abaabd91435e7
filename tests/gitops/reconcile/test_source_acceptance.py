"""A source goes forward; rewritten history, a moved tag and a replaced repository wait for a person (rulings, *Sources*; I8)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops.source import VersionRef, parse_ref
from gitops.source.version_range import VersionRange
from tests.support.git.platform import GitPlatform, config_maps, rewritten, settled
from tests.support.platform import CONFIG_MAPS


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[GitPlatform]:
    with settled(tmp_path) as platform:
        yield platform


def test_rewritten_history_is_held_and_the_commit_before_stays_in_force(platform: GitPlatform) -> None:
    commit = rewritten(platform)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    record = platform.record()
    assert (record.state, record.offered) == ("Held", commit)
    assert record.causes[0]["reason"] == "HistoryRewritten"
    assert f"levelgate approve source/platform --commit {commit[:12]}" in platform.notices[-1]
    platform.request("DELETE", f"{CONFIG_MAPS}/two")
    count = len(platform.notices)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]  # drift is healed
    assert len(platform.notices) == count  # it is told once
    platform.approve(commit)
    platform.settle()
    assert platform.listed("configmaps") == ["one"]
    assert platform.record().offered == ""


def test_it_is_held_after_a_restart_as_well(platform: GitPlatform) -> None:
    """By the record of the source: the process remembers nothing, and the cache still has the commit."""
    commit = rewritten(platform)
    platform.restart()
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    assert platform.record().offered == commit


def test_without_the_commit_before_nothing_of_the_source_is_deleted(platform: GitPlatform) -> None:
    """The cache is lost: what was accepted cannot be read any more, and what was rewritten is not taken for it."""
    commit = rewritten(platform)
    shutil.rmtree(platform.cache)
    platform.restart()
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    assert "HELD: history was rewritten" in platform.notices[-1]
    platform.approve(commit)
    platform.settle()
    assert platform.listed("configmaps") == ["one"]


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


def test_an_instance_behind_a_gate_is_healed_whatever_becomes_of_git(tmp_path: Path) -> None:
    """S1-25: from its applied revision: with the history rewritten, the copy lost, and the definition deleted from Git, one after the other."""
    config = f"{CONFIG_MAPS}/a-config"
    ungated = "\n".join(line for line in DEFINITION.splitlines() if "propagateWhen" not in line)
    instance = {"instance.yaml": INSTANCE}
    with GitPlatform(tmp_path) as platform:

        def heals(step: str) -> None:
            """Delete the object of the instance; the process creates it as it was applied."""
            platform.request("DELETE", config)
            platform.settle()
            assert platform.request("GET", config)["data"] == {"text": "hello", "of": "one"}, step

        def lose_copy() -> None:
            shutil.rmtree(platform.cache)
            platform.restart()
            platform.settle()

        platform.commit({**instance, "definition.yaml": ungated.replace("REVISION", "one")})
        platform.settle()
        platform.commit({**instance, "definition.yaml": DEFINITION.replace("REVISION", "two")})
        platform.settle()
        heals("behind the gate")
        platform.work.git("checkout", "--quiet", "--orphan", "other")
        commit = platform.commit(instance)
        platform.work.git("branch", "--force", "main", "other")
        platform.settle()
        heals("history rewritten")
        lose_copy()
        heals("copy lost as well")
        assert "HistoryRewritten" in {cause["reason"] for cause in platform.record().causes}
        platform.approve(commit)
        platform.settle()
        assert platform.record().target == commit
        heals("definition deleted from Git")
        lose_copy()
        heals("and the copy lost again")
        platform.commit({**instance, "definition.yaml": ungated.replace("REVISION", "three")})
        platform.settle()
        assert platform.request("GET", config)["data"]["of"] == "three"


def test_a_commit_that_follows_is_taken_and_so_is_a_history_that_comes_back(platform: GitPlatform) -> None:
    before = platform.work.git("rev-parse", "main").strip()
    rewritten(platform)
    platform.settle()
    platform.work.git("reset", "--quiet", "--hard", before)
    platform.commit(config_maps("one"))
    platform.settle()
    assert platform.listed("configmaps") == ["one"]
    assert platform.record().offered == ""


def test_an_approval_counts_once(platform: GitPlatform) -> None:
    """Fault table, "force push": a server that is set back later to a commit that was approved then asks again."""
    commit = rewritten(platform)
    platform.settle()
    platform.approve(commit)
    platform.settle()
    platform.commit(config_maps("one", "two"))
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    platform.work.git("reset", "--quiet", "--hard", commit)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    assert platform.record().offered == commit


def test_another_path_in_the_configuration_is_its_own_approval(platform: GitPlatform) -> None:
    rewritten(platform)
    platform.retarget(path="elsewhere")
    platform.settle()
    assert platform.record().offered == ""


def test_a_moved_tag_is_held(tmp_path: Path) -> None:
    """Also where it moved forward: a tag is a promise."""
    with GitPlatform(tmp_path) as platform:
        platform.retarget(ref=parse_ref("refs/tags/v1"))
        released(platform, "v1", "one")
        platform.settle()
        released(platform, "v1", "one", "two")
        platform.settle()
        assert platform.listed("configmaps") == ["one"]
        assert "tag v1 was moved" in platform.notices[-1]


def released(platform: GitPlatform, tag: str, *names: str) -> str:
    """Commit these ConfigMaps, and point a tag to the commit."""
    commit = platform.commit(config_maps(*names))
    platform.work.git("tag", "--force", tag)
    return commit


def test_a_range_of_versions_goes_to_higher_ones_alone(tmp_path: Path) -> None:
    """A release that is taken back, or that is not any more what it was, waits for a person; after a restart as well."""
    with GitPlatform(tmp_path) as platform:
        platform.retarget(ref=VersionRef(VersionRange.parse("^1")))
        first = released(platform, "v1.4.0", "one")
        platform.settle()
        platform.work.git("checkout", "--quiet", "-b", "hotfix")
        second = released(platform, "v1.4.1", "one", "two")

        def told(offered: str, why: str, version: str) -> None:
            platform.settle()
            record = platform.record()
            assert (record.offered, record.version) == (offered, version)
            assert [row["message"] for row in record.causes] == ([why] if why else [])

        told("", "", "v1.4.1")  # whatever branch it is on
        assert platform.listed("configmaps") == ["one", "two"]
        rebuilt = released(platform, "v1.4.1+build.2", "one", "two")
        same = "the highest version in ^1 was v1.4.1 and is v1.4.1+build.2 now, which is not higher"
        told(rebuilt, same, "v1.4.1")
        platform.work.git("tag", "--delete", "v1.4.1+build.2")
        platform.work.git("reset", "--quiet", "--hard", second)
        platform.work.git("tag", "--delete", "v1.4.1")
        lower = "the highest version in ^1 was v1.4.1 and is v1.4.0 now, which is not higher"
        told(first, lower, "v1.4.1")
        platform.restart()
        told(first, lower, "v1.4.1")
        moved = released(platform, "v1.4.1", "one", "two")
        told(moved, f"tag v1.4.1 was moved from {second[:7]} to {moved[:7]}", "v1.4.1")
        assert platform.listed("configmaps") == ["one", "two"]
        released(platform, "v1.10.0", "one", "two")
        told("", "", "v1.10.0")
        platform.work.git("tag", "--delete", "v1.10.0")
        platform.settle()
        platform.approve(moved)
        told("", "", "v1.4.1")
