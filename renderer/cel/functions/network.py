"""IP addresses and CIDR ranges (Kubernetes' `ip` and `cidr` libraries).

The parsers reject leading zeros, zones, and IPv4 addresses mapped into IPv6. Source: Go's net/netip.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload, overload_each
from renderer.cel.values import register_type
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

_MAX_TEXT_CHARACTERS: Final = 64
_PREFIX_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_BROADCAST: Final = "255.255.255.255"


@dataclass(frozen=True, slots=True)
class IP:
    """An IP address, the value of `ip()`."""

    address: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """A CIDR range of IP addresses."""

    ip: IP
    """The address before the slash. The address may have bits after the prefix, as in `10.0.0.7/8`."""
    bits: int
    """Length of the prefix in bits."""

    @property
    def first(self) -> int:
        """Return the first address of the range, as a number."""
        host_bits = self.ip.address.max_prefixlen - self.bits
        return int(self.ip.address) >> host_bits << host_bits

    def __str__(self) -> str:
        return f"{self.ip}/{self.bits}"


register_type(IP, "net.IP", "ip")
register_type(CIDR, "net.CIDR", "cidr")


def _parse_ip(text: str) -> IP | None:
    from ipaddress import IPv6Address, ip_address

    if len(text) > _MAX_TEXT_CHARACTERS or "%" in text or not text.isascii():
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.ipv4_mapped is not None else IP(address)


def _parse_cidr(text: str) -> CIDR | None:
    address, slash, length = text.rpartition("/")
    parsed_ip = _parse_ip(address)
    if parsed_ip is None or not slash or not _PREFIX_LENGTH.fullmatch(length):
        return None
    return CIDR(parsed_ip, int(length)) if int(length) <= parsed_ip.address.max_prefixlen else None


@overload("ip(string): ip")
def ip(text: str) -> IP:
    """Return the IP address that `text` names.

    Raises: EvaluationError for any other text, for a zone, and for an IPv4-mapped address.
    """
    address = _parse_ip(text)
    if address is None:
        raise EvaluationError(
            f"{text[:_MAX_TEXT_CHARACTERS]!r} is not an IP address; write an address such as 10.0.0.1 or 2001:db8::1"
        )
    return address


@overload("ip.isCanonical(string): bool", namespaced=True)
def is_canonical(text: str) -> bool:
    """Return whether `text` names an IP address in the form of RFC 5952. Raises: EvaluationError for any other text."""
    return str(ip(text)) == text


@overload("cidr(string): cidr")
def cidr(text: str) -> CIDR:
    """Return the CIDR range that `text` names. The address may have host bits.

    Raises: EvaluationError if `text` does not name a CIDR range.
    """
    network = _parse_cidr(text)
    if network is None:
        raise EvaluationError(
            f"{text[:_MAX_TEXT_CHARACTERS]!r} is not a CIDR range; write a range such as 10.0.0.0/8 or 2001:db8::/32"
        )
    return network


@overload("ip.isLinkLocalMulticast(): bool")
def is_link_local_multicast(value: IP) -> bool:
    """Return whether `value` is in 224.0.0.0/24, or in ff02::/16 with any flags."""
    packed = value.address.packed
    if value.address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


@overload("ip.isGlobalUnicast(): bool")
def is_global_unicast(value: IP) -> bool:
    """Return whether `value` is global in Go's sense, which includes private ranges."""
    address = value.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != _BROADCAST


@overload("cidr.containsIP(ip): bool", "cidr.containsIP(string): bool")
def contains_ip(value: CIDR, other: IP | str) -> bool:
    """Return whether the range `value` contains the address `other`."""
    inner = ip(other) if isinstance(other, str) else other
    return _covers(value, CIDR(inner, inner.address.max_prefixlen))


@overload("cidr.containsCIDR(cidr): bool", "cidr.containsCIDR(string): bool")
def contains_cidr(value: CIDR, other: CIDR | str) -> bool:
    """Return whether the range `value` contains all addresses of the range `other`."""
    return _covers(value, cidr(other) if isinstance(other, str) else other)


def _covers(outer: CIDR, inner: CIDR) -> bool:
    same_family = outer.ip.address.version == inner.ip.address.version
    return same_family and outer.bits <= inner.bits and CIDR(inner.ip, outer.bits).first == outer.first


overload_each(
    {
        "isIP(string): bool": lambda text: _parse_ip(text) is not None,
        "isCIDR(string): bool": lambda text: _parse_cidr(text) is not None,
        "string(ip): string": str,
        "string(cidr): string": str,
        "ip.family(): int": lambda value: value.address.version,
        "ip.isUnspecified(): bool": lambda value: value.address.is_unspecified,
        "ip.isLoopback(): bool": lambda value: value.address.is_loopback,
        "ip.isLinkLocalUnicast(): bool": lambda value: value.address.is_link_local,
        "cidr.ip(): ip": lambda value: value.ip,
        "cidr.prefixLength(): int": lambda value: value.bits,
        "cidr.masked(): cidr": lambda value: CIDR(IP(type(value.ip.address)(value.first)), value.bits),
    }
)
