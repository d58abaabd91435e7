"""Waiting times."""

from __future__ import annotations

from datetime import timedelta

import pytest

from applier.backoff import exponential_backoff


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (1, 1.0), (4, 8.0), (5, 10.0), (10_000, 10.0)])
def test_each_failure_doubles_the_wait_up_to_the_maximum(failures: int, seconds: float) -> None:
    assert exponential_backoff(failures, 0.5, 10.0) == seconds
    assert exponential_backoff(failures, timedelta(seconds=0.5), timedelta(seconds=10)) == timedelta(seconds=seconds)
