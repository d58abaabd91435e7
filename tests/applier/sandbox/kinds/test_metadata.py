"""Metadata of all objects."""

from __future__ import annotations

from applier.sandbox.kinds.metadata import (
    drop_repeated_owners,
    read_metadata,
    validate_metadata,
    validate_metadata_update,
)


def test_unknown_fields_are_dropped_and_named() -> None:
    owner = {"uid": "u", "x": 1}
    metadata, unknown, mistake = read_metadata({"name": "a", "y": 1, "labels": {"a": None}, "ownerReferences": [owner]})
    assert metadata == {"name": "a", "labels": {"a": ""}, "ownerReferences": [{"uid": "u"}]}
    assert sorted(unknown) == ["metadata.ownerReferences[0].x", "metadata.y"]
    assert mistake == ""


def test_a_wrong_type_is_told_as_the_decoder_does() -> None:
    assert read_metadata({"labels": {"a": 1}})[2] == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_equal_owners_are_kept_once() -> None:
    metadata = {"ownerReferences": [{"uid": "u"}, {"uid": "v"}, {"uid": "u"}]}
    assert drop_repeated_owners(metadata) == ["u"]
    assert metadata == {"ownerReferences": [{"uid": "u"}, {"uid": "v"}]}


def test_only_standard_finalizers_have_no_domain() -> None:
    def fields(name: str, *, standard: bool) -> list[str]:
        metadata = {"name": "a", "finalizers": [name]}
        return [cause.field for cause in validate_metadata(metadata, rule="label", standard_finalizers=standard)]

    assert fields("orphan", standard=True) == []
    assert fields("mine", standard=True) == ["metadata.finalizers[0]"]
    assert fields("mine", standard=False) == []


def test_no_finalizer_is_added_during_a_deletion() -> None:
    live = {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    assert validate_metadata_update({"uid": "u", "finalizers": []}, live) == []
    assert [cause.field for cause in validate_metadata_update({"uid": "u", "finalizers": ["a/c"]}, live)] == [
        "metadata.finalizers"
    ]
