"""Deletion: finalizers, preconditions, owners, namespaces."""

from __future__ import annotations

import pytest

from tests.support.cluster.http_api import Api, Json

MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def made(api: Api, configs: str, name: str, **metadata: object) -> Json:
    answer = api.post(configs, {"metadata": {"name": name, **metadata}})
    assert answer.code == 201, answer.body
    found: Json = answer.body
    return found


def owned_by(owner: Json, *, blocks: bool = False) -> list[Json]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    return [{**reference, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}]


def is_gone(api: Api, path: str) -> bool:
    return api.get(path).code == 404


def test_what_nothing_holds_is_gone_at_once(api: Api, configs: str) -> None:
    stored = made(api, configs, "a")
    answer = api.delete(f"{configs}/a")
    assert answer.code == 200
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": stored["metadata"]["uid"]}
    assert is_gone(api, f"{configs}/a")


def test_preconditions_that_hold(api: Api, configs: str) -> None:
    metadata = made(api, configs, "a")["metadata"]
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert api.delete(f"{configs}/a", {"preconditions": conditions}).code == 200


def test_a_dry_run_deletes_nothing(api: Api, configs: str) -> None:
    made(api, configs, "a")
    assert api.delete(f"{configs}/a?dryRun=All").code == 200
    assert api.get(f"{configs}/a").code == 200


def test_a_finalizer_holds_an_object_that_is_being_deleted(api: Api, configs: str) -> None:
    before = made(api, configs, "a", finalizers=["x.test/y"])["metadata"]
    answer = api.delete(f"{configs}/a")
    assert answer.code == 200
    marked = answer.body["metadata"]
    assert marked["deletionTimestamp"]
    assert marked["deletionGracePeriodSeconds"] == 0
    assert marked["resourceVersion"] != before["resourceVersion"]
    assert api.delete(f"{configs}/a").body["metadata"]["resourceVersion"] == marked["resourceVersion"]
    assert api.merge(f"{configs}/a", {"data": {"a": "still"}}).code == 200
    assert api.apply(f"{configs}/a", {**MAP, "data": {"b": "too"}}).body["data"] == {"a": "still", "b": "too"}
    added = api.merge(f"{configs}/a", {"metadata": {"finalizers": ["x.test/y", "x.test/z"]}})
    assert added.refusal == (422, "Invalid")
    assert added.causes == [("FieldValueForbidden", "metadata.finalizers")]
    assert api.merge(f"{configs}/a", {"metadata": {"finalizers": None}}).code == 200
    assert is_gone(api, f"{configs}/a")


def test_the_deletion_mark_cannot_be_taken_back(api: Api, configs: str) -> None:
    made(api, configs, "a", finalizers=["x.test/y"])
    api.delete(f"{configs}/a")
    assert api.merge(f"{configs}/a", {"metadata": {"deletionTimestamp": None}}).body["metadata"]["deletionTimestamp"]
    api.merge(f"{configs}/a", {"metadata": {"finalizers": None}})


def test_a_collection(api: Api, configs: str) -> None:
    for name in ("a", "b"):
        made(api, configs, name, labels={"x": "1"})
    made(api, configs, "c")
    answer = api.delete(f"{configs}?labelSelector=x%3D1")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in api.get(configs).body["items"] if "kube-root" not in str(item)] == [
        "c"
    ]


def test_dependents_go_after_their_owner(api: Api, configs: str) -> None:
    owner = made(api, configs, "owner")
    made(api, configs, "child", ownerReferences=owned_by(owner))
    assert api.delete(f"{configs}/owner", {"propagationPolicy": "Background"}).code == 200
    assert is_gone(api, f"{configs}/owner")
    assert api.eventually(lambda: is_gone(api, f"{configs}/child"))


def test_dependents_go_before_their_owner(api: Api, configs: str) -> None:
    owner = made(api, configs, "owner")
    made(api, configs, "child", ownerReferences=owned_by(owner, blocks=True), finalizers=["x.test/y"])
    answer = api.delete(f"{configs}/owner", {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert api.eventually(lambda: "deletionTimestamp" in api.get(f"{configs}/child").body["metadata"])
    assert api.get(f"{configs}/owner").code == 200
    api.merge(f"{configs}/child", {"metadata": {"finalizers": None}})
    assert api.eventually(lambda: is_gone(api, f"{configs}/child") and is_gone(api, f"{configs}/owner"))


def test_orphans_stay(api: Api, configs: str) -> None:
    owner = made(api, configs, "owner")
    made(api, configs, "child", ownerReferences=owned_by(owner))
    answer = api.delete(f"{configs}/owner", {"propagationPolicy": "Orphan"})
    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    assert api.eventually(lambda: is_gone(api, f"{configs}/owner"))
    assert "ownerReferences" not in api.get(f"{configs}/child").body["metadata"]


def test_a_dependent_with_another_owner_stays(api: Api, configs: str) -> None:
    first, second = made(api, configs, "first"), made(api, configs, "second")
    made(api, configs, "child", ownerReferences=owned_by(first) + owned_by(second))
    api.delete(f"{configs}/first", {"propagationPolicy": "Background"})

    def left() -> bool:
        references = api.get(f"{configs}/child").body["metadata"]["ownerReferences"]
        return [one["name"] for one in references] == ["second"]

    assert api.eventually(left)


def test_an_owner_is_named_by_two_references(api: Api, configs: str) -> None:
    """Equal ones are one; others are kept, and the dependent is still that of one owner."""
    owner = made(api, configs, "owner")
    once, blocking = owned_by(owner), owned_by(owner, blocks=True)
    answer = api.post(configs, {"metadata": {"name": "child", "ownerReferences": once + once + blocking}})
    assert answer.body["metadata"]["ownerReferences"] == once + blocking
    assert "contains duplicate entries; " in answer.headers["warning"]
    patch = {"metadata": {"ownerReferences": blocking + blocking + once, "finalizers": ["x.test/y"]}}
    patched = api.merge(f"{configs}/child", patch)
    assert patched.body["metadata"]["ownerReferences"] == blocking + once
    assert "contains duplicate entries after mutating admission happens; " in patched.headers["warning"]
    api.delete(f"{configs}/owner", {"propagationPolicy": "Foreground"})
    assert api.eventually(lambda: "deletionTimestamp" in api.get(f"{configs}/child").body["metadata"])
    assert api.get(f"{configs}/owner").code == 200
    api.merge(f"{configs}/child", {"metadata": {"finalizers": None}})
    assert api.eventually(lambda: is_gone(api, f"{configs}/child") and is_gone(api, f"{configs}/owner"))


def test_a_namespace_takes_its_content_along(api: Api, home: str, configs: str) -> None:
    made(api, configs, "a")
    made(api, configs, "held", finalizers=["x.test/y"])
    answer = api.delete(f"/api/v1/namespaces/{home}")
    assert answer.body["status"]["phase"] == "Terminating"
    refused = api.post(configs, {"metadata": {"name": "late"}})
    assert refused.refusal == (403, "Forbidden")
    assert refused.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert api.eventually(lambda: is_gone(api, f"{configs}/a"))
    assert api.get(f"/api/v1/namespaces/{home}").code == 200
    api.merge(f"{configs}/held", {"metadata": {"finalizers": None}})
    assert api.eventually(lambda: is_gone(api, f"/api/v1/namespaces/{home}"))


def test_a_new_object_of_the_same_name_is_another(api: Api, configs: str) -> None:
    first = made(api, configs, "a")["metadata"]
    api.delete(f"{configs}/a")
    second = made(api, configs, "a")["metadata"]
    assert first["uid"] != second["uid"]
    assert api.delete(f"{configs}/a", {"preconditions": {"uid": first["uid"]}}).refusal == (409, "Conflict")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_a_policy_replaces_the_one_before(api: Api, configs: str, policy: str) -> None:
    made(api, configs, "a", finalizers=["x.test/y"])
    api.delete(f"{configs}/a", {"propagationPolicy": policy})
    own = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy, [])
    assert api.get(f"{configs}/a").body["metadata"]["finalizers"][1:] in ([], own)
    api.merge(f"{configs}/a", {"metadata": {"finalizers": None}})
