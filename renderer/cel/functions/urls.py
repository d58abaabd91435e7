"""URLs (Kubernetes' `url` library): absolute URIs and absolute paths.

Source: Go's net/url.
"""

from __future__ import annotations

import re
from typing import Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.values import register_type
from renderer.frozen import dataclass

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_HOST_ESCAPE: Final = re.compile(r"%(25|[89A-Fa-f][0-9A-Fa-f])")
_PORT: Final = re.compile(r"(:[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST: Final = re.compile(r"[^\x00- #%/?@\\^`{|}\x7f]*")
_VALID_PATH: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]/%]*")
_UNESCAPED_IN_PATH: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~$&+,/:;=@")


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL."""

    scheme: str
    user: str
    host: str
    """Host with port and brackets."""
    path: str
    """Path with its special characters escaped."""
    query: str
    """Query as the URL spells it."""
    fragment: str


register_type(URL, "kubernetes.URL", "url")


def _parse(text: str) -> URL | str:
    """Return the parsed URL, or its mistake as text.

    The checks have the order of Go's checks. Source: Go's `url.ParseRequestURI` and `url.Parse`.
    """
    if not text:
        return "it is empty"
    if _CONTROL.search(text):
        return "it contains a control character"
    before_fragment, fragment_mark, fragment = text.partition("#")
    if text.startswith(":"):
        return "the scheme before : is missing"
    scheme_match = _SCHEME.fullmatch(before_fragment)
    scheme, remainder = (scheme_match[1].lower(), scheme_match[2]) if scheme_match else ("", before_fragment)
    remainder, _, query = remainder.partition("?")
    if not remainder.startswith("/"):
        return URL(scheme, "", "", "", query, fragment) if scheme else "it is not absolute and does not begin with /"
    user = host = ""
    if remainder.startswith("//") and (scheme or not remainder.startswith("///")):
        authority, slash, path = remainder[2:].partition("/")
        remainder = slash + path
        user, _, host = authority.rpartition("@")
        if problem := _authority_problem(scheme, user, host):
            return problem
        if fragment_mark and not slash and "?" not in before_fragment:
            return "the host contains a #"
    if any(escape[1] is None for part in (user, remainder, fragment) for escape in _ESCAPE.finditer(part)):
        return "% is not followed by two hexadecimal digits"
    return URL(scheme, user, _unescape(host), _escape_path(remainder), query, fragment)


def _authority_problem(scheme: str, user: str, host: str) -> str | None:
    if not _USER.fullmatch(user):
        return "the user before @ contains an unescaped special character"
    if host.startswith("["):
        address, closing, port = host.rpartition("]")
        if not closing:
            return "the ] of the address is missing"
        problem = _address_problem(address.removeprefix("["))
    else:
        # Go lets the hosts of databases contain colons, such as postgres://a:1,b:2/.
        colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
        name, port = (host[:colon], host[colon:]) if colon >= 0 else (host, "")
        problem = "the host contains a [" if "[" in host else _name_problem(name)
    return problem or (None if _PORT.fullmatch(port) else f"invalid port {port!r}")


def _name_problem(name: str) -> str | None:
    if any(not _HOST_ESCAPE.fullmatch(escape[0]) for escape in _ESCAPE.finditer(name)):
        return "the host contains a % that escapes no letter beyond ASCII"
    return None if _HOST.fullmatch(_ESCAPE.sub("", name)) else "the host contains a forbidden character"


def _address_problem(address: str) -> str | None:
    """Return the mistake in the text between the brackets of a host.

    Args:
        address: An IPv6 address, and optionally `%25` and a zone.
    """
    from ipaddress import IPv6Address

    number, mark, zone = address.partition("%25")
    try:
        IPv6Address(number)
    except ValueError:
        number = ""
    if not number or "%" in number:
        return "the text in brackets is not an IPv6 address"
    return "the zone of the address is invalid" if mark and not _is_zone(zone) else None


def _is_zone(zone: str) -> bool:
    octets = [escape[1] and int(escape[1], 16) for escape in _ESCAPE.finditer(zone)]
    are_harmless = all(
        octet in (0x20, 0x25) or (octet and octet < 0x80 and _HOST.fullmatch(chr(octet))) for octet in octets
    )
    return bool(zone) and are_harmless and _HOST.fullmatch(_ESCAPE.sub("", zone)) is not None


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    octets = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
    return octets.decode(errors="replace")


def _escape_path(path: str) -> str:
    """Return `path` as Go's `URL.EscapedPath()` does.

    The function keeps a well-formed path as written, and escapes the special characters of any other path.
    """
    if _VALID_PATH.fullmatch(path):
        return path
    octets = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), path.encode())
    return "".join(chr(octet) if octet in _UNESCAPED_IN_PATH else f"%{octet:02X}" for octet in octets)


@overload("url(string): url")
def url(meter: Meter, text: str) -> URL:
    """Return the URL that `text` names. The text must start with a scheme or a slash.

    Raises: EvaluationError if `text` does not name a URL.
    """
    meter.read(text)
    parsed = _parse(text)
    if isinstance(parsed, str):
        raise EvaluationError(f"{text[:100]!r} is not a URL: {parsed}")
    return parsed


@overload("isURL(string): bool")
def is_url(meter: Meter, text: str) -> bool:
    """Return whether `url` accepts `text`."""
    meter.read(text)
    return isinstance(_parse(text), URL)


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(colon + port):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port


overload_each(
    {
        "url.getScheme(): string": lambda value: value.scheme,
        "url.getHost(): string": lambda value: value.host,
        "url.getHostname(): string": lambda value: _split_port(value.host)[0],
        "url.getPort(): string": lambda value: _split_port(value.host)[1],
        "url.getEscapedPath(): string": lambda value: value.path,
    }
)


@overload("url.getQuery(): map")
def get_query(meter: Meter, value: URL) -> dict[str, list[str]]:
    """Return the unescaped values of each key of the query. As Go does, leave out malformed pairs."""
    meter.spend(len(value.query))
    values_by_key: dict[str, list[str]] = {}
    for pair in value.query.split("&"):
        if not pair or ";" in pair or any(escape[1] is None for escape in _ESCAPE.finditer(pair)):
            continue
        key, _, text = pair.replace("+", " ").partition("=")
        values_by_key.setdefault(_unescape(key), []).append(_unescape(text))
    return values_by_key
