"""Formats of texts and numbers in custom resources, and matching of RE2 patterns in linear time.

The module rejects a text only if the API server certainly refuses the text. The module does not check rarely used
formats.

Source: apiextensions-apiserver `pkg/apiserver/validation/formats.go`; kube-openapi `pkg/validation/strfmt`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Final

import re2

from renderer.cel import Meter
from renderer.cel.functions.named_formats import FORMATS

_DURATION: Final = re.compile(
    r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)"
    r"|.*?\d\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)[a-z]*(?![A-Za-zµ]).*",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""A duration in Go's format, or any text that contains a number with a unit."""
_MAIL: Final = re.compile(r".*[^@]@[^@]+", re.DOTALL)

_FLOAT32: Final = 3.4028234663852886e38


def _named_check(name: str) -> Callable[[str], bool]:
    return lambda text: FORMATS[name].find_mistake(Meter(), text) is None


def _parse_check(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _parse_network(text: str) -> object:
    address, _, length = text.partition("/")
    if not (length.isascii() and length.isdecimal()):
        raise ValueError(text)
    return ip_network((address, int(length)), strict=False)


_TEXT_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": _named_check("byte"),
    "cidr": _parse_check(_parse_network),
    "date": _named_check("date"),
    "datetime": _named_check("datetime"),
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: _MAIL.fullmatch(text) is not None,
    "ipv4": _parse_check(IPv4Address),
    "ipv6": _parse_check(IPv6Address),
    "k8slongname": _named_check("dns1123Subdomain"),
    "k8sshortname": _named_check("dns1123Label"),
    "uri": _named_check("uri"),
    "uuid": _named_check("uuid"),
}

_NUMBER_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "float": (-_FLOAT32, _FLOAT32),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""The smallest and the largest value of each format of a number, by format."""


def has_format(name: str, value: str | float) -> bool:
    """Return whether `value` has the format `name`, such as `date-time` or `int32`.

    If `name` is unknown, return True.
    """
    if isinstance(value, str):
        check = _TEXT_CHECKS.get(name.replace("-", ""))
        return check is None or check(value)
    least, greatest = _NUMBER_RANGES.get(name, (value, value))
    return least <= value <= greatest


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class PatternError(ValueError):
    """A pattern that RE2 cannot compile. The message is RE2's reason."""


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern. Raises: PatternError if RE2 cannot compile `pattern`."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def matches(pattern: str, text: str) -> bool:
    """Return whether `pattern` matches anywhere in `text`, since OpenAPI patterns are not anchored."""
    return compile_pattern(pattern).search(text) is not None
