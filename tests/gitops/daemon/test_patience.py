"""How long a server that fails is left alone (fault table: "rate limit")."""

from __future__ import annotations

import pytest

from gitops.daemon.patience import rest


@pytest.mark.parametrize(
    ("failures", "throttled", "wanted", "seconds"),
    [
        *((1, False, None, 0), (2, False, None, 0), (3, False, None, 1), (5, False, None, 4), (60, False, None, 300)),
        *((1, True, None, 60), (9, True, None, 300)),
        *((1, True, 7.0, 7), (1, True, 900.0, 900), (1, False, 7.0, 7), (60, False, 7.0, 300), (1, True, 1e6, 3600)),
    ],
)
def test_how_long_a_server_rests(failures: int, throttled: bool, wanted: float | None, seconds: float) -> None:
    assert rest(failures, throttled=throttled, wanted=wanted) == seconds
