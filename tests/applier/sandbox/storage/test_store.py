"""The store and its watches, over random histories: whoever applies all events has what a list shows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.sandbox.api import watch_verb
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import ResourceStore, Store, StoredKey
from applier.sandbox.wire import Request

Json = dict[str, Any]

CONFIGS = "/api/v1/configmaps"
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "label"]), st.sampled_from("abc"), st.sampled_from(["", "web", "db"])),
    max_size=30,
)


def ask(sandbox: Sandbox, method: str, target: str, body: Any = None) -> Json:
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    answer = sandbox.handle(Request(method, target, headers, b"" if body is None else orjson.dumps(body)))
    found: Json = orjson.loads(answer.body)
    return found


def act(sandbox: Sandbox, step: tuple[str, str, str]) -> None:
    what, name, tier = step
    place = "/api/v1/namespaces/default/configmaps"
    match what:
        case "put":
            ask(sandbox, "POST", place, {"metadata": {"name": name, "labels": {"tier": tier}}})
        case "delete":
            ask(sandbox, "DELETE", f"{place}/{name}")
        case _:
            ask(sandbox, "PATCH", f"{place}/{name}", {"metadata": {"labels": {"tier": tier}}})


def replayed(chunks: list[bytes]) -> dict[str, Json]:
    """What a client knows that applies the events of a watch."""
    known: dict[str, Json] = {}
    for line in b"".join(chunks).splitlines():
        event = orjson.loads(line)
        metadata = event["object"]["metadata"]
        match event["type"]:
            case "ADDED":
                assert metadata["name"] not in known
                known[metadata["name"]] = metadata
            case "MODIFIED":
                assert metadata["name"] in known
                known[metadata["name"]] = metadata
            case "DELETED":
                del known[metadata["name"]]
    return known


async def chunks_of(sandbox: Sandbox, stream: Any) -> list[bytes]:
    """Everything that a watch has to say; its kind is taken away afterwards, so that it ends."""
    sandbox.state.kinds.remove("", "configmaps")
    return [chunk async for chunk in stream]


@settings(max_examples=60, deadline=None)
@given(before=STEPS, after=STEPS, selector=st.sampled_from(["", "tier=web", "tier!=web", "tier"]))
async def test_a_watcher_ends_with_what_a_list_shows(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]], selector: str
) -> None:
    sandbox = Sandbox()
    for step in before:
        act(sandbox, step)
    stream = sandbox.handle(Request("GET", f"{CONFIGS}?watch=1&labelSelector={selector}")).stream
    for step in after:
        act(sandbox, step)
    listed = ask(sandbox, "GET", f"{CONFIGS}?labelSelector={selector}")["items"]
    known = replayed(await chunks_of(sandbox, stream))
    assert known == {item["metadata"]["name"]: item["metadata"] for item in listed}


@settings(max_examples=30, deadline=None)
@given(before=STEPS, after=STEPS)
async def test_a_watch_from_a_version_goes_on_where_a_list_ended(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    sandbox = Sandbox()
    for step in before:
        act(sandbox, step)
    page = ask(sandbox, "GET", CONFIGS)
    listed = {item["metadata"]["name"]: item["metadata"] for item in page["items"]}
    for step in after:
        act(sandbox, step)
    target = f"{CONFIGS}?watch=1&resourceVersion={page['metadata']['resourceVersion']}"
    now = {item["metadata"]["name"]: item["metadata"] for item in ask(sandbox, "GET", CONFIGS)["items"]}
    begun = [orjson.dumps({"type": "ADDED", "object": {"metadata": metadata}}) + b"\n" for metadata in listed.values()]
    stream = sandbox.handle(Request("GET", target)).stream
    assert replayed(begun + await chunks_of(sandbox, stream)) == now


async def test_a_watcher_that_is_too_slow_is_told_to_list_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("applier.sandbox.storage.store.MAX_EVENTS", 3)
    sandbox = Sandbox()
    act(sandbox, ("put", "a", "web"))
    stream: Any = sandbox.handle(Request("GET", f"{CONFIGS}?watch=1")).stream
    assert b"ADDED" in await anext(stream)
    for number in range(5):
        act(sandbox, ("label", "a", f"t{number}"))
    event = orjson.loads(await anext(stream))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_watch_from_a_version_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("applier.sandbox.storage.store.MAX_EVENTS", 3)
    sandbox = Sandbox()
    for number in range(5):
        act(sandbox, ("put" if number == 0 else "label", "a", f"t{number}"))
    stream: Any = sandbox.handle(Request("GET", f"{CONFIGS}?watch=1&resourceVersion=1")).stream
    lines = b"".join([chunk async for chunk in stream])
    assert orjson.loads(lines)["object"]["code"] == 410


def test_the_history_is_bounded_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("applier.sandbox.storage.store.MAX_EVENT_BYTES", 5000)
    sandbox = Sandbox()
    body = {"metadata": {"name": "a"}, "data": {"text": "x" * 2000}}
    ask(sandbox, "POST", "/api/v1/namespaces/default/configmaps", body)
    for number in range(5):
        act(sandbox, ("label", "a", f"t{number}"))
    shelf = sandbox.state.store.resource_store("configmaps")
    assert shelf.event_bytes <= 5000
    assert shelf.event_bytes == sum(len(event.after.content) for event in shelf.events)


async def test_a_quiet_watch_is_told_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bookmarks carry the version on, so that what happened to other kinds does not make a watch too old."""
    monkeypatch.setattr(watch_verb, "BOOKMARK_INTERVAL_SECONDS", 0.0)
    sandbox = Sandbox()
    stream: Any = sandbox.handle(Request("GET", f"{CONFIGS}?watch=1&allowWatchBookmarks=true")).stream
    assert await anext(stream) == b""
    ask(sandbox, "POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    event = orjson.loads(await anext(stream))
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"] == {"resourceVersion": str(sandbox.state.store.version)}
    await stream.aclose()


async def test_a_watch_that_ends_leaves_no_listener() -> None:
    sandbox = Sandbox()
    stream: Any = sandbox.handle(Request("GET", f"{CONFIGS}?watch=1&timeoutSeconds=1")).stream
    await anext(stream)
    assert len(sandbox.state.store.resource_store("configmaps").listeners) == 1
    await stream.aclose()
    assert not sandbox.state.store.resource_store("configmaps").listeners


def stored(store: Store, name: str, namespace: str = "", **metadata: Any) -> StoredKey:
    key = StoredKey("things", namespace, name)
    store.put(key, {"metadata": {"name": name, "uid": f"{namespace}/{name}", **metadata}})
    return key


def test_objects_are_in_order_and_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "y"), ("a", "x"), ("aa", "x"), ("a-b", "x")):
        stored(store, name, namespace)
    shelf: ResourceStore = store.resource_store("things")

    def names(namespace: str = "") -> list[tuple[str, ...]]:
        return [stored_object.key[1:] for stored_object in shelf.sorted_objects(namespace)]

    assert names() == [("a", "x"), ("a", "y"), ("a-b", "x"), ("aa", "x"), ("b", "x")]
    assert names("a") == [("a", "x"), ("a", "y")]
    assert names("absent") == []
    store.remove(StoredKey("things", "a", "x"))
    assert names("a") == [("a", "y")]


def test_owners_find_their_dependents() -> None:
    store = Store()
    key = stored(store, "child", ownerReferences=[{"uid": "one"}, {"uid": "two"}])
    assert store.dependents("one") == [key] == store.dependents("two")
    stored(store, "child", ownerReferences=[{"uid": "two"}])
    assert (store.dependents("one"), store.dependents("two"), store.owner_uids()) == ([], [key], ["two"])
    store.remove(key)
    assert (store.owner_uids(), store.find_by_uid("/child")) == ([], None)
