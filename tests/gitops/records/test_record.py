"""The record of a source: stored as text, read back as it was."""

from __future__ import annotations

import pytest

from applier.inventory import Scope
from gitops.records.record import Scopes, SourceRecord
from renderer.identity import GroupKind, ObjectKey

X = ObjectKey("g.test", "Link", "default", "x")
SCOPE = Scope(frozenset({GroupKind("", "ConfigMap"), GroupKind("apps", "Deployment")}), frozenset({"team"}))


def test_a_record_is_read_as_it_was_written() -> None:
    record = SourceRecord(
        url="https://x",
        ref="main",
        target="t",
        applied="a",
        since="2026-11-20T12:00:00Z",
        state="Settled",
        counts={"instances": 2},
        scopes=Scopes({X: SCOPE, ObjectKey("g.test", "Fleet", "", "main"): Scope()}),
    )
    assert SourceRecord.read({"data": record.data()}) == record


def test_equal_records_give_equal_text() -> None:
    other = X._replace(name="y")
    one = SourceRecord(scopes=Scopes({X: SCOPE, other: Scope()}))
    two = SourceRecord(scopes=Scopes({other: Scope(), X: SCOPE}))
    assert one.data() == two.data()
    assert all(isinstance(text, str) for text in one.data().values())


@pytest.mark.parametrize("data", [None, {}, {"instances": ""}, {"instances": "{"}, {"instances": "[]", "counts": "7"}])
def test_a_record_that_cannot_be_read_is_empty(data: object) -> None:
    found = SourceRecord.read({"data": data})
    assert (found.scopes, found.counts, found.applied) == ({}, {}, "")


@pytest.mark.parametrize(
    "text", ['{"a": []}', '{"g/K/n/x": []}', '{"g/K/n/x": [1, 2]}', '{"g/K/n/x": [["A"]]}', '{"g/K/n/x": null}']
)
def test_instances_that_cannot_be_read_are_left_out(text: str) -> None:
    """Everything in a record can be found again."""
    assert SourceRecord.read({"data": {"instances": text}}).scopes == {}
