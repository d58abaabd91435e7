"""Rules for names, and for keys and values of labels.

The error messages are the same as those of the API server.

Source: apimachinery `pkg/util/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from applier.errors import StatusCause
from applier.sandbox.wire import invalid_value

_LABEL_TEXT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_TEXT = rf"{_LABEL_TEXT}(\.{_LABEL_TEXT})*"
_LABEL, _SUBDOMAIN = re.compile(_LABEL_TEXT), re.compile(_SUBDOMAIN_TEXT)
_SERVICE = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_RULE_MESSAGES: Final = {
    "subdomain": (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        f"'{_SUBDOMAIN_TEXT}')"
    ),
    "label": (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        f"'{_LABEL_TEXT}')"
    ),
    "service": (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
        "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    ),
    "qualified": (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ),
    "value": (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
        "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ),
}
_NAME_RULES: Final = {
    "subdomain": (_SUBDOMAIN, 253, "subdomain"),
    "short": (_SUBDOMAIN, 52, "subdomain"),
    "label": (_LABEL, 63, "label"),
    "service": (_SERVICE, 63, "service"),
}


def validate_name(name: str, field: str, rule: str) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in `name`.

    Args:
        field: path of the name in the causes.
        rule: `subdomain`, `short` (a subdomain of at most 52 characters), `label` (RFC 1123) or `service` (RFC 1035).
    """
    pattern, max_length, message_key = _NAME_RULES[rule]
    if len(name) > max_length:
        yield invalid_value(field, name, f"must be no more than {max_length} bytes")
    if not pattern.fullmatch(name):
        yield invalid_value(field, name, _RULE_MESSAGES[message_key])


def validate_labels(entries: Mapping[str, str], field: str = "metadata.labels") -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in labels.

    Keys are qualified names. Values have at most 63 characters.
    """
    for key, value in entries.items():
        yield from validate_qualified_name(key, field)
        if len(value) > 63:
            yield invalid_value(field, value, "must be no more than 63 bytes")
        if not _VALUE.fullmatch(value):
            yield invalid_value(field, value, _RULE_MESSAGES["value"])


def validate_qualified_name(key: str, field: str) -> Iterator[StatusCause]:
    """Yield a status cause for each mistake in `key`: a name, optionally after a DNS subdomain and a slash."""
    return (invalid_value(field, key, problem) for problem in _find_name_problems(key))


@lru_cache(maxsize=1024)
def _find_name_problems(key: str) -> tuple[str, ...]:
    """Return the problems of the qualified name `key`.

    The function caches the results, because many objects have the same keys.
    """
    prefix, slash, name = key.rpartition("/")
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif len(prefix) > 253:
        problems.append("prefix part must be no more than 253 bytes")
    elif prefix and not _SUBDOMAIN.fullmatch(prefix):
        problems.append(f"prefix part {_RULE_MESSAGES['subdomain']}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        problems.append(_RULE_MESSAGES["qualified"])
    return tuple(problems)
