"""Entries of managedFields."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge.field_set import from_paths
from applier.sandbox.merge.managed_fields import (
    MAX_UPDATE_ENTRIES,
    ManagedFieldsEntry,
    ManagerKey,
    encode_entries,
    merge_oldest_updates,
    parse_entries,
)

ENTRY = {
    "manager": "m",
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:a": {}}},
}


def test_entries_are_written_as_they_were_read() -> None:
    assert encode_entries(parse_entries([ENTRY])) == [ENTRY]


@pytest.mark.parametrize("change", [{"operation": "Other"}, {"apiVersion": ""}, {"fieldsType": "X"}, {"manager": 1}])
def test_one_invalid_entry_drops_all(change: dict[str, Any]) -> None:
    assert parse_entries([ENTRY, {**ENTRY, **change}]) == {}


def test_conflicts_name_an_owner() -> None:
    assert str(ManagerKey("m", "Apply", "")) == '"m"'
    assert str(ManagerKey("m", "Update", "v1", "status")) == '"m" with subresource "status" using v1'


def test_the_oldest_updates_are_put_together() -> None:
    entries = {
        ManagerKey(f"m{number:02}", "Update", "v1"): ManagedFieldsEntry(
            from_paths(frozenset({("data", str(number))})), "v1", f"2026-01-01T00:00:{number:02}Z"
        )
        for number in range(MAX_UPDATE_ENTRIES + 2)
    }
    merged = merge_oldest_updates(entries)
    assert len(merged) == MAX_UPDATE_ENTRIES
    assert set(merged[ManagerKey("ancient-changes", "Update", "v1")].fields["f:data"]) == {"f:0", "f:1", "f:2"}
