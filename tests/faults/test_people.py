"""The fault table, what people and programs in the cluster do to objects, their marks and their parents."""

from __future__ import annotations

import asyncio
import json

import pytest

from applier.causes import Reason
from tests.support.definitions import config_map
from tests.support.faults import drift
from tests.support.faults.kills import plant
from tests.support.faults.lane import Lane, PathKey, path_of
from tests.support.faults.observer import disturbed
from tests.support.faults.proxy import WRITES, Kill, Meanwhile, Moment, Rule
from tests.support.faults.scenarios import CHAIN, plain
from tests.support.faults.table import assert_settles, broken, configmaps, deleted, names, platform, reference, settled
from tests.support.platform import MERGE


async def gone(lane: Lane, key: PathKey) -> None:
    for _ in range(2400):
        if await lane.get(key) is None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{key} is still there")


async def test_a_finalizer_holds_what_the_object_uses_until_it_is_released(lane: Lane) -> None:
    """Row "finalizer never removed on D (then released)" (I4): C, B and A are untouched; then D, C, B, A."""
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    start = await settled(lane, platform(lane))
    await lane.patch(lane.config_map("one-d"), {"metadata": {"finalizers": ["test.example/hold"]}})
    start, since = await lane.objects(), lane.audit.mark()
    await lane.commit(platform(lane, {}))
    for _ in range(3):
        await lane.live(wait=0.0)
    assert {"one-a", "one-b", "one-c", "one-d"} <= await names(lane)
    assert deleted(lane, since) == ["one-d"]
    await lane.patch(lane.config_map("one-d"), {"metadata": {"finalizers": None}})
    await assert_settles(lane, wanted)
    assert deleted(lane, since) == ["one-d", "one-c", "one-b", "one-a"]
    assert broken(lane, start, since, wanted) == []


async def test_a_label_that_somebody_forged_deletes_nothing(lane: Lane) -> None:
    """Row "label forged" (I2): the object bears the label of the set, with its record, but our apply does not own it."""
    await settled(lane, platform(lane))
    member = await lane.get(lane.config_map("one-d"))
    assert member is not None
    metadata = {name: member["metadata"][name] for name in ("labels", "annotations")}
    await lane.create({"metadata": {"name": "one-y", **metadata}, "data": {"text": "theirs"}})
    foreign = [*await plant(lane), lane.config_map("one-y")]
    start, since = await lane.objects(), lane.audit.mark()
    await lane.commit(platform(lane, {"a": ""}))
    life = await lane.live(wait=0.0)
    assert life.error is None
    end = await lane.objects()
    assert disturbed(start, end, foreign) == []
    assert broken(lane, start, since, {}, foreign=foreign) == []
    assert "one-d" not in await names(lane)
    assert await lane.quiet() == []


async def test_a_label_that_somebody_removed_is_put_back(lane: Lane) -> None:
    """Row "label removed" (I2, I7): apply restores it; a later prune still finds the member."""
    wanted = await settled(lane, platform(lane))
    await lane.patch(lane.config_map("one-c"), {"metadata": {"labels": {"applyset.kubernetes.io/part-of": None}}})
    await assert_settles(lane, wanted)
    since = lane.audit.mark()
    await settled(lane, platform(lane, {}))
    assert deleted(lane, since) == ["one-d", "one-c", "one-b", "one-a"]


async def test_what_lost_its_label_and_is_dropped_is_told_and_goes_once_it_is_given_back(lane: Lane) -> None:
    """Row "label removed, then dropped" (I2, I12): nothing without a label is deleted, whichever write the process dies at."""
    await settled(lane, platform(lane))
    await lane.patch(lane.config_map("one-d"), {"metadata": {"labels": {"applyset.kubernetes.io/part-of": None}}})
    await lane.commit(platform(lane, dict(list(CHAIN.items())[:3])))
    start = await lane.objects()
    for nth in (1, 2, 3):
        await lane.live(Rule(Kill(Moment.ANSWERED), methods=WRITES, nth=nth), wait=0.0)
    life = await lane.live()
    assert life.error is None
    assert disturbed(start, await lane.objects(), [lane.config_map("one-d")]) == []
    assert await lane.quiet() == []
    record = await lane.get(lane.record("git"))
    assert record is not None
    told = json.loads(record["data"]["leftBehind"])
    assert [member["object"] for member in told["members"]] == [f"ConfigMap/{lane.namespace}/one-d"]
    given_back = {"metadata": {"labels": {"applyset.kubernetes.io/part-of": told["members"][0]["set"]}}}
    await lane.patch(lane.config_map("one-d"), given_back)
    await lane.live()
    assert await names(lane) == {"one-a", "one-b", "one-c", "one-z"}
    assert await lane.quiet() == []


async def test_a_label_stolen_for_another_set_is_taken_for_that_set(lane: Lane) -> None:
    """Row "label stolen": with the label of a set that nobody knows the object is left to it (I2)."""
    await settled(lane, platform(lane))
    other = "applyset-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-v1"
    place = f"{path_of(lane.config_map('one-d'))}?fieldManager=kubectl-label"
    label = {"metadata": {"labels": {"applyset.kubernetes.io/part-of": other}}}
    await lane.ask("PATCH", place, label, kind=MERGE)
    start = await lane.objects()
    for commit in (platform(lane, text="two"), platform(lane, {})):
        await lane.commit(commit)
        await lane.live(wait=0.0)
    assert disturbed(start, await lane.objects(), [lane.config_map("one-d")]) == []


@pytest.mark.parametrize("what", ["update", "apply"])
async def test_drift_by_another_manager_is_healed_and_what_it_means_waits_for_it(lane: Lane, what: str) -> None:
    """Row "fields of ours edited" (I7): an update is taken back; an apply costs that object alone, and one try for each process."""
    wanted = await settled(lane, platform(lane))
    key = lane.config_map("one-b")
    await (drift.update if what == "update" else drift.apply)(lane, key)
    await lane.live(wait=0.0)
    found = await lane.get(key)
    assert found is not None
    assert found["data"]["text"] == ("one" if what == "update" else "by an operator")
    since = lane.audit.mark()
    await lane.live(wait=0.0, passes=3)
    tried = [event.code for event in lane.events(since) if event.verb == "patch" and event.name == "one-b"]
    assert tried == ([] if what == "update" else [409])
    await drift.withdraw(lane)
    await assert_settles(lane, wanted)


async def test_a_record_that_somebody_wrote_into_is_put_right(lane: Lane) -> None:
    """Row "other manager edits fields" (I2, I4): the record says what may be deleted when. It is nobody's but ours, so no claim of others counts."""
    await settled(lane, platform(lane))
    before = await lane.get(lane.config_map("one-d"))
    forged = {"internal.levelgate.dev/deps": "", "internal.levelgate.dev/self": "nobody"}
    await lane.patch(lane.config_map("one-d"), {"metadata": {"annotations": forged}})
    since = lane.audit.mark()
    await settled(lane, platform(lane, text="two"))
    after = await lane.get(lane.config_map("one-d"))
    assert before is not None
    assert after is not None
    assert {name: after["metadata"]["annotations"][name] for name in forged} == {
        name: before["metadata"]["annotations"][name] for name in forged
    }
    await settled(lane, platform(lane, {}, text="two"))
    assert deleted(lane, since) == ["one-d", "one-c", "one-b", "one-a"]


async def test_a_scope_that_somebody_cut_is_rebuilt_before_anything_is_written(lane: Lane) -> None:
    """Row "parent edited, rolled back" (I1): the kinds are gone from the instance and from the source's record, one of them with its last member
    from Git as well.
    """
    secret = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": lane.namespace}})
    before = {"git": {**platform(lane)["git"], "secret.json": secret}}
    wanted = await reference(lane, before, platform(lane, {}))
    await settled(lane, before)
    cut = {"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": ""}}}
    await lane.patch(lane.instance("chains", "one"), cut)
    await lane.patch(lane.record("git"), cut)
    await lane.commit(platform(lane, {}))
    await assert_settles(lane, wanted)


async def test_parents_that_somebody_deleted_come_back_with_their_members(lane: Lane) -> None:
    """Row "parent deleted" (I1, I2): instance and source's record go; no member is deleted for it."""
    wanted = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.delete(lane.instance("chains", "one"))
    await lane.delete(lane.record("git"))
    await assert_settles(lane, wanted)
    assert deleted(lane, since) == []
    found = await lane.objects()
    for name in ("one-a", "one-d"):
        assert found[lane.config_map(name)]["metadata"]["uid"] == wanted[lane.config_map(name)]["metadata"]["uid"]


async def test_a_crd_that_somebody_deleted_comes_back_with_its_instances(lane: Lane) -> None:
    """Row "CRD deleted under us" (I9, I12): the instance goes with it and is made again; children stay, others are untouched."""
    other = {"other.json": plain(lane, "other", text="stays")}
    commit = {"git": {**platform(lane)["git"], **other}}
    wanted = await settled(lane, commit)
    since = lane.audit.mark()
    await lane.delete(lane.crd("chains"))
    await lane.patch(lane.instance("chains", "one"), {"metadata": {"finalizers": None}})
    await assert_settles(lane, wanted)
    assert deleted(lane, since) == []


async def test_a_namespace_that_is_going_away_is_waited_for(lane: Lane) -> None:
    """Row "namespace stuck terminating" (I9): what is to be in it waits, all else goes on; then it is made again."""
    space = f"{lane.namespace}-n"
    made = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    files = {
        "space.json": made,
        "inside.json": config_map(space, "inside"),
        "other.json": plain(lane, "other", text="one"),
    }
    await settled(lane, {"git": files})
    held, inside = (PathKey("", "configmaps", space, name) for name in ("held", "inside"))
    await lane.ask(
        "POST",
        f"/api/v1/namespaces/{space}/configmaps",
        {"metadata": {"name": "held", "finalizers": ["test.example/hold"]}},
    )
    await lane.delete(PathKey("", "namespaces", "", space))
    await gone(lane, inside)
    await lane.commit({"git": {**files, "other.json": plain(lane, "other", text="two")}})
    since = lane.audit.mark()
    life = await lane.live(wait=2.0)
    assert life.error is None
    assert life.found is not None
    told = [node.blocked.reason for one in life.found.plan.sets for node in one.nodes if node.blocked]
    assert told[0] is Reason.PROGRESSING
    assert not any(reason.is_failure for reason in told)
    other = await lane.get(lane.config_map("other"))
    assert other is not None
    assert other["data"] == {"text": "two"}
    assert [e for e in lane.events(since) if e.user == "levelgate" and e.is_write and space in e.uri] == []
    await lane.patch(held, {"metadata": {"finalizers": None}})
    life = await lane.live(wait=1200.0)
    assert await lane.get(inside) is not None
    await lane.commit({"git": {"other.json": plain(lane, "other", text="two")}})
    await lane.live()


async def test_an_object_that_somebody_makes_again_each_time_is_never_deleted_as_ours(lane: Lane) -> None:
    """Row "object re-created by other" (I2): after our deletion another program makes it anew, with the label of the set; that one is theirs."""
    await settled(lane, platform(lane))
    ours = await lane.get(lane.config_map("one-d"))
    assert ours is not None
    theirs = {"metadata": {"name": "one-d", "labels": ours["metadata"]["labels"]}, "data": {"text": "theirs"}}
    await lane.commit(platform(lane, {}))

    async def again() -> None:
        if await lane.get(lane.config_map("one-d")) is None:
            await lane.create(theirs)

    await lane.live(Rule(Meanwhile(again), methods={"DELETE"}, path=f"{configmaps(lane)}one-[abc]", times=0))
    found = await lane.get(lane.config_map("one-d"))
    assert found is not None
    assert found["data"] == {"text": "theirs"}
    assert not {"one-a", "one-b", "one-c"} & await names(lane)
