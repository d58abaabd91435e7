"""A manifest compared with the object that the API server stores."""

from typing import Any

from renderer.manifest_hash import is_written_from, render_hash, strip_nulls, without_nulls, without_server_fields
from renderer.well_known import HASH

SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "a"},
    "stringData": {"password": "hunter2"},
}


def live(manifest: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {**manifest["metadata"], "annotations": {HASH: render_hash(manifest)}}
    return {**manifest, "metadata": metadata, **fields}


def test_the_hash_of_a_secret_hides_its_values_and_not_its_keys() -> None:
    assert render_hash(SECRET) == render_hash({**SECRET, "stringData": {"password": "other"}})
    assert render_hash(SECRET) != render_hash({**SECRET, "stringData": {"pass": "hunter2"}})


def test_an_object_is_known_by_the_hash_that_it_carries() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}
    assert is_written_from(live(config_map), config_map)
    assert not is_written_from(live(config_map), {**config_map, "data": {"a": "2"}})
    assert not is_written_from(config_map, config_map)


def test_values_of_a_secret_are_compared_besides() -> None:
    assert is_written_from(live(SECRET, data={"password": "aHVudGVyMg=="}), SECRET)
    assert not is_written_from(live(SECRET, data={"password": "b3RoZXI="}), SECRET)


def test_what_only_the_server_writes_is_no_content() -> None:
    metadata = {"name": "a", "uid": "1", "resourceVersion": "2", "managedFields": [], "labels": {"a": "b"}}
    assert without_server_fields({"kind": "X", "status": {}, "metadata": metadata}) == {
        "kind": "X",
        "metadata": {"name": "a", "labels": {"a": "b"}},
    }


def test_the_stored_form_has_no_nulls_and_encodes_text() -> None:
    assert strip_nulls({"a": None, "b": [None, {"c": None}]}) == {"b": [None, {}]}
    stored = without_nulls({**SECRET, "data": {"user": "YQ==", "none": None}})
    assert stored["data"] == {"user": "YQ==", "password": "aHVudGVyMg=="}
    assert "stringData" not in stored
