"""Label and field selectors, as predicates.

Source: apimachinery `pkg/labels` and `pkg/fields`; the words of the refusals are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from applier.sandbox.wire import bad_request

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_NAME = re.compile(r"([A-Za-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


def label_selector(text: str) -> Predicate:
    """Whether labels match `app=x,tier in (a, b),!old`. Raises Refusal (400)."""
    tokens = _Tokens(text)
    requirements: list[Predicate] = []
    while tokens.peek:
        requirements.append(_requirement(tokens))
        if tokens.peek and tokens.take() != ",":
            raise bad_request(f"unable to parse requirement: found '{tokens.last}', expected: ',' or 'end of string'")
    match requirements:
        case []:
            return lambda _: True
        case [one]:
            return one
        case _:
            return lambda labels: all(requirement(labels) for requirement in requirements)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._rest = [found.group(1) for found in _TOKEN.finditer(text)][::-1]
        self.last = ""

    @property
    def peek(self) -> str:
        return self._rest[-1] if self._rest else ""

    def take(self) -> str:
        self.last = self._rest.pop() if self._rest else ""
        return self.last


def _requirement(tokens: _Tokens) -> Predicate:
    negated = tokens.peek == "!" and bool(tokens.take())
    key = tokens.take()
    if not _NAME.fullmatch(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": is not a label\'s name')
    if negated:
        return lambda labels: key not in labels
    match tokens.peek:
        case "" | ",":
            return lambda labels: key in labels
        case "=" | "==" | "!=":
            operator, value = tokens.take(), _value(tokens)
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
        case "in" | "notin":
            operator, values = tokens.take(), _values(tokens)
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        case ">" | "<":
            return _comparison(key, tokens)
        case other:
            raise bad_request(f"unable to parse requirement: found '{other}', expected: {_OPERATORS}")


def _comparison(key: str, tokens: _Tokens) -> Predicate:
    greater, text = tokens.take() == ">", tokens.take()
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": must be an integer')
    bound = int(text)

    def matches(labels: Labels) -> bool:
        value = labels.get(key, "")
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            return False
        return int(value) > bound if greater else int(value) < bound

    return matches


def _value(tokens: _Tokens) -> str:
    """One value; it may be missing, which is the empty text."""
    if tokens.peek in ("", ","):
        return ""
    value = tokens.take()
    if not _VALUE.fullmatch(value):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{value}": is not a label\'s value')
    return value


def _values(tokens: _Tokens) -> frozenset[str]:
    if tokens.take() != "(":
        raise bad_request(f"unable to parse requirement: found '{tokens.last}' expected: '('")
    values: set[str] = set()
    while True:
        if tokens.peek == ")":
            values.add("")
        else:
            if tokens.peek == "":
                raise bad_request("unable to parse requirement: found '', expected: ',', ')' or identifier")
            values.add(_value(tokens))
        match tokens.take():
            case ")":
                return frozenset(values)
            case ",":
                continue
            case other:
                raise bad_request(f"unable to parse requirement: found '{other}', expected: ',' or ')'")


FieldTerms = tuple[tuple[str, str, bool], ...]
"""Path, value, and whether they must be equal."""


def field_selector(text: str) -> FieldTerms:
    """The terms of `metadata.name=x,status.phase!=Running`. Raises Refusal (400)."""
    terms: list[tuple[str, str, bool]] = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]*)(==|!=|=)(.*)", term)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = found.groups()
        terms.append((path.strip(), value.strip(), operator != "!="))
    return tuple(terms)
