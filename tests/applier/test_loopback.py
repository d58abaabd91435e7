"""Hosts that can only be this machine."""

from __future__ import annotations

import pytest

from applier.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.8.0.1", "::1"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.com", "localhost.example.com"])
def test_another_machine(host: str) -> None:
    assert not is_loopback(host)
