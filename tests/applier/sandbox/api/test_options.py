"""Options of requests, and the refusal of those that contradict one another."""

from __future__ import annotations

import orjson
import pytest

from applier.sandbox.api.options import (
    parse_delete_options,
    parse_list_options,
    parse_resource_version,
    parse_write_options,
)
from applier.sandbox.wire import Refusal, Request

PATCH = Request("PATCH", "/", {"user-agent": "kubectl/v1.36"})


def test_the_manager_is_that_of_the_query_else_the_client() -> None:
    assert parse_write_options(PATCH, {"fieldManager": "m"}, "patch").manager == "m"
    assert parse_write_options(PATCH, {}, "patch").manager == "kubectl"


@pytest.mark.parametrize(
    ("query", "apply", "message"),
    [
        ({}, True, "is required for apply patch"),
        ({"force": "true"}, False, "may not be specified for non-apply patch"),
        ({"dryRun": "Some"}, False, 'supported values: "All"'),
        ({"fieldManager": "m" * 129}, False, "may not be more than 128 bytes"),
    ],
)
def test_a_write_that_is_refused(query: dict[str, str], apply: bool, message: str) -> None:
    with pytest.raises(Refusal, match=message) as refusal:
        parse_write_options(PATCH, query, "patch", apply=apply)
    assert refusal.value.code == 422


def test_a_deletion_is_what_the_body_says_else_the_query() -> None:
    body = orjson.dumps({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}})
    options = parse_delete_options(Request("DELETE", "/", body=body), {"propagationPolicy": "Orphan"})
    assert (options.propagation, options.uid) == ("Foreground", "u")
    assert parse_delete_options(Request("DELETE", "/"), {"propagationPolicy": "Orphan"}).propagation == "Orphan"


def test_a_list_cannot_continue_at_another_version() -> None:
    with pytest.raises(Refusal, match="not allowed when using continue"):
        parse_list_options({"continue": "x", "resourceVersion": "7"})
    assert parse_list_options({"limit": "2", "resourceVersion": "7"}).version == 7


@pytest.mark.parametrize("text", ["x", "-1", str(2**64)])
def test_a_version_is_a_number_of_64_bits(text: str) -> None:
    with pytest.raises(Refusal, match="invalid syntax"):
        parse_resource_version(text)
