"""Moments as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitops.timestamps import micro_timestamp, optional_timestamp, parse_timestamp, timestamp

MOMENT = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)


def test_a_moment_is_read_as_it_is_written() -> None:
    assert timestamp(MOMENT) == optional_timestamp(MOMENT) == "2026-11-20T10:30:00Z"
    assert micro_timestamp(MOMENT) == "2026-11-20T10:30:00.000000Z"
    assert parse_timestamp(timestamp(MOMENT)) == parse_timestamp(micro_timestamp(MOMENT)) == MOMENT
    assert optional_timestamp(None) is None


@pytest.mark.parametrize("text", [None, 5, "", "soon", "2026-11-20T10:30:00"])
def test_what_names_no_moment_is_none(text: object) -> None:
    assert parse_timestamp(text) is None
