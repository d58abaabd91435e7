"""Watches: from a version, with a selection, with the state at the beginning."""

from __future__ import annotations

from tests.support.cluster.http_api import Api, Json


def change(api: Api, configs: str, name: str, label: str) -> None:
    assert api.merge(f"{configs}/{name}", {"metadata": {"labels": {"x": label}}}).code == 200


def told(events: list[Json]) -> list[tuple[str, str, str]]:
    """Type, name and label x."""
    return [
        (event["type"], event["object"]["metadata"]["name"], event["object"]["metadata"].get("labels", {}).get("x", ""))
        for event in events
    ]


def history(api: Api, configs: str) -> str:
    """Creates a, then b, relabels a twice, deletes b; answers the version at the beginning."""
    stored = api.post(configs, {"metadata": {"name": "a", "labels": {"x": "1"}}}).body
    api.post(configs, {"metadata": {"name": "b"}})
    change(api, configs, "a", "2")
    change(api, configs, "a", "1")
    api.delete(f"{configs}/b")
    version: str = stored["metadata"]["resourceVersion"]
    return version


def test_events_from_a_version(api: Api, configs: str) -> None:
    version = history(api, configs)
    events = api.watch(f"{configs}?watch=1&resourceVersion={version}", 4)
    assert told(events) == [("ADDED", "b", ""), ("MODIFIED", "a", "2"), ("MODIFIED", "a", "1"), ("DELETED", "b", "")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[0]["object"]["kind"] == "ConfigMap"


def test_an_object_enters_and_leaves_a_selection(api: Api, configs: str) -> None:
    version = history(api, configs)
    events = api.watch(f"{configs}?watch=1&labelSelector=x%3D1&resourceVersion={version}", 2)
    assert told(events) == [("DELETED", "a", "1"), ("ADDED", "a", "1")]


def test_without_a_version_the_state_comes_first(api: Api, configs: str) -> None:
    history(api, configs)
    for query in ("watch=1", "watch=true&resourceVersion=0"):
        assert told(api.watch(f"{configs}?{query}&fieldSelector=metadata.name%3Da", 1)) == [("ADDED", "a", "1")]


def test_initial_events_end_with_a_bookmark(api: Api, configs: str) -> None:
    history(api, configs)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = api.watch(f"{configs}?{query}&fieldSelector=metadata.name%3Da", 2)
    assert told(events[:1]) == [("ADDED", "a", "1")]
    assert events[1]["type"] == "BOOKMARK"
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) > 0


def test_the_old_form_of_a_watch(api: Api, home: str, configs: str) -> None:
    api.post(configs, {"metadata": {"name": "a"}})
    path = f"/api/v1/watch/namespaces/{home}/configmaps?fieldSelector=metadata.name%3Da"
    assert told(api.watch(path, 1)) == [("ADDED", "a", "")]


def test_a_watch_of_metadata(api: Api, configs: str) -> None:
    """The version of a list is where a watch goes on."""
    version = api.get(configs).body["metadata"]["resourceVersion"]
    api.post(configs, {"metadata": {"name": "a"}, "data": {"a": "1"}})
    (event,) = api.watch(f"{configs}?watch=1&resourceVersion={version}", 1)
    assert event["object"]["data"] == {"a": "1"}
