"""What was agreed to and nothing else: a plan that somebody read is carried out, another one is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from applier.applyset.adoption import NO_ADOPTION, Adoption
from gitops import source_config
from gitops.daemon.commit_acceptance import PlanHashMismatch, require_plan_hash
from gitops.explain.overview import Overview
from gitops.explain.phrasing import describe_unreadable
from gitops.plan import planner
from gitops.reconcile.sources import SourceState
from gitops.records.requests import RequestSubject, approve_commit
from gitops.source import locations
from gitops.text import TimeFormat
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import Catalog
from renderer.identity import source_parent
from tests.support.git.platform import ONE, GitPlatform, settled
from tests.support.platform import CONFIG_MAPS

THREE = ONE.replace("one", "three")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[GitPlatform]:
    with settled(tmp_path) as platform:
        platform.configure(require_plan=True)
        yield platform


def working_tree(platform: GitPlatform) -> Catalog:
    """Return the files of the working tree, committed or not."""
    return source_config.load_catalog(locations.read_location(str(platform.work.path)), source=platform.source)


def planned(platform: GitPlatform, adoption: Adoption = NO_ADOPTION) -> str:
    """Return the hash of the plan for the working tree, as `levelgate plan` prints it."""
    state = SourceState(working_tree(platform), adoption=adoption)
    plan = planner.plan_against_cluster(platform.cluster, state, clock=platform.clock, cluster_name=LOCAL)
    return platform.call(plan).hash


def create_three(platform: GitPlatform) -> None:
    """Create the object that the next commit declares, as another field manager."""
    platform.request("POST", f"{CONFIG_MAPS}?fieldManager=somebody", {"metadata": {"name": "three"}})


def test_a_commit_with_the_hash_of_its_plan_is_taken(platform: GitPlatform) -> None:
    platform.work.write("three.yaml", THREE)
    platform.work.commit(f"Add three\n\nBecause.\n\nReviewed-by: somebody\nLevelgate-Plan: {planned(platform)}")
    platform.settle()
    assert platform.listed("configmaps") == ["one", "three", "two"]
    platform.restart()
    platform.settle()
    assert platform.record().state != "Held", "there is another plan once it is carried out"


def test_the_plan_is_made_under_the_configuration_of_the_source(platform: GitPlatform) -> None:
    adoption = Adoption.parse("IfUnowned")
    platform.configure(adoption=adoption)
    create_three(platform)
    platform.work.write("three.yaml", THREE)
    agreed = planned(platform, adoption)
    assert agreed != planned(platform)
    platform.work.commit(f"Add three\n\nLevelgate-Plan: {agreed}")
    platform.settle()
    assert platform.record().state != "Held"


@pytest.mark.parametrize("said", ["", "\n\nLevelgate-Plan: 0123456789abcdef"], ids=["none", "another"])
def test_any_other_commit_is_held_until_a_person_approves_it(platform: GitPlatform, said: str) -> None:
    head = platform.work.commit(f"Add three{said}", three=THREE)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    record = platform.record()
    assert (record.state, record.offered) == ("Held", head)
    assert record.causes[0]["reason"] == "ApprovalRequired"
    assert f"its plan is {planned(platform)}" in platform.notices[-1]
    told = list(platform.notices)
    platform.settle()
    assert platform.notices == told, "said again at each look, though nothing has changed"
    platform.approve(head)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "three", "two"]


def test_a_plan_that_the_cluster_has_outrun_is_held(platform: GitPlatform) -> None:
    """The hash is of a plan against the cluster as it was: what changed since has not been read by anybody."""
    platform.work.write("three.yaml", THREE)
    agreed = planned(platform)
    create_three(platform)
    platform.work.commit(f"Add three\n\nLevelgate-Plan: {agreed}")
    platform.settle()
    assert platform.record().state == "Held"


def test_once_refuses_a_plan_that_is_another(platform: GitPlatform) -> None:
    platform.work.write("three.yaml", THREE)
    agreed = planned(platform)
    state = SourceState(working_tree(platform))

    def require(plan_hash: str) -> None:
        required = require_plan_hash(platform.cluster, state, plan_hash, clock=platform.clock, cluster_name=LOCAL)
        platform.call(required)

    require(agreed.upper())
    with pytest.raises(PlanHashMismatch, match=f"the plan is {agreed} now, not {agreed[:-1]}x"):
        require(f"{agreed[:-1]}x")


def test_the_first_commit_of_all_can_be_agreed_to(tmp_path: Path) -> None:
    """Nothing was taken yet, so there is no record of the source; who looks is told all the same, and what is advised can be done."""
    with GitPlatform(tmp_path) as platform:
        platform.configure(require_plan=True)
        platform.retarget(path="apps")
        head = platform.commit({"apps/one.yaml": ONE})
        platform.reconciler.follows = [platform.source]
        platform.settle()
        found = platform.call(Overview.from_cluster(platform.cluster, now=platform.clock.now()))
        why, taken = describe_unreadable("source/platform", found.sources["platform"], TimeFormat())
        assert f"levelgate approve source/platform --commit {head[:12]}" in why
        assert taken == "Levelgate has not accepted a commit of source/platform yet."
        key = source_parent("platform")
        live = platform.call(platform.cluster.get(key)) or {}
        subject = RequestSubject(key, live, None, "", platform.clock.now(), is_instance=False)
        platform.call(platform.cluster.merge(key, approve_commit(subject, head[:12], "").patch, manager="person"))
        platform.settle()
        assert platform.listed("configmaps") == ["one"]
