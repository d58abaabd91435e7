"""Named formats of texts (Kubernetes' `format` library): `format.dns1123Label().validate(name)`.

A valid text yields an empty optional. Any other text yields an optional of a list of mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Final

from renderer.cel.budget import Meter
from renderer.cel.functions.registry import overload
from renderer.cel.functions.urls import is_url
from renderer.cel.values import NONE, Optional, register_type
from renderer.frozen import dataclass

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_MAX_LABEL_CHARACTERS: Final = 63
_MAX_SUBDOMAIN_CHARACTERS: Final = 253


@dataclass(frozen=True, slots=True)
class Format:
    """The value of `format.NAME()`."""

    name: str

    def find_mistake(self, meter: Meter, text: str) -> str | None:
        """Return the mistake in `text`, or None if `text` has the format."""
        return _CHECKS[self.name](meter, text)


register_type(Format, "kubernetes.NamedFormat", "named_format")


def _pattern_check(pattern: str, max_length: int, description: str) -> Callable[[Meter, str], str | None]:
    compiled = re.compile(pattern)

    def check(_: Meter, text: str) -> str | None:
        if len(text) > max_length:
            return f"must be no more than {max_length} characters"
        return None if compiled.fullmatch(text) else f"must be {description}"

    return check


def _prefix_check(check: Callable[[Meter, str], str | None]) -> Callable[[Meter, str], str | None]:
    """Return `check` for prefixes of generated names. A prefix may end in a dash.

    Source: k8s.io/apimachinery, `NameIsDNSLabel`.
    """
    return lambda meter, text: check(meter, f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _check_qualified_name(meter: Meter, text: str) -> str | None:
    prefix, slash, name = text.rpartition("/")
    problem = _SUBDOMAIN(meter, prefix) if slash else None
    return f"the part before / {problem}" if problem else _QUALIFIED_NAME(meter, name)


def _check_uri(meter: Meter, text: str) -> str | None:
    return None if is_url(meter, text) else "must be an absolute URI or path"


def _parse_check(parse: Callable[[str], object], pattern: str, description: str) -> Callable[[Meter, str], str | None]:
    shape = re.compile(pattern, re.IGNORECASE)

    def check(_: Meter, text: str) -> str | None:
        try:
            if shape.fullmatch(text) and parse(text.upper()):
                return None
        except ValueError:
            pass
        return f"must be {description}"

    return check


_DNS_LABEL: Final = _pattern_check(
    _LABEL, _MAX_LABEL_CHARACTERS, "lower case letters, digits and -, with a letter or digit at both ends"
)
_SUBDOMAIN: Final = _pattern_check(
    rf"{_LABEL}(\.{_LABEL})*", _MAX_SUBDOMAIN_CHARACTERS, "lower case DNS labels with dots between the labels"
)
_DNS_1035: Final = _pattern_check(
    "[a-z]([-a-z0-9]*[a-z0-9])?", _MAX_LABEL_CHARACTERS, "a DNS label that begins with a letter"
)
_QUALIFIED_NAME: Final = _pattern_check(
    _NAME, _MAX_LABEL_CHARACTERS, "letters, digits, -, _ and ., with a letter or digit at both ends"
)
_BASE64: Final = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_UUID: Final = "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"
_DATE: Final = r"\d{4}-\d\d-\d\d"
_DATETIME: Final = rf"{_DATE}T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"

_CHECKS: Final[Mapping[str, Callable[[Meter, str], str | None]]] = {
    "dns1123Label": _DNS_LABEL,
    "dns1123Subdomain": _SUBDOMAIN,
    "dns1035Label": _DNS_1035,
    "qualifiedName": _check_qualified_name,
    "dns1123LabelPrefix": _prefix_check(_DNS_LABEL),
    "dns1123SubdomainPrefix": _prefix_check(_SUBDOMAIN),
    "dns1035LabelPrefix": _prefix_check(_DNS_1035),
    "labelValue": _pattern_check(
        f"({_NAME})?", _MAX_LABEL_CHARACTERS, "letters, digits, -, _ and ., with a letter or digit at both ends"
    ),
    "uri": _check_uri,
    "uuid": _pattern_check(_UUID, 36, "a UUID"),
    "byte": _pattern_check(_BASE64, 1 << 20, "base64"),
    "date": _parse_check(date.fromisoformat, _DATE, "a date such as 2026-01-31"),
    "datetime": _parse_check(datetime.fromisoformat, _DATETIME, "a time such as 2026-01-31T08:00:00Z"),
}
"""Function that returns the mistake in a text, or None if the text is valid, by name of the format."""


def _register_format(name: str, named_format: Format) -> None:
    @overload(f"format.{name}(): named_format", namespaced=True)
    def get() -> Format:
        return named_format


FORMATS: Final = {name: Format(name) for name in _CHECKS}
for _name, _format in FORMATS.items():
    _register_format(_name, _format)


@overload("format.named(string): optional_type", namespaced=True)
def find_format(name: str) -> Optional:
    """Return an optional of the format with the name `name`, or an empty optional if no format has this name."""
    return Optional(FORMATS[name]) if name in FORMATS else NONE


@overload("named_format.validate(string): optional_type")
def validate(meter: Meter, named_format: Format, text: str) -> Optional:
    """Return an empty optional if `text` has the format, or else an optional of the list of mistakes."""
    meter.read(text)
    problem = named_format.find_mistake(meter, text)
    return NONE if problem is None else Optional([problem])
