"""Strategic merge patch of built-in kinds, which kubectl uses for apply, edit, set and rollout."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.http_api import Api, Json

STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def path(api: Api, home: str) -> str:
    """A Deployment with two containers."""
    containers = [
        {"name": "a", "image": "a:1", "args": ["x", "y"], "ports": [{"containerPort": 80}]},
        {"name": "b", "image": "b:1"},
    ]
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    collection = f"/apis/apps/v1/namespaces/{home}/deployments"
    metadata = {"name": "x", "finalizers": ["t.test/a"], "labels": {"l": "1"}}
    assert api.post(collection, {"metadata": metadata, "spec": spec}).code == 201
    return f"{collection}/x"


def patched(api: Api, path: str, patch: Any) -> Json:
    answer = api.request("PATCH", path, patch, content_type=STRATEGIC)
    assert answer.code == 200, answer.body
    found: Json = answer.body
    return found


def pod(spec: Json) -> Json:
    return {"spec": {"template": {"spec": spec}}}


def shown(obj: Json) -> list[tuple[str, str, list[str] | None]]:
    containers = obj["spec"]["template"]["spec"]["containers"]
    return [(one["name"], one["image"], one.get("args")) for one in containers]


A, B = ("a", "a:1", ["x", "y"]), ("b", "b:1", None)


@pytest.mark.parametrize(
    ("containers", "found"),
    [
        ([{"name": "b", "image": "b:2"}], [A, ("b", "b:2", None)]),
        ([{"name": "a", "args": ["z"]}], [("a", "a:1", ["z"]), B]),
        ([{"name": "a", "args": None}], [("a", "a:1", None), B]),
        ([{"name": "a", "$patch": "delete"}], [B]),
        ([{"$patch": "replace"}, {"name": "c", "image": "c:1"}], [("c", "c:1", None)]),
    ],
)
def test_lists_with_keys(api: Api, path: str, containers: list[Json], found: list[Any]) -> None:
    assert shown(patched(api, path, pod({"containers": containers}))) == found


def test_a_list_that_is_new_to_the_order(api: Api, path: str) -> None:
    patch = pod(
        {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
            "containers": [{"name": "c", "image": "c:1"}],
        }
    )
    assert [name for name, _, _ in shown(patched(api, path, patch))] == ["b", "a", "c"]


def test_nested_keys(api: Api, path: str) -> None:
    obj = patched(api, path, pod({"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]}))
    ports = obj["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert sorted(port["containerPort"] for port in ports) == [80, 81]


def test_retained_keys(api: Api, path: str) -> None:
    obj = patched(api, path, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})
    assert obj["spec"]["strategy"] == {"type": "Recreate"}


def test_lists_of_texts(api: Api, path: str) -> None:
    obj = patched(api, path, {"metadata": {"finalizers": ["t.test/b"]}})
    assert sorted(obj["metadata"]["finalizers"]) == ["t.test/a", "t.test/b"]
    obj = patched(api, path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["t.test/a"]}})
    assert obj["metadata"]["finalizers"] == ["t.test/b"]
    api.merge(path, {"metadata": {"finalizers": None}})


def test_maps(api: Api, path: str) -> None:
    assert patched(api, path, {"metadata": {"labels": {"m": "2"}}})["metadata"]["labels"] == {"l": "1", "m": "2"}
    assert patched(api, path, {"metadata": {"labels": {"l": None}}})["metadata"]["labels"] == {"m": "2"}
    replaced = {"metadata": {"labels": {"$patch": "replace", "n": "3"}}}
    assert patched(api, path, replaced)["metadata"]["labels"] == {"n": "3"}


@pytest.mark.parametrize(
    "patch",
    [pod({"containers": [{"image": "no-name"}]}), {"metadata": {"labels": {"$patch": "explode"}}}],
)
def test_patches_that_make_no_sense(api: Api, path: str, patch: Json) -> None:
    assert api.request("PATCH", path, patch, content_type=STRATEGIC).code in (400, 422, 500)
