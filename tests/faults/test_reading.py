"""The fault table, what one process reads: old, late, in part or not at all."""

from __future__ import annotations

import asyncio
import json

import pytest

from applier.cluster import WatchTarget
from gitops.daemon.follower import Follower
from gitops.daemon.workqueue import PRIORITY_RESYNC
from renderer.identity import GroupKind
from tests.support.faults.extent import first
from tests.support.faults.kills import differences
from tests.support.faults.lane import Commit, Lane, PathKey, essence, path_of
from tests.support.faults.proxy import (
    READS,
    Fault,
    Garble,
    Meanwhile,
    Moment,
    Older,
    ProxyResponse,
    Reset,
    Rule,
    Status,
    Truncate,
    Unheard,
)
from tests.support.faults.scenarios import CHAIN, plain
from tests.support.faults.table import assert_settles, broken, configmaps, deleted, names, platform, reference, settled
from tests.support.platform import MERGE


def with_a_secret_that_uses_d(lane: Lane) -> Commit:
    return platform(lane, {**CHAIN, "s": "d"}, kinds={"s": "Secret"})


async def there(lane: Lane, key: PathKey) -> None:
    for _ in range(2400):
        if await lane.get(key) is not None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{key} is not there")


async def at_rest(follower: Follower) -> None:
    """All that is watched is watched by now, and nothing is to be done: a watch that begins is a reason to look at everything once more."""
    assert follower.event_router
    begun: set[WatchTarget] = set()
    watches = follower.event_router._watches
    wake = watches.on_begin

    def hear(subject: WatchTarget) -> None:
        begun.add(subject)
        wake(subject)

    watches.on_begin = hear
    for _ in range(2400):
        if follower.reconciler.whole and begun >= follower.event_router._subjects and not len(follower.queue):
            await follower.wait_until_idle()
            if not len(follower.queue):
                return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not come to rest")


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
    memory: dict[str, ProxyResponse] = {}
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
        await lane.ask("PATCH", place, {"data": {"text": "by hand"}}, kind=MERGE)
        await lane.delete(lane.config_map("other"))
        await there(lane, lane.config_map("other"))
        is_missing = await lane.get(lane.config_map("one-b")) is None
        assert (
            is_missing or follower.reconciler.whole is not looked
        )  # on a busy machine it may look at everything by itself
        follower.enqueue(None, PRIORITY_RESYNC)
        await there(lane, lane.config_map("one-b"))
        await follower.wait_until_idle()
    found, expected = essence(await lane.objects()), essence(wanted)
    assert found == expected, differences(found, expected)


@pytest.mark.parametrize(("fault", "times"), first(1, [(Status(410), 0), (Status(500), 2), (Truncate(), 2)]), ids=repr)
async def test_a_page_of_a_list_that_is_lost_never_counts_as_empty(lane: Lane, fault: Fault, times: int) -> None:
    """Row "list page lost / continue 410" (I4): the first page is empty and names a second one, which does not come."""
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    start = await settled(lane, platform(lane))
    memory: dict[str, ProxyResponse] = {}
    await lane.live(memory=memory)
    path = next(path for path in memory if path.startswith("/api/v1/configmaps?limit"))
    page = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": "more"}, "items": []}
    memory[path] = ProxyResponse(200, {"Content-Type": "application/json"}, json.dumps(page).encode())
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
        assert [why and "does not answer; check its APIService" in why.message for why in told] == [True]
        one = await lane.get(lane.config_map("one-d"))
        assert one is not None
        assert one["data"]["text"] == "two"
    finally:
        await lane.ask("DELETE", f"{services}/v1.{lane.token}.example")
    await lane.commit(after)
    await assert_settles(lane, wanted)
