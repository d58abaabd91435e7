"""Fields that a client's write does not decide."""

from __future__ import annotations

from dataclasses import replace

from applier.sandbox.kinds.custom import CustomKindModel
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.kinds.server_fields import generate_name, generation_content, restrict_to_subresource

KIND = ServedKind(
    "g.test", "v1", "Link", "links", True, CustomKindModel({}, definitions={}, evaluate=None), is_custom=True
)
WITH_STATUS = replace(KIND, subresources=("status",))
LIVE = {"metadata": {"name": "x"}, "spec": {"a": 1}, "status": {"s": 1}}
WANTED = {"metadata": {"name": "x"}, "spec": {"a": 2}, "status": {"s": 2}}


def test_a_status_subresource_changes_the_status_alone() -> None:
    assert restrict_to_subresource(WITH_STATUS, "status", LIVE, WANTED, frozenset()) == {**LIVE, "status": {"s": 2}}
    assert restrict_to_subresource(WITH_STATUS, "", LIVE, WANTED, frozenset({("status",)})) == {
        **WANTED,
        "status": {"s": 1},
    }


def test_a_status_counts_as_content_where_it_has_no_subresource() -> None:
    assert generation_content(WITH_STATUS, LIVE) == {"spec": {"a": 1}}
    assert generation_content(KIND, LIVE) == {"spec": {"a": 1}, "status": {"s": 1}}


def test_a_generated_name_fits_and_follows_from_the_uid() -> None:
    assert len(generate_name("a" * 70, "u1")) == 63
    assert generate_name("a-", "u1") == generate_name("a-", "u1") != generate_name("a-", "u2")
