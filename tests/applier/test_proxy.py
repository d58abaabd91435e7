"""The proxy of a server, by the environment."""

from __future__ import annotations

import pytest

from applier.proxy import proxy_of

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "without", "expected"),
    [
        ("https://api.test:6443", "", PROXY),
        ("https://127.0.0.1:6443", "", None),
        ("https://api.test:6443", "api.test", None),
        ("https://10.1.2.3:6443", "10.0.0.0/8", None),
        ("https://11.1.2.3:6443", "10.0.0.0/8", PROXY),
        ("http://api.test", "", None),
    ],
)
def test_the_environment_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, without: str, expected: str | None
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", without)
    assert proxy_of(url) == expected


def test_a_proxy_without_a_scheme_is_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    assert proxy_of("https://api.test") == PROXY
