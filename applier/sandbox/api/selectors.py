"""Label and field selectors of a request.

The error messages are the same as those of the API server.

Source: apimachinery `pkg/labels` and `pkg/fields`.
"""

from __future__ import annotations

import re

from applier.sandbox.kinds import names
from applier.sandbox.wire import bad_request
from renderer.label_selector import LabelSelector, SelectorError


def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector in `text`, such as `app=x,tier in (a, b),!old`.

    Raises: Refusal (400 if the selector is malformed).
    """
    try:
        selector = LabelSelector.parse(text)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    for requirement in selector.requirements:
        for mistake in names.validate_qualified_name(requirement.key, ""):
            raise bad_request(f"unable to parse requirement: <nil>: {mistake.message}")
        for index, value in enumerate(sorted(requirement.values)):
            for mistake in names.validate_labels({"key": value}):
                field = f"values[{index}][{requirement.key}]"
                raise bad_request(f"unable to parse requirement: {field}: {mistake.message}")
    return selector


FieldTerms = tuple[tuple[str, str, bool], ...]
"""Terms of a field selector: path, value, and whether the field must equal (True) or differ from (False) the value."""

_FIELD_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)
_ESCAPE_OR_EQUALS = re.compile(r"\\(.?)|=", re.DOTALL)


def parse_field_selector(text: str) -> FieldTerms:
    """Return the terms in `text`, such as `metadata.name=x,status.phase!=Running`.

    Raises: Refusal (400 if the selector is malformed).
    """
    terms: list[tuple[str, str, bool]] = []
    for term in _FIELD_TERM.findall(text):
        term_match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", term, re.DOTALL)
        if not term_match:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = term_match.groups()
        terms.append((path, _ESCAPE_OR_EQUALS.sub(_unescape, value), operator != "!="))
    return tuple(terms)


def _unescape(escape_match: re.Match[str]) -> str:
    """Return the character that the escape sequence in `escape_match` represents.

    Raises: Refusal (400 if the sequence is unknown, or if `=` has no backslash).
    """
    if escape_match[1] is None:
        raise bad_request("invalid field selector: unescaped character in value: 61")
    if escape_match[1] not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {escape_match[0]}")
    return escape_match[1]
