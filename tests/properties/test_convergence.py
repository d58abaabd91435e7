"""Whatever was committed and wherever the program died: in the end the cluster is as the last commit says (I1, I4, I7; S0-18, S0-19)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import ParamSpec

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from applier.state.managed_fields import apply_entry
from applier.state.observed import label
from renderer import well_known
from renderer.kinds import CRD, NAMESPACE
from tests.support.properties.cluster import World
from tests.support.properties.platform import Files, Platform, essence
from tests.support.properties.repositories import GROUP, faults, near, tangles

P = ParamSpec("P")
FUZZ = int(os.environ.get("LEVELGATE_FUZZ", "0"))


def examples(usual: int) -> settings:
    return settings(
        derandomize=not FUZZ,
        deadline=None,
        max_examples=usual * (FUZZ or 1),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        database=None,
        phases=(Phase.explicit, Phase.generate) if FUZZ else (Phase.explicit, Phase.generate, Phase.shrink),
        print_blob=False,
    )


def once(test: Callable[P, None]) -> Callable[P, None]:
    """A test that stands below `given` and costs much: values that have passed do not come again. Hypothesis tells examples apart by the choices
    that led to them, and different ones may lead to the same values.
    """
    passed = set[str]()

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        values = repr((arguments, named))
        if values not in passed:
            test(*arguments, **named)
            passed.add(values)

    return run


def fresh(files: Files) -> dict[str, object]:
    """What a cluster looks like that has only ever seen this commit."""
    return _fresh(tuple(files.items()))


@cache
def _fresh(files: tuple[tuple[str, str], ...]) -> dict[str, object]:
    with Platform() as reference:
        reference.commit(dict(files))
        reference.settle(anew=False)
        assert reference.broken == []
        return essence(reference.cluster)


MEDDLED = ("delete member", "delete instance", "delete crd", "edit member", "update member", "unlabel member", "tick")
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

STUCK = "example.com/stuck"
"""A finalizer of somebody else."""

OPERATOR = "operator"
"""Another tool that applies."""


def meddle(platform: Platform, what: str, which: int) -> None:
    """What people do to a cluster behind Git's back."""
    objects = platform.cluster.objects
    found = [
        key
        for key, obj in objects.items()
        if label(obj, well_known.PART_OF) and key.kind not in {CRD.kind, NAMESPACE.kind}
    ]
    instances = [key for key in found if key.group == GROUP]
    members = [key for key in found if key.group != GROUP]
    among = instances if what.endswith("instance") else members
    if what == "delete crd":
        among = [key for key, obj in objects.items() if key.kind == CRD.kind and label(obj, well_known.PART_OF)]
    if what in {"edit member", "update member", "apply member"}:
        among = [key for key in members if not objects[key].get("immutable")]
    if what == "tick" or not among:
        platform.cluster.tick()
        return
    key = sorted(among)[which % len(among)]
    match what:
        case "delete member" | "delete instance" | "delete crd":
            platform.cluster.take_away(key)
        case "apply member":
            platform.cluster.apply_by(OPERATOR, key, {"data": {"text": "by an operator"}})
        case "edit member" | "update member":
            manifest = {**platform.cluster.objects[key], "data": {"text": "by hand"}}
            platform.cluster.put(
                {name: manifest[name] for name in ("apiVersion", "kind", "metadata", "data")},
                manager="kubectl-edit" if what == "edit member" else "script",
            )
        case "unlabel member":
            platform.cluster.edit(key, lambda obj: obj["metadata"]["labels"].pop(well_known.PART_OF))
        case "stick member" | "stick instance":
            platform.cluster.edit(key, lambda obj: obj["metadata"].setdefault("finalizers", []).append(STUCK))


def unstick(platform: Platform) -> None:
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
    with Platform(World(instant=instant)) as platform:
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
    with Platform() as platform:
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
