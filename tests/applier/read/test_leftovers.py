"""Leftovers of Levelgate on an object, and the patch that removes them."""

from __future__ import annotations

from applier.cluster import CONTENT_MANAGER
from applier.read.leftovers import filter_ours, is_ours, strip_metadata
from renderer import well_known
from tests.support.apply_sets import SOURCE, live


def test_a_patch_removes_all_of_ours_from_exactly_this_object() -> None:
    obj = live(SOURCE, "a", finalizers=[well_known.FINALIZER, "example.com/theirs"])
    obj["metadata"]["annotations"]["example.com/theirs"] = "stays"
    obj["metadata"]["managedFields"].append({"manager": "kubectl", "operation": "Update"})
    patch = strip_metadata(obj, {SOURCE.id})
    assert patch is not None
    change = patch["metadata"]
    assert (change["uid"], change["resourceVersion"]) == ("uid-a", "1")
    assert change["labels"] == {well_known.PART_OF: None}
    assert set(change["annotations"]) == {name for name in obj["metadata"]["annotations"] if "levelgate" in name}
    assert change["finalizers"] == ["example.com/theirs"]
    assert [entry["manager"] for entry in change["managedFields"]] == ["kubectl"]


def test_the_label_of_another_set_stays() -> None:
    patch = strip_metadata(live(SOURCE, "a"), set())
    assert patch is not None
    assert "labels" not in patch["metadata"]


def test_an_object_without_traces_needs_no_patch() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}}
    assert strip_metadata(obj, {SOURCE.id}) is None
    assert not is_ours(obj)
    obj["metadata"]["managedFields"] = [{"manager": CONTENT_MANAGER}]  # type: ignore[index]
    assert is_ours(obj)


def test_the_label_that_grants_us_rights_is_not_a_trace() -> None:
    assert list(filter_ours({well_known.AGGREGATE: "levelgate", "levelgate.dev/hold": "x", "app": "y"})) == [
        "levelgate.dev/hold"
    ]
