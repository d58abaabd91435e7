"""The fault table: what a cluster, and the people and programs in it, do to one process of Levelgate; one test for each row.

Each test ends as every fault must: once it is over, the state is that of a run that was left alone, and then nothing is written (I7).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from applier.cluster import Subject
from applier.reasons import Reason
from gitops.daemon.follow import Follower
from gitops.daemon.workqueue import RESYNC
from renderer.identity import GroupKind
from tests.faults.extent import first
from tests.faults.kills import differences, plant
from tests.faults.lane import FAST, Commit, Key, Lane, Object, essence, path_of
from tests.faults.observer import History, disturbed, violations
from tests.faults.proxy import (
    READS,
    Answer,
    Delay,
    Drop,
    Fault,
    Garble,
    Lost,
    Meanwhile,
    Moment,
    Older,
    Reset,
    Rule,
    Status,
    Truncate,
    Unheard,
)
from tests.faults.scenarios import CHAIN, graph, instance, plain
from tests.scenarios.definitions import config_map

NOWHERE = "https://127.0.0.1:1/"


def platform(lane: Lane, needs: Mapping[str, str] = CHAIN, *, text: str = "one", **more: Any) -> Commit:
    """A chain A, B, C, D with `z` that nothing uses."""
    return {"git": {"chain.json": graph(lane, {"z": "", **needs}, **more), "one.json": instance(lane, text=text)}}


def with_a_secret_that_uses_d(lane: Lane) -> Commit:
    return platform(lane, {**CHAIN, "s": "d"}, kinds={"s": "Secret"})


async def settled(lane: Lane, commit: Commit) -> dict[Key, Object]:
    """Brought to this commit without faults, and at rest; its state."""
    await lane.commit(commit)
    life = await lane.live()
    assert life.error is None, life.error
    assert await lane.quiet(passes=1) == []
    return await lane.objects()


async def reference(lane: Lane, *commits: Commit) -> dict[Key, Object]:
    """What these commits come to without faults."""
    for commit in commits:
        found = await settled(lane, commit)
    return found


async def assert_settles(lane: Lane, wanted: Mapping[Key, Object]) -> None:
    """I7: a new process, without faults, comes to this state, and then there is nothing to write for five passes."""
    life = await lane.live()
    assert life.error is None, life.error
    found, expected = essence(await lane.objects()), essence(wanted)
    assert found == expected, differences(found, expected)
    assert await lane.quiet() == []


def broken(
    lane: Lane, start: Mapping[Key, Object], since: int, target: Mapping[Key, Object], **options: Any
) -> list[str]:
    events = lane.events(since)
    return violations(History.of(start, events), events, target=target, **options)


def deleted(lane: Lane, since: int, resource: str = "configmaps") -> list[str]:
    """Names of what Levelgate deleted, in the order in which the server received it; requests that had no effect too."""
    events = sorted(lane.events(since), key=lambda event: event.time)
    return [e.name for e in events if (e.user, e.verb, e.resource) == ("levelgate", "delete", resource)]


async def names(lane: Lane) -> set[str]:
    found = await lane.objects()
    return {key.name for key in found if key.resource == "configmaps" and key.namespace == lane.namespace}


async def gone(lane: Lane, key: Key) -> None:
    for _ in range(600):
        if await lane.get(key) is None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{key} is still there")


async def there(lane: Lane, key: Key) -> None:
    for _ in range(600):
        if await lane.get(key) is not None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{key} is not there")


async def at_rest(follower: Follower) -> None:
    """All that is watched is watched by now, and nothing is to be done: a watch that begins is a reason to look at everything once more."""
    assert follower.attention
    begun: set[Subject] = set()
    watches = follower.attention._watches
    wake = watches.begun

    def hear(subject: Subject) -> None:
        begun.add(subject)
        wake(subject)

    watches.begun = hear
    for _ in range(600):
        if follower.reconciler.whole and begun >= follower.attention._subjects and not len(follower.queue):
            await follower.idle()
            if not len(follower.queue):
                return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not come to rest")


def configmaps(lane: Lane) -> str:
    """Paths of the lane's ConfigMaps."""
    return f"/namespaces/{lane.namespace}/configmaps/"


# ---- stale reads, missed events, lost pages


async def test_stale_reads_a_member_created_again_by_others_is_not_deleted(lane: Lane) -> None:
    """Row "stale reads", "object re-created by other between list and delete" (I2): the uid that was seen is gone, so it is a 409."""
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, {"a": "", "b": "a", "c": "b"}))
    theirs = {"metadata": {"name": "one-d"}, "data": {"text": "theirs"}}

    async def race() -> None:
        await lane.delete(lane.config_map("one-d"))
        await lane.create(theirs)

    life = await lane.live(Rule(Meanwhile(race), methods={"DELETE"}, path=f"{configmaps(lane)}one-d"))
    assert life.befallen == 1
    found = await lane.get(lane.config_map("one-d"))
    assert found is not None
    assert found["data"] == {"text": "theirs"}
    assert found["metadata"].get("labels") is None
    assert await lane.quiet() == []


async def test_stale_reads_a_member_changed_after_the_list_is_looked_at_again(lane: Lane) -> None:
    """Row "stale reads" (I2): the resourceVersion that was seen is old; somebody said `prune: disabled` in between, and it is kept."""
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, {"a": "", "b": "a", "c": "b"}))

    async def say_no() -> None:
        await lane.patch(lane.config_map("one-d"), {"metadata": {"annotations": {"levelgate.dev/prune": "disabled"}}})

    await lane.live(Rule(Meanwhile(say_no), methods={"DELETE"}, path=f"{configmaps(lane)}one-d"), wait=0.0)
    assert "one-d" in await names(lane)


async def test_stale_reads_lists_from_before_the_last_change_cost_no_order(lane: Lane) -> None:
    """Row "stale reads" (I2, I4): a whole pass on old lists deletes nothing in a wrong order, and the next one mends it."""
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    start = await settled(lane, platform(lane))
    memory: dict[str, Answer] = {}
    await lane.live(memory=memory)
    await lane.patch(lane.config_map("one-c"), {"metadata": {"labels": {"touched": "yes"}}})
    start, since = await lane.objects(), lane.audit.mark()
    await lane.commit(platform(lane, {}))
    await lane.live(Rule(Older(), methods=READS, path="/configmaps[?]", times=3), wait=0.0, memory=memory)
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


async def test_missed_events_the_next_look_at_everything_sees_what_no_watch_told_of(lane: Lane) -> None:
    """Row "missed events" (I7): events of one instance's members never arrive, all others do. A pass lists anew; it rests on no event."""
    both = {"git": {**platform(lane)["git"], "other.json": plain(lane, "other", text="stays")}}
    wanted = await settled(lane, both)
    unheard = Rule(Unheard("one-"), methods=READS, path="watch=", times=0)
    async with lane.daemon(unheard) as (follower, _proxy):
        await at_rest(follower)
        looked = follower.reconciler.whole
        await lane.delete(lane.config_map("one-b"))
        place = f"{path_of(lane.config_map('one-c'))}?fieldManager=kubectl-edit"
        await lane.ask("PATCH", place, {"data": {"text": "by hand"}}, kind="application/merge-patch+json")
        await lane.delete(lane.config_map("other"))
        await there(lane, lane.config_map("other"))
        is_missing = await lane.get(lane.config_map("one-b")) is None
        assert (
            is_missing or follower.reconciler.whole is not looked
        )  # on a busy machine it may look at everything by itself
        follower.wake(None, RESYNC)
        await there(lane, lane.config_map("one-b"))
        await follower.idle()
    found, expected = essence(await lane.objects()), essence(wanted)
    assert found == expected, differences(found, expected)


@pytest.mark.parametrize(("fault", "times"), first(1, [(Status(410), 0), (Status(500), 2), (Truncate(), 2)]), ids=repr)
async def test_a_page_of_a_list_that_is_lost_never_counts_as_empty(lane: Lane, fault: Fault, times: int) -> None:
    """Row "list page lost / continue 410" (I4): the first page is empty and names a second one, which does not come."""
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    start = await settled(lane, platform(lane))
    memory: dict[str, Answer] = {}
    await lane.live(memory=memory)
    path = next(path for path in memory if path.startswith("/api/v1/configmaps?limit"))
    page = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": "more"}, "items": []}
    memory[path] = Answer(200, {"Content-Type": "application/json"}, json.dumps(page).encode())
    since = lane.audit.mark()
    await lane.commit(platform(lane, {}))
    first = Rule(Older(), methods=READS, path="/api/v1/configmaps[?]limit=500&labelSelector=[^&]*$", times=0)
    second = Rule(fault, methods=READS, path="continue=more", times=times)
    whole = Rule(Status(410), methods=READS, path="continue=more", times=0)
    life = await lane.live(second, whole, first, wait=0.0, memory=memory)
    assert life.befallen >= 2
    assert life.found is not None
    assert life.found.observed.unreadable.keys() == {GroupKind("", "ConfigMap")}
    assert deleted(lane, since) == []
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


# ---- the server does not answer, or not well

FAULTS: Sequence[Fault] = (
    Lost(504),
    Reset(Moment.FORWARDED),
    Status(500),
    Status(503),
    Status(429, retry_after=0),
    Reset(Moment.RECEIVED),
    Truncate(),
    Garble(),
    Delay(0.05),
)


@pytest.mark.parametrize("fault", first(3, FAULTS), ids=repr)
async def test_writes_that_fail_or_are_lost_change_neither_order_nor_end(lane: Lane, fault: Fault) -> None:
    """Row "5xx, 429 + Retry-After, reset, half response": every third write of an update and of a prune (I1 to I4, I7)."""
    steps = (platform(lane), platform(lane, text="two"), platform(lane, {}, text="two"))
    targets = [await settled(lane, step) for step in steps]
    for step, target in zip(steps, targets, strict=True):
        await lane.commit(step)
        start, since = await lane.objects(), lane.audit.mark()
        life = await lane.live(*(Rule(fault, nth=nth) for nth in range(2, 30, 3)), wait=0.0)
        assert life.befallen >= 1
        await lane.live()
        assert broken(lane, start, since, target) == []
    await assert_settles(lane, targets[-1])


async def test_retry_after_is_respected(lane: Lane) -> None:
    """Row "429 + Retry-After" (I11): the same request does not come again before the time that was asked for. The clock of a life is fast."""
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, text="two"))
    clock = asyncio.get_running_loop().time
    times: list[float] = []

    async def note() -> None:
        times.append(clock())

    path = f"{configmaps(lane)}one-b"
    before = Rule(Meanwhile(note), path=f"{configmaps(lane)}one-a", times=0)
    again = Rule(Meanwhile(note), path=path, nth=2)
    await lane.live(before, Rule(Status(429, retry_after=10), path=path), again)
    assert times[-1] - times[0] >= 10 / FAST


@pytest.mark.parametrize("fault", first(1, [Garble(), Status(503), Reset(Moment.RECEIVED), Truncate()]), ids=repr)
async def test_reads_that_fail_prove_nothing(lane: Lane, fault: Fault) -> None:
    """Row "5xx, reset, half response" on lists: what cannot be read may use what could be deleted (I4)."""
    wanted = await reference(lane, with_a_secret_that_uses_d(lane), platform(lane, {}))
    start = await settled(lane, with_a_secret_that_uses_d(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, {}))
    life = await lane.live(Rule(fault, methods=READS, path="/secrets[?]", times=0), wait=0.0)
    assert life.error is None
    assert deleted(lane, since) == []
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


async def test_a_server_that_hangs_holds_one_request_and_not_the_order(lane: Lane) -> None:
    """Row "60 s hang": the process is ended while a write is neither forwarded nor answered; the next start goes on."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, text="two"))
    life = asyncio.ensure_future(lane.live(Rule(Drop(), path=f"{configmaps(lane)}one-b", times=0)))
    await asyncio.wait([life], timeout=2.0)
    assert not life.done()
    life.cancel()
    await asyncio.wait([life])
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


async def test_storage_that_stands_still_for_a_moment_is_waited_for(lane: Lane) -> None:
    """Row "etcd slow" (I1): etcd is stopped by SIGSTOP in the middle of an update."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, text="two"))
    server = lane.upstream.control_plane

    async def stop() -> None:
        server.pause_etcd()
        asyncio.get_running_loop().call_later(0.5, server.resume_etcd)

    try:
        await lane.live(Rule(Meanwhile(stop), nth=3))
    finally:
        server.resume_etcd()
    assert broken(lane, start, since, wanted) == []
    await assert_settles(lane, wanted)


@pytest.mark.parametrize("needs", first(1, [{}, CHAIN]), ids=lambda needs: "update" if needs else "prune")
async def test_storage_that_is_full_stops_writing_and_is_told(lane: Lane, needs: dict[str, str]) -> None:
    """Row "no space alarm" (I1, I12): from the third write on etcd refuses all; what is there stays, and it goes on when there is room."""
    wanted = await reference(lane, platform(lane), platform(lane, needs, text="two"))
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(platform(lane, needs, text="two"))
    server = lane.upstream.control_plane

    async def fill() -> None:
        await asyncio.to_thread(server.fill_etcd)

    try:
        life = await lane.live(Rule(Meanwhile(fill), nth=3), wait=0.0)
        errors = [*(one.error for one in life.found.results), *life.found.status_errors] if life.found else [life.error]
        assert any("database space exceeded" in str(error) for error in errors)
    finally:
        await asyncio.to_thread(server.empty_etcd)
    await assert_settles(lane, wanted)
    assert broken(lane, start, since, wanted) == []


async def test_a_token_that_is_refused_once_is_read_again(lane: Lane) -> None:
    """Row "token expiry/rotation": a 401 in the middle of an update is answered with what the kubeconfig says now."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    await settled(lane, platform(lane))
    await lane.commit(platform(lane, text="two"))
    life = await lane.live(Rule(Status(401), path=f"{configmaps(lane)}one-b"), wait=0.0)
    assert life.befallen == 1
    record = await lane.get(lane.record("git"))
    assert record is not None
    assert '"error"' not in record["data"]["passes"]
    await assert_settles(lane, wanted)


async def test_permission_that_is_withdrawn_in_the_middle_costs_nobody_what_is_still_used(lane: Lane) -> None:
    """Row "RBAC removed mid-run" (I4, I12): no object may be patched any more, but deleted; B could not be told that it uses A no longer."""
    after = platform(lane, {"b": "", "c": "b", "d": "c"}, text="two")
    wanted = await reference(lane, platform(lane), after)
    start = await settled(lane, platform(lane))
    since = lane.audit.mark()
    await lane.commit(after)
    life = await lane.live(Rule(Status(403), methods={"PATCH"}, path=configmaps(lane), nth=2, times=0), wait=0.0)
    assert life.error is None
    assert life.befallen >= 1
    assert "one-a" in await names(lane)
    assert broken(lane, start, since, wanted) == []
    one = await lane.get(lane.instance("chains", "one"))
    assert one is not None
    assert one["status"]["state"] == "ERROR"
    await assert_settles(lane, wanted)


@pytest.mark.parametrize("path", first(1, ["/secrets[?]", "/secrets/s"]))
async def test_a_kind_that_may_not_be_read_stops_its_objects_and_what_they_may_use(lane: Lane, path: str) -> None:
    """Row "RBAC removed mid-run" (I4, I9, I12): of Secrets everything is 403; they wait and say so. Where they cannot be listed nothing is deleted
    on it. All else goes on.
    """
    secret = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": lane.namespace}})
    after = {"git": {**platform(lane, {}, text="two")["git"], "secret.json": secret}}
    wanted = await reference(lane, with_a_secret_that_uses_d(lane), after)
    await settled(lane, with_a_secret_that_uses_d(lane))
    since = lane.audit.mark()
    await lane.commit(after)
    life = await lane.live(Rule(Status(403), methods=READS, path=path, times=0), wait=0.0)
    assert life.error is None
    assert life.found is not None
    one = await lane.get(lane.config_map("one-z"))
    assert one is not None
    assert one["data"]["text"] == "two"
    told = [node.blocked for one in life.found.plan.sets for node in one.nodes if node.node.group_kind.kind == "Secret"]
    assert [why and why.message.startswith("not allowed: ") for why in told] == [True]
    assert deleted(lane, since) == ([] if path.endswith("]") else ["one-d", "one-c", "one-b", "one-a"])
    await assert_settles(lane, wanted)


# ---- people and programs in the cluster


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


async def test_a_label_stolen_for_another_set_is_taken_for_that_set(lane: Lane) -> None:
    """Row "label stolen": with the label of a set that nobody knows the object is left to it (I2)."""
    await settled(lane, platform(lane))
    other = "applyset-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-v1"
    place = f"{path_of(lane.config_map('one-d'))}?fieldManager=kubectl-label"
    label = {"metadata": {"labels": {"applyset.kubernetes.io/part-of": other}}}
    await lane.ask("PATCH", place, label, kind="application/merge-patch+json")
    start = await lane.objects()
    for commit in (platform(lane, text="two"), platform(lane, {})):
        await lane.commit(commit)
        await lane.live(wait=0.0)
    assert disturbed(start, await lane.objects(), [lane.config_map("one-d")]) == []


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
    held, inside = (Key("", "configmaps", space, name) for name in ("held", "inside"))
    await lane.ask(
        "POST",
        f"/api/v1/namespaces/{space}/configmaps",
        {"metadata": {"name": "held", "finalizers": ["test.example/hold"]}},
    )
    await lane.delete(Key("", "namespaces", "", space))
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
    life = await lane.live(wait=200.0)
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


async def test_an_api_that_is_down_hides_no_kind_of_others(lane: Lane) -> None:
    """Row "discovery stale / aggregated API down" (I2, I9): an APIService leads nowhere; all else goes on as ever, and what Git says of its kinds
    waits.
    """
    metric = {
        "apiVersion": f"{lane.token}.example/v1",
        "kind": "Metric",
        "metadata": {"name": "m", "namespace": lane.namespace},
    }
    before, after = platform(lane), platform(lane, {})
    wanted = await reference(lane, before, after)
    service = {
        "metadata": {"name": f"v1.{lane.token}.example"},
        "spec": {
            "group": f"{lane.token}.example",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "nowhere", "namespace": lane.namespace, "port": 443},
        },
    }
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    made = await lane.ask("POST", services, service)
    assert made.status == 201, made.body
    try:
        await settled(lane, before)
        await lane.commit(after)
        await assert_settles(lane, wanted)
        await lane.commit({"git": {**platform(lane, text="two")["git"], "metric.json": json.dumps(metric)}})
        life = await lane.live(wait=0.0)
        assert life.error is None
        assert life.found is not None
        told = [node.blocked for one in life.found.plan.sets for node in one.nodes if node.node.manifest == metric]
        assert [why and "does not answer: see its APIService" in why.message for why in told] == [True]
        one = await lane.get(lane.config_map("one-d"))
        assert one is not None
        assert one["data"]["text"] == "two"
    finally:
        await lane.ask("DELETE", f"{services}/v1.{lane.token}.example")
    await lane.commit(after)
    await assert_settles(lane, wanted)
