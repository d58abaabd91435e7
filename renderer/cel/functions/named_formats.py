"""Named formats of texts (Kubernetes' `format` library): `format.dns1123Label().validate(name)`.

A valid text gives no value, any other a list that says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Final

from renderer.cel.budget import Meter
from renderer.cel.functions.registry import overload
from renderer.cel.functions.urls import is_url
from renderer.cel.values import NONE, Optional, register_type
from renderer.frozen import dataclass

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LONGEST: Final = 63
_LONGEST_SUBDOMAIN: Final = 253


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    check: Callable[[Meter, str], str | None]
    """What is wrong with a text, or None."""


register_type(Format, "kubernetes.NamedFormat", "named_format")


def _pattern(pattern: str, longest: int, what: str) -> Callable[[Meter, str], str | None]:
    compiled = re.compile(pattern)

    def check(_: Meter, text: str) -> str | None:
        if len(text) > longest:
            return f"must be no more than {longest} characters"
        return None if compiled.fullmatch(text) else f"must be {what}"

    return check


def _prefix(check: Callable[[Meter, str], str | None]) -> Callable[[Meter, str], str | None]:
    """A prefix of generated names may end in a dash, since more follows (k8s.io/apimachinery, `NameIsDNSLabel`)."""
    return lambda meter, text: check(meter, f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _qualified(meter: Meter, text: str) -> str | None:
    prefix, slash, name = text.rpartition("/")
    problem = _SUBDOMAIN(meter, prefix) if slash else None
    return f"the part before / {problem}" if problem else _QUALIFIED_NAME(meter, name)


def _uri(meter: Meter, text: str) -> str | None:
    return None if is_url(meter, text) else "must be an absolute URI or path"


def _parsed(parse: Callable[[str], object], pattern: str, what: str) -> Callable[[Meter, str], str | None]:
    shape = re.compile(pattern, re.IGNORECASE)

    def check(_: Meter, text: str) -> str | None:
        try:
            if shape.fullmatch(text) and parse(text.upper()):
                return None
        except ValueError:
            pass
        return f"must be {what}"

    return check


_DNS_LABEL: Final = _pattern(_LABEL, _LONGEST, "lower case letters, digits and -, which neither begins nor ends it")
_SUBDOMAIN: Final = _pattern(rf"{_LABEL}(\.{_LABEL})*", _LONGEST_SUBDOMAIN, "lower case DNS labels with dots between")
_DNS_1035: Final = _pattern("[a-z]([-a-z0-9]*[a-z0-9])?", _LONGEST, "a DNS label that begins with a letter")
_QUALIFIED_NAME: Final = _pattern(_NAME, _LONGEST, "letters, digits, -, _ and ., with a letter or digit at both ends")
_BASE64: Final = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_UUID: Final = "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"
_DATE: Final = r"\d{4}-\d\d-\d\d"
_DATETIME: Final = rf"{_DATE}T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"

_CHECKS: Final[dict[str, Callable[[Meter, str], str | None]]] = {
    "dns1123Label": _DNS_LABEL,
    "dns1123Subdomain": _SUBDOMAIN,
    "dns1035Label": _DNS_1035,
    "qualifiedName": _qualified,
    "dns1123LabelPrefix": _prefix(_DNS_LABEL),
    "dns1123SubdomainPrefix": _prefix(_SUBDOMAIN),
    "dns1035LabelPrefix": _prefix(_DNS_1035),
    "labelValue": _pattern(f"({_NAME})?", _LONGEST, "letters, digits, -, _ and ., with a letter or digit at both ends"),
    "uri": _uri,
    "uuid": _pattern(_UUID, 36, "a UUID"),
    "byte": _pattern(_BASE64, 1 << 20, "base64"),
    "date": _parsed(date.fromisoformat, _DATE, "a date such as 2026-01-31"),
    "datetime": _parsed(datetime.fromisoformat, _DATETIME, "a time such as 2026-01-31T08:00:00Z"),
}


def _constant(name: str, made: Format) -> None:
    @overload(f"format.{name}(): named_format", namespaced=True)
    def get() -> Format:
        return made


FORMATS: Final = {name: Format(name, check) for name, check in _CHECKS.items()}
for _name, _format in FORMATS.items():
    _constant(_name, _format)


@overload("format.named(string): optional_type", namespaced=True)
def named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


@overload("named_format.validate(string): optional_type")
def validate(meter: Meter, wanted: Format, text: str) -> Optional:
    meter.read(text)
    problem = wanted.check(meter, text)
    return NONE if problem is None else Optional([problem])
