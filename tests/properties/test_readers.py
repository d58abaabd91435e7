"""Histories with instances that read others by `externalRef`: no read object goes while a reader that goes too is there (I4)."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from applier.applyset.member import Member
from applier.state.observed import label
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import ClusterWrite
from tests.support.properties.examples import examples
from tests.support.properties.meddling import STUCK
from tests.support.properties.reading_histories import READERS, reading_histories
from tests.support.properties.repositories import faults


class Watched:
    """What is deleted too early, by the files of the commit at that time."""

    def __init__(self, platform: CheckedPlatform) -> None:
        self.platform, self.files = platform, dict[str, str]()
        self._first = platform.cluster.witness
        platform.cluster.witness = self

    def __call__(self, write: ClusterWrite) -> None:
        self._first(write)
        if write.verb != "delete":
            return
        for key, obj in self.platform.cluster.objects.items():
            goes = bool(label(obj, well_known.PART_OF)) and f"{key.name.partition('-')[0]}.json" not in self.files
            if goes and key_hash(write.key) in Member.from_object(obj).reads:
                self.platform.broken.append(f"I4: {write.key} was deleted while {key} reads it, which goes too")


@examples(15)
@given(history=reading_histories(), crashes=st.lists(faults(), max_size=3), stuck=st.sampled_from(["", *READERS]))
def test_no_read_object_goes_before_its_readers_that_go_too(
    history: list[Files], crashes: list[Mapping[int, str]], stuck: str
) -> None:
    """Whatever the program dies of, and while a reader has a finalizer. In the end only what Git says is left."""
    with CheckedPlatform() as platform:
        watched = Watched(platform)
        for number, files in enumerate(history):
            watched.files = dict(files)
            platform.commit(files)
            for crash in crashes if number else ():
                platform.run(crash)
            platform.settle(anew=False)
            hanging = ObjectKey("", "ConfigMap", "default", f"{stuck}-c")
            if hanging in platform.cluster.objects:
                if number:
                    platform.cluster.edit(hanging, lambda obj: obj["metadata"].pop("finalizers", None))
                else:
                    platform.cluster.edit(hanging, lambda obj: obj["metadata"].update(finalizers=[STUCK]))
                platform.settle(anew=False)
            assert platform.broken == []
        instances = {key.name for key in platform.cluster.objects if key.kind in {"Base", "Reader"}}
        assert instances == {name.removesuffix(".json") for name in history[-1]} & {"z0", "z1", *READERS}
