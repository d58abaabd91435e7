"""The fault table, what stands between us and the objects: admission that is down, slow, denies or changes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from renderer import well_known
from tests.support.faults.extent import first
from tests.support.faults.lane import Lane, Object
from tests.support.faults.proxy import ProxyResponse
from tests.support.faults.scenarios import plain
from tests.support.faults.table import NOWHERE, assert_settles, broken, deleted, platform, reference, settled


def webhook(lane: Lane, *, kind: str = "Validating", url: str = NOWHERE) -> tuple[str, Object]:
    """The collection, and a webhook for the lane's ConfigMaps at which nobody answers."""
    body = {
        "metadata": {"name": f"{lane.token}.example.test"},
        "webhooks": [
            {
                "name": f"{lane.token}.example.test",
                "clientConfig": {"url": url},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lane.namespace}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["*"],
                        "resources": ["configmaps"],
                        "scope": "*",
                    }
                ],
            }
        ],
    }
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations", body


@pytest.mark.parametrize("kind", first(1, ["Validating", "Mutating"]))
async def test_a_webhook_that_is_down_stops_its_objects_only(lane: Lane, kind: str) -> None:
    """Row "webhook down (Fail)" (I9, I11): the set is reported and kept in order; when the webhook is back it goes on."""
    await assert_waits_for_webhook(lane, *webhook(lane, kind=kind))


async def test_a_webhook_that_is_slow_is_as_one_that_is_down(lane: Lane) -> None:
    """Row "webhook slow" (I9, I11): the server gives up on it after its `timeoutSeconds`, and has written nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:  # who takes connections, and says nothing
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        await assert_waits_for_webhook(lane, *webhook(lane, url=url))


async def assert_waits_for_webhook(lane: Lane, place: str, body: Object) -> None:
    wanted = await reference(lane, platform(lane), platform(lane, {}))
    start = await settled(lane, platform(lane))
    made = await lane.ask("POST", place, body)
    assert made.status == 201, made.body
    since = lane.audit.mark()
    try:
        await lane.commit(platform(lane, {}))
        life = await lane.live(wait=0.0)
        assert life.error is None
        tried = deleted(lane, since)
        assert set(tried) <= {"one-d"}
        assert len(tried) <= 4
    finally:
        await lane.ask("DELETE", f"{place}/{body['metadata']['name']}")
    await assert_settles(lane, wanted)
    assert broken(lane, start, since, wanted) == []


@asynccontextmanager
async def policy(lane: Lane, *, kind: str, resource: str = "configmaps", **spec: Any) -> AsyncIterator[None]:
    """An admission policy for the lane's ConfigMaps; it may take a moment until the server has taken it up."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    space = {"matchLabels": {"kubernetes.io/metadata.name": lane.namespace}}
    matched = {"namespaceSelector": space, "resourceRules": [rule]}
    body = {"metadata": {"name": lane.token}, "spec": {"failurePolicy": "Fail", "matchConstraints": matched, **spec}}
    binding: Object = {"metadata": {"name": lane.token}, "spec": {"policyName": lane.token}}
    if kind == "validating":
        binding["spec"]["validationActions"] = ["Deny"]
    places = [f"/apis/admissionregistration.k8s.io/v1/{kind}admissionpolic{end}" for end in ("ies", "ybindings")]
    for place, one in zip(places, (body, binding), strict=True):
        made = await lane.ask("POST", place, one)
        assert made.status == 201, made.body
    try:
        yield
    finally:
        for place in places:
            await lane.ask("DELETE", f"{place}/{lane.token}")


async def in_force(lane: Lane, is_so: Callable[[ProxyResponse], bool], *, resource: str = "configmaps") -> None:
    """Until the server answers a write so."""
    probe = f"/api/v1/namespaces/{lane.namespace}/{resource}?dryRun=All"
    for _ in range(2400):
        if is_so(await lane.ask("POST", probe, {"metadata": {"name": "probe"}, "data": {"text": "ZnJlZQ=="}})):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the policy is not in force, or is so still")


async def test_admission_that_denies_stops_its_objects_only(lane: Lane) -> None:
    """Row "webhook denying" (I9, I11, I12): who is refused says why and is not asked for again and again; others go on; then it goes on itself."""
    wanted = await reference(lane, platform(lane), platform(lane, text="two"))
    start = await settled(lane, platform(lane))
    refuses = {"expression": "object.metadata.name != 'one-b' && object.metadata.name != 'probe'", "message": "no b"}
    async with policy(lane, kind="validating", validations=[refuses]):
        await in_force(lane, lambda answer: answer.status == 422)
        since = lane.audit.mark()
        await lane.commit(platform(lane, text="two"))
        life = await lane.live(wait=0.0)
        assert life.error is None
        texts = {
            name: (await lane.get(lane.config_map(name)) or {})["data"]["text"] for name in ("one-a", "one-b", "one-c")
        }
        assert texts == {"one-a": "two", "one-b": "one", "one-c": "one"}
        assert life.found is not None
        told = [node.blocked for one in life.found.plan.sets for node in one.nodes if node.node.id == "b"]
        assert [why and "no b" in why.message for why in told] == [True]
        refused = [event for event in lane.events(since) if event.user == "levelgate" and event.code == 422]
        assert 1 <= len(refused) <= 3
    await in_force(lane, lambda answer: answer.status == 201)
    await assert_settles(lane, wanted)
    assert broken(lane, start, since, wanted) == []


async def test_admission_that_changes_our_fields_each_time_is_not_fought(lane: Lane) -> None:
    """Row "mutating every time" (I11): the server stores another value than we applied, at every write; one write is all."""
    forced = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{data: {'text': 'forced'}}"},
    }
    async with policy(lane, kind="mutating", reinvocationPolicy="Never", mutations=[forced]):
        await in_force(lane, lambda answer: answer.json.get("data", {}).get("text") == "forced")
        await lane.commit(platform(lane))
        life = await lane.live(wait=0.0)
        assert life.error is None
        written = await lane.get(lane.config_map("one-a"))
        assert written is not None
        assert written["data"]["text"] == "forced"
        assert await lane.quiet() == []


def removal(place: str, name: str) -> str:
    """An expression that takes a label or annotation away where it is; else it marks the object, for all to see that it is in force."""
    there = f"has(object.metadata.{place}) && '{name}' in object.metadata.{place}"
    gone = f"JSONPatch{{op: 'remove', path: '/metadata/{place}/{name.replace('/', '~1')}'}}"
    return f"{there} ? [{gone}] : [JSONPatch{{op: 'add', path: '/metadata/generateName', value: 'probed-'}}]"


@pytest.mark.parametrize(
    ("place", "name"), first(1, [("annotations", well_known.HASH), ("labels", well_known.PART_OF)])
)
async def test_admission_that_takes_our_marks_off_is_told_and_not_fought(lane: Lane, place: str, name: str) -> None:
    """Row "mutating every time" (I9, I11): each write would have to be followed by the same one; each pass sends one, and all else goes on."""
    wanted = await reference(lane, platform(lane))
    await settled(lane, {"git": {}})
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": removal(place, name)}}
    async with policy(lane, kind="mutating", reinvocationPolicy="Never", mutations=[mutation]):
        await in_force(lane, lambda answer: "generateName" in answer.json["metadata"])
        await lane.commit(platform(lane))
        life = await lane.live(wait=0.0)
        assert life.error is None
        assert life.found is not None
        told = [node.blocked.message for one in life.found.plan.sets for node in one.nodes if node.blocked]
        assert any("and changed its" in message and name in message for message in told), told
        assert all(sum(f"/configmaps/one-{node}?" in write.path for write in life.writes) <= 10 for node in "abcd")
    await in_force(lane, lambda answer: "generateName" not in answer.json["metadata"])
    await assert_settles(lane, wanted)


async def test_admission_that_changes_a_secret_is_told_and_not_fought(lane: Lane) -> None:
    """Row "mutating every time" (I10, I11): of a Secret the values are compared, so one that admission fills in never is as it was sent."""
    filled = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{stringData: {'text': 'filled in'}}"},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": lane.namespace},
        "data": {"text": "ZnJlZQ=="},
    }
    async with policy(lane, kind="mutating", resource="secrets", reinvocationPolicy="Never", mutations=[filled]):
        await in_force(lane, lambda answer: answer.json["data"]["text"] != "ZnJlZQ==", resource="secrets")
        await lane.commit({"git": {"secret.json": json.dumps(secret), "other.json": plain(lane, "other", text="one")}})
        life = await lane.live(wait=0.0)
        assert life.error is None
        assert life.found is not None
        told = [
            node.blocked for one in life.found.plan.sets for node in one.nodes if node.node.group_kind.kind == "Secret"
        ]
        assert [why and "changed its data" in why.message for why in told] == [True]
        assert sum("/secrets/s" in write.path for write in life.writes) <= 3
        assert await lane.get(lane.config_map("other")) is not None
