"""Whatever was committed, and whichever label was taken off: what we wrote is a member, or nobody's, or told as left behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from applier.applyset.member import is_record_proven
from applier.state.observed import label
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey, applyset_id
from renderer.kinds import CRD, NAMESPACE
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.meddling import fresh
from tests.support.properties.repositories import GROUP, faults, near, tangles

Story = list[tuple[Files, list[Mapping[int, str]], list[tuple[bool, int]]]]


@st.composite
def stories(draw: st.DrawFn) -> tuple[Story, Files]:
    """Commits, what befalls the passes over each, and of which members people take the label off then; and the last commit."""
    last = draw(tangles(whole=True))
    commit = st.tuples(
        tangles() | near(last),
        st.lists(faults(), min_size=1, max_size=2),
        st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=3),
    )
    return draw(st.lists(commit, min_size=1, max_size=3)), last


def take_label(platform: CheckedPlatform, *, of_instance: bool, which: int, kept: Collection[str] = ()) -> None:
    """Take the label off a member that is none of the *kept* ones."""
    among = sorted(
        key
        for key, obj in platform.cluster.objects.items()
        if label(obj, well_known.PART_OF)
        and key.group_kind not in {CRD, NAMESPACE}
        and (key.group == GROUP) == of_instance
        and str(key) not in kept
    )
    if among:
        platform.label(among[which % len(among)], well_known.PART_OF, None)


def told(platform: CheckedPlatform) -> dict[ObjectKey, str]:
    """What the record of the source tells as left behind, each with the set that would take it back."""
    record = platform.record()
    assert record.left_behind.count == len(record.left_behind.members)
    return {member.key: member.set_id for member in record.left_behind.members}


@examples(24)
@given(stories(), st.booleans())
@once
def test_what_lost_its_label_is_a_member_again_or_told(story: tuple[Story, Files], instant: bool) -> None:
    """I2, I12: nothing without a label is deleted, and each object with a record of ours is in a set or told. Given back, it goes."""
    history, last = story
    with CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        for files, passes, taken in history:
            platform.commit(files)
            for befalls in passes:
                platform.run(befalls)
                platform.cluster.tick()
            for of_instance, which in taken:
                take_label(platform, of_instance=of_instance, which=which)
        platform.wanted = fresh(last)
        for of_instance, which in taken:
            take_label(platform, of_instance=of_instance, which=which, kept=platform.wanted)
        platform.commit(last)
        platform.settle()
        left = told(platform)
        sets = {applyset_id(key) for key, obj in platform.cluster.objects.items() if label(obj, well_known.PARENT_ID)}
        for key, obj in platform.cluster.objects.items():
            if is_record_proven(obj) and label(obj, well_known.PART_OF) not in sets:
                assert key in left
        assert not {key for key in left if str(key) in platform.wanted}
        assert not {key for key in left if label(platform.cluster.objects[key], well_known.PART_OF)}
        for write in platform.cluster.writes:
            if write.verb == "delete" and write.key.namespace != OWN_NAMESPACE:
                assert write.before is not None
                assert label(write.before, well_known.PART_OF), write
        writes = len(platform.cluster.writes)
        platform.run()
        assert platform.cluster.writes[writes:] == []

        for key, set_id in left.items():
            if set_id:
                platform.label(key, well_known.PART_OF, set_id)
        platform.settle()
        assert [text for text in platform.broken if text.startswith(("I1", "I4", "S0-10"))] == []
        assert not {key for key, set_id in left.items() if set_id and key in platform.cluster.objects}
        assert set(told(platform)) <= {key for key, set_id in left.items() if not set_id}
