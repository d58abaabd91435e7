"""Which proxy the environment names for a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, by the rules of Go, so as kubectl and git take them."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from applier.loopback import is_loopback


def proxy_of(url: str) -> str | None:
    """The URL of the proxy by which this one is asked; None where it is asked itself, as loopback always is."""
    server, proxies = urlsplit(url), getproxies_environment()
    name = server.hostname or ""
    if is_loopback(name) or proxy_bypass_environment(f"{name}:{server.port}" if server.port else name):
        return None
    proxy = proxies.get(server.scheme)
    if not proxy or _is_in_range(name, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_in_range(host: str, without_proxy: str) -> bool:
    """Is it an address in one of the ranges (`10.0.0.0/8`) of NO_PROXY? Go knows those, Python's library does not."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in without_proxy.split(","):
        with suppress(ValueError):
            if "/" in entry and address in ip_network(entry.strip(), strict=False):
                return True
    return False
