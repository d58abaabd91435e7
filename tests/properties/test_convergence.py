"""Whatever was committed and wherever the program died: in the end the cluster is as the last commit says (I1, I4, I7; S0-18, S0-19)."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from applier.state.managed_fields import apply_entry
from tests.support.properties.checked_platform import CheckedPlatform, Files, essence
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.meddling import MEDDLED, OPERATOR, STUCK, fresh, meddle
from tests.support.properties.repositories import faults, near, tangles

BETWEEN = (
    "delete member",
    "delete instance",
    "delete crd",
    "edit member",
    "apply member",
    "stick member",
    "stick instance",
)
"""What happens to a cluster between commits."""


def unstick(platform: CheckedPlatform) -> None:
    """Whoever set finalizers takes them off, and who applied fields of Git no longer means them."""
    for key, obj in platform.cluster.objects.items():
        if apply_entry(obj, OPERATOR):
            platform.cluster.apply_by(OPERATOR, key, {})
        if STUCK in obj["metadata"].get("finalizers", ()):
            platform.cluster.edit(key, lambda one: one["metadata"]["finalizers"].remove(STUCK))


History = list[tuple[Files, list[Mapping[int, str]], tuple[str, int] | None]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, Files]:
    """Commits, what befalls the passes over each, and what somebody does after them; and the last commit."""
    last = draw(tangles(whole=True))
    commit = st.tuples(
        tangles() | near(last),
        st.lists(faults(), min_size=1, max_size=3),
        st.none() | st.tuples(st.sampled_from(BETWEEN), st.integers(0, 20)),
    )
    return draw(st.lists(commit, min_size=1, max_size=3)), last


@examples(32)
@given(histories(), st.booleans())
@once
def test_after_any_history_the_cluster_is_as_if_only_the_last_commit_had_been(
    story: tuple[History, Files], instant: bool
) -> None:
    """I1, I4, I7, S0-19: every commit is interrupted somewhere, and somebody meddles with the cluster; then the last one is left alone."""
    history, last = story
    with CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        for files, passes, meddled in history:
            platform.commit(files)
            for befalls in passes:
                platform.run(befalls)
                platform.cluster.tick()
            if meddled:
                platform.parents_may_vanish |= meddled[0] in {"delete instance", "delete crd"}
                meddle(platform, *meddled)
        platform.commit(last)
        platform.wanted = fresh(last)
        platform.run()
        unstick(platform)
        platform.settle()
        assert platform.broken == []
        assert essence(platform.cluster) == fresh(last)
        writes = len(platform.cluster.writes)
        platform.run()
        assert platform.cluster.writes[writes:] == []


@examples(24)
@given(
    files=tangles(whole=True),
    meddling=st.lists(st.tuples(st.sampled_from(MEDDLED), st.integers(0, 20), st.booleans()), min_size=1, max_size=4),
)
@once
def test_what_people_change_by_hand_is_brought_back(files: Files, meddling: list[tuple[str, int, bool]]) -> None:
    """Drift of members and of instances that Git still wants heals, whatever was deleted, edited or unlabelled, in whatever order."""
    with CheckedPlatform() as platform:
        platform.commit(files)
        platform.settle()
        platform.wanted = wanted = essence(platform.cluster)
        platform.parents_may_vanish = True
        for what, which, between in meddling:
            meddle(platform, what, which)
            if between:
                platform.run()
        platform.settle()
        assert platform.broken == []
        assert essence(platform.cluster) == wanted
