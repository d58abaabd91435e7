"""Label and field selectors, as predicates.

Source: apimachinery `pkg/labels` and `pkg/fields`; the words of the refusals are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from applier.sandbox.kinds import names
from applier.sandbox.wire import bad_request

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


def parse_label_selector(text: str) -> Predicate:
    """Whether labels match `app=x,tier in (a, b),!old`. Raises Refusal (400)."""
    tokens = _Tokens(text)
    requirements: list[Predicate] = []
    while tokens.peek:
        requirements.append(_parse_requirement(tokens))
        if tokens.peek and tokens.take() != ",":
            raise bad_request(f"unable to parse requirement: found '{tokens.last}', expected: ',' or 'end of string'")
        if tokens.last == "," and not tokens.peek:
            raise bad_request("found '', expected: identifier after ','")
    match requirements:
        case []:
            return lambda _: True
        case [only_requirement]:
            return only_requirement
        case _:
            return lambda labels: all(requirement(labels) for requirement in requirements)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._remaining = [token_match.group(1) for token_match in _TOKEN.finditer(text)][::-1]
        self.last = ""

    @property
    def peek(self) -> str:
        return self._remaining[-1] if self._remaining else ""

    def take(self) -> str:
        self.last = self._remaining.pop() if self._remaining else ""
        return self.last


def _parse_requirement(tokens: _Tokens) -> Predicate:
    negated = tokens.peek == "!" and bool(tokens.take())
    key = tokens.take()
    _check_label(key, "")
    if negated:
        return lambda labels: key not in labels
    match tokens.peek:
        case "" | ",":
            return lambda labels: key in labels
        case "=" | "==" | "!=":
            operator, value = tokens.take(), _parse_value(tokens)
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
        case "in" | "notin":
            operator, values = tokens.take(), _parse_values(tokens)
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        case ">" | "<":
            return _parse_comparison(key, tokens)
        case other:
            raise bad_request(f"unable to parse requirement: found '{other}', expected: {_OPERATORS}")


def _parse_comparison(key: str, tokens: _Tokens) -> Predicate:
    is_greater, text = tokens.take() == ">", tokens.take()
    bound = _parse_integer(text)
    if bound is None:
        raise bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": must be an integer')

    def matches(labels: Labels) -> bool:
        value = _parse_integer(labels.get(key, ""))
        return value is not None and (value > bound if is_greater else value < bound)

    return matches


def _parse_integer(text: str) -> int | None:
    """A number of 64 bits; a label's value has no sign."""
    return int(text) if re.fullmatch("[0-9]{1,63}", text) and int(text) < 2**63 else None


def _parse_value(tokens: _Tokens) -> str:
    """One value; it may be missing, which is the empty text."""
    if tokens.peek in ("", ","):
        return ""
    value = tokens.take()
    _check_label("key", value)
    return value


def _check_label(key: str, value: str) -> None:
    """Raises Refusal (400) for what is no label."""
    for mistake in names.validate_labels({key: value}):
        raise bad_request(f"unable to parse requirement: <nil>: {mistake.message}")


def _parse_values(tokens: _Tokens) -> frozenset[str]:
    if tokens.take() != "(":
        raise bad_request(f"unable to parse requirement: found '{tokens.last}' expected: '('")
    values: set[str] = set()
    while True:
        if tokens.peek == ")":
            values.add("")
        else:
            if tokens.peek == "":
                raise bad_request("unable to parse requirement: found '', expected: ',', ')' or identifier")
            values.add(_parse_value(tokens))
        match tokens.take():
            case ")":
                return frozenset(values)
            case ",":
                continue
            case other:
                raise bad_request(f"unable to parse requirement: found '{other}', expected: ',' or ')'")


FieldTerms = tuple[tuple[str, str, bool], ...]
"""Path, value, and whether they must be equal."""

_FIELD_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)
_ESCAPE_OR_EQUALS = re.compile(r"\\(.?)|=", re.DOTALL)


def parse_field_selector(text: str) -> FieldTerms:
    """The terms of `metadata.name=x,status.phase!=Running`. Raises Refusal (400)."""
    terms: list[tuple[str, str, bool]] = []
    for term in _FIELD_TERM.findall(text):
        term_match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", term, re.DOTALL)
        if not term_match:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = term_match.groups()
        terms.append((path, _ESCAPE_OR_EQUALS.sub(_unescape, value), operator != "!="))
    return tuple(terms)


def _unescape(escape_match: re.Match[str]) -> str:
    """What a backslash and what follows it stand for. Raises Refusal (400), for `=` without one too."""
    if escape_match[1] is None:
        raise bad_request("invalid field selector: unescaped character in value: 61")
    if escape_match[1] not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {escape_match[0]}")
    return escape_match[1]
