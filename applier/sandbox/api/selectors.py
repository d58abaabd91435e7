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


def label_selector(text: str) -> Predicate:
    """Whether labels match `app=x,tier in (a, b),!old`. Raises Refusal (400)."""
    tokens = _Tokens(text)
    requirements: list[Predicate] = []
    while tokens.peek:
        requirements.append(_requirement(tokens))
        if tokens.peek and tokens.take() != ",":
            raise bad_request(f"unable to parse requirement: found '{tokens.last}', expected: ',' or 'end of string'")
        if tokens.last == "," and not tokens.peek:
            raise bad_request("found '', expected: identifier after ','")
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
    _check(key, "")
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
    bound = _integer(text)
    if bound is None:
        raise bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": must be an integer')

    def matches(labels: Labels) -> bool:
        value = _integer(labels.get(key, ""))
        return value is not None and (value > bound if greater else value < bound)

    return matches


def _integer(text: str) -> int | None:
    """A number of 64 bits; a label's value has no sign."""
    return int(text) if re.fullmatch("[0-9]{1,63}", text) and int(text) < 2**63 else None


def _value(tokens: _Tokens) -> str:
    """One value; it may be missing, which is the empty text."""
    if tokens.peek in ("", ","):
        return ""
    value = tokens.take()
    _check("key", value)
    return value


def _check(key: str, value: str) -> None:
    """Raises Refusal (400) for what is no label."""
    for mistake in names.labels({key: value}):
        raise bad_request(f"unable to parse requirement: <nil>: {mistake.message}")


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

_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)
_SPECIAL = re.compile(r"\\(.?)|=", re.DOTALL)


def field_selector(text: str) -> FieldTerms:
    """The terms of `metadata.name=x,status.phase!=Running`. Raises Refusal (400)."""
    terms: list[tuple[str, str, bool]] = []
    for term in _TERM.findall(text):
        found = re.fullmatch(r"(.*?)(==|!=|=)(.*)", term, re.DOTALL)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = found.groups()
        terms.append((path, _SPECIAL.sub(_meant, value), operator != "!="))
    return tuple(terms)


def _meant(found: re.Match[str]) -> str:
    """What a backslash and what follows it stand for. Raises Refusal (400), for `=` without one too."""
    if found[1] is None:
        raise bad_request("invalid field selector: unescaped character in value: 61")
    if found[1] not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {found[0]}")
    return found[1]
