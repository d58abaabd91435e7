"""The first write of an instance says what its set is: one request does for content and bookkeeping (ADR 24)."""

from __future__ import annotations

from typing import Any

import pytest

from applier.cluster import CONTENT_MANAGER, PARENT_MANAGER
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id
from tests.support.cluster.audit import AuditEvent
from tests.support.faults.lane import Lane, Object, path_of
from tests.support.faults.proxy import Lost, Meanwhile, Rule
from tests.support.faults.scenarios import CHAIN, graph, instance
from tests.support.faults.table import settled

WIDER = {**CHAIN, "s": "d"}


def files(lane: Lane, *, text: str = "one", wider: bool = False) -> dict[str, Any]:
    definition = graph(lane, WIDER, kinds={"s": "Secret"}) if wider else graph(lane, CHAIN)
    return {"git": {"chain.json": definition, "one.json": instance(lane, text=text)}}


def writes(lane: Lane, since: int) -> list[AuditEvent]:
    """Writes of the instance itself, in order."""
    return [
        event
        for event in lane.events(since)
        if event.is_write and event.resource == "chains" and not event.subresource and event.code < 300
    ]


async def live_instance(lane: Lane) -> Object:
    found = await lane.get(lane.instance("chains", "one"))
    assert found is not None
    return found


def bookkeeping(obj: Object) -> dict[str, Any]:
    metadata = obj["metadata"]
    names = (well_known.PARENT_ID, well_known.GROUP_KINDS, well_known.NAMESPACES, well_known.TARGET)
    values = {**metadata["labels"], **metadata["annotations"]}
    return {"finalizers": metadata["finalizers"], **{name: values.get(name) for name in names}}


async def test_a_new_instance_is_one_write_and_carries_its_scope_before_the_first_member(lane: Lane) -> None:
    """I1: the scope covers what is written, from the moment at which the instance exists."""
    since = lane.audit.mark()
    await settled(lane, files(lane))
    [first] = writes(lane, since)
    key = lane.instance("chains", "one")
    assert bookkeeping(first.response) == bookkeeping(await live_instance(lane))
    assert bookkeeping(first.response) == {
        "finalizers": [well_known.FINALIZER],
        well_known.PARENT_ID: applyset_id(ObjectKey(key.group, "Chain", key.namespace, key.name)),
        well_known.GROUP_KINDS: str(GroupKind("", "ConfigMap")),
        well_known.NAMESPACES: "",
        well_known.TARGET: "1",
    }
    members = [event for event in lane.events(since) if event.is_write and event.name.startswith("one-")]
    assert min(event.time for event in members) > first.answered


async def test_new_content_gives_up_nothing_that_the_first_write_brought(lane: Lane) -> None:
    """KEP-555: an apply takes away what it leaves out, so each later one says it again."""
    await settled(lane, files(lane))
    before, since = bookkeeping(await live_instance(lane)), lane.audit.mark()
    await settled(lane, files(lane, text="two"))
    assert [event.request["spec"] for event in writes(lane, since)] == [{"text": "two"}]
    assert bookkeeping(await live_instance(lane)) == before
    assert await lane.quiet() == []


async def test_a_wider_scope_is_the_parents_own_from_then_on(lane: Lane) -> None:
    """Whoever changes a field by force has it; content that is written later leaves it as it is."""
    await settled(lane, files(lane))
    await settled(lane, files(lane, wider=True))
    wider = bookkeeping(await live_instance(lane))
    assert wider[well_known.GROUP_KINDS] == "ConfigMap,Secret"
    await settled(lane, files(lane, wider=True, text="two"))
    assert bookkeeping(await live_instance(lane)) == wider
    await settled(lane, files(lane, text="two"))
    narrower = bookkeeping(await live_instance(lane))
    assert narrower[well_known.GROUP_KINDS] == "ConfigMap"
    await settled(lane, {"git": {}})
    assert await lane.get(lane.instance("chains", "one")) is None
    assert await lane.quiet() == []


async def test_a_scope_that_changes_just_before_new_content_is_written_stays(lane: Lane) -> None:
    """The content is written from what was seen: of the bookkeeping that has changed since, nothing is taken back."""
    await settled(lane, files(lane))
    key = lane.instance("chains", "one")
    body = {
        "apiVersion": f"{lane.group}/v1",
        "kind": "Chain",
        "metadata": {
            "name": "one",
            "namespace": lane.namespace,
            "annotations": {well_known.GROUP_KINDS: "ConfigMap,Secret"},
        },
    }

    async def widen() -> None:
        path = f"{path_of(key)}?fieldManager={PARENT_MANAGER}&force=true"
        answer = await lane.ask("PATCH", path, body, kind="application/apply-patch+yaml")
        assert answer.status == 200

    await lane.commit(files(lane, text="two"))
    since = lane.audit.mark()
    life = await lane.live(Rule(Meanwhile(widen), path=f"/chains/one\\?fieldManager={CONTENT_MANAGER}&"))
    assert life.error is None
    assert life.befallen == 1
    stored = [event.response for event in writes(lane, since) if CONTENT_MANAGER + "&" in event.uri]
    assert [(one["spec"]["text"], one["metadata"]["annotations"][well_known.GROUP_KINDS]) for one in stored] == [
        ("two", "ConfigMap,Secret")
    ]
    assert bookkeeping(await live_instance(lane))["finalizers"] == [well_known.FINALIZER]
    reasons = {event.request["reason"] for event in lane.events(since) if event.resource == "events"}
    assert "Conflict" not in reasons


@pytest.mark.parametrize("section", ["labels", "annotations"])
async def test_bookkeeping_that_somebody_takes_off_comes_back(lane: Lane, section: str) -> None:
    """I1: a scope that is not as it was written is written again, over whatever stands there now."""
    await settled(lane, files(lane))
    before = bookkeeping(await live_instance(lane))
    name = well_known.PARENT_ID if section == "labels" else well_known.GROUP_KINDS
    await lane.patch(lane.instance("chains", "one"), {"metadata": {section: {name: None}}})
    await lane.live()
    assert bookkeeping(await live_instance(lane)) == before
    assert await lane.quiet() == []


async def test_a_first_write_that_is_lost_is_found_complete(lane: Lane) -> None:
    """The answer is lost: the instance is there with its set, and nothing of it is written a second time."""
    await lane.commit(files(lane))
    since = lane.audit.mark()
    await lane.live(Rule(Lost(504), path="/chains/one\\?"))
    await lane.live()
    assert len(writes(lane, since)) == 1
    assert await lane.quiet() == []
