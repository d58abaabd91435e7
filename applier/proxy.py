"""Choice of the proxy for a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

The choice follows the rules of Go, so Levelgate uses the same proxy as kubectl and git.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from applier.loopback import is_loopback


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy for the server at `url`, or None for a direct connection.

    Every connection to a loopback address is direct.
    """
    server, proxies = urlsplit(url), getproxies_environment()
    name = server.hostname or ""
    if is_loopback(name) or proxy_bypass_environment(f"{name}:{server.port}" if server.port else name):
        return None
    proxy = proxies.get(server.scheme)
    if not proxy or _is_in_range(name, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_in_range(host: str, without_proxy: str) -> bool:
    """Return whether `host` is an address in a range of `without_proxy`, the value of NO_PROXY, such as `10.0.0.0/8`.

    Python's `urllib` does not support ranges.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in without_proxy.split(","):
        with suppress(ValueError):
            if "/" in entry and address in ip_network(entry.strip(), strict=False):
                return True
    return False
