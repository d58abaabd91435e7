"""The record of a source: stored as text, read back as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from applier.applyset.inventory import Scope
from gitops.records.source_record import MAX_DATA_BYTES, InstanceScopes, SourceRecord
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
        scopes=InstanceScopes({X: SCOPE, ObjectKey("g.test", "Fleet", "", "main"): Scope()}),
    )
    assert SourceRecord.from_object({"data": record.data()}) == record


def test_equal_records_give_equal_text() -> None:
    other = X._replace(name="y")
    one = SourceRecord(scopes=InstanceScopes({X: SCOPE, other: Scope()}))
    two = SourceRecord(scopes=InstanceScopes({other: Scope(), X: SCOPE}))
    assert one.data() == two.data()
    assert all(isinstance(text, str) for text in one.data().values())


@pytest.mark.parametrize("data", [None, {}, {"instances": ""}, {"instances": "{"}, {"instances": "[]", "counts": "7"}])
def test_a_record_that_cannot_be_read_is_empty(data: object) -> None:
    found = SourceRecord.from_object({"data": data})
    assert (found.scopes, found.counts, found.applied) == (InstanceScopes(), {}, "")


@pytest.mark.parametrize(
    "row",
    [
        '{"a": []}',
        '{"kinds": [], "namespaces": [], "of": []}',
        '{"kinds": 1, "namespaces": [], "of": {"g/K": {"n": ["x"]}}}',
        '{"kinds": [], "namespaces": [], "of": {"K": {"n": ["x"]}}}',
        '{"kinds": [], "namespaces": [], "of": {"g/K": {"n": "x"}}}',
        '{"kinds": [], "namespaces": [], "of": {"g/K": [["x"]]}}',
        '{"kinds": [], "namespaces": [], "of": {"g/K": {"n": [null]}}}',
    ],
)
def test_instances_that_cannot_be_read_are_left_out(row: str) -> None:
    """Everything in a record can be found again."""
    good = '{"kinds": ["ConfigMap"], "namespaces": [], "of": {"g.test/Link": {"default": ["x"]}}}'
    found = SourceRecord.from_object({"data": {"instances": f"[{row}, 7, {good}]"}}).scopes
    assert found == {X: Scope(frozenset({GroupKind("", "ConfigMap")}))}


def fleet(number: int, name: str) -> InstanceScopes:
    return InstanceScopes({X._replace(name=name.format(count)): SCOPE for count in range(number)})


def test_instances_that_are_alike_are_told_by_name_alone() -> None:
    """Nearly all instances of a kind have the same scope: 50,000 fit into one ConfigMap, and a person can read where they are."""
    assert InstanceScopes({X: SCOPE, X._replace(name="y"): SCOPE}).text == (
        '[{"kinds":["ConfigMap","Deployment.apps"],"namespaces":["team"],"of":{"g.test/Link":{"default":["x","y"]}}}]'
    )
    many = fleet(50_000, "instance-{:05d}")
    assert not many.overflow_message
    assert InstanceScopes(many.text) == many


def test_scopes_that_no_record_can_hold_say_how_many_can() -> None:
    assert fleet(50_000, "the-instance-of-{:05d}").overflow_message.startswith(
        "the record of the source cannot hold the scopes of 50000 instances: the scopes take 1200100 bytes, and the limit is 851968;"
    )


def test_passes_get_the_room_that_the_rest_of_a_record_leaves() -> None:
    record = SourceRecord(scopes=fleet(50_000, "instance-{:05d}"), passes="x" * 1000)
    assert sum(map(len, replace(record, passes="x" * record.passes_budget_bytes).data().values())) == MAX_DATA_BYTES
