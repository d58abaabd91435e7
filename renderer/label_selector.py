"""Label selectors of Kubernetes, and selections of the objects of a kind by their labels.

All requirements of a selector must hold. A selector without requirements matches everything. The text form is that of
the API's `labelSelector` parameter, in one canonical order, so that equal selections cause one request.

Source: Kubernetes documentation, "Labels and Selectors"; apimachinery `pkg/labels`, from which `LabelSelector.parse`
takes the wording of its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from renderer.errors import RendererError
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, group_kind

_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"({_NAME})?")
_TOKEN: Final = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_SYMBOLS: Final = frozenset(("", "==", "!=", *"=!,()<>"))


class SelectorError(RendererError, ValueError):
    """A label selector that the API server would refuse. The message names the part with the mistake."""


class Operator(StrEnum):
    """The operators of requirements. `Gt` and `Lt` exist only in the text form."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER_THAN = "Gt"
    LESS_THAN = "Lt"


EXPRESSION_OPERATORS: Final = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
"""The operators of `matchExpressions`."""

_QUERY_OPERATORS: Final = {
    "in": Operator.IN,
    "=": Operator.IN,
    "==": Operator.IN,
    "notin": Operator.NOT_IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}

LABEL_SELECTOR_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string", "minLength": 1},
                    "operator": {"type": "string", "enum": [str(operator) for operator in EXPRESSION_OPERATORS]},
                    "values": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}
"""OpenAPI of a Kubernetes `LabelSelector`."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. If the label is absent, `NotIn` holds."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    is_equality: bool = field(default=False, compare=False)
    """True if the text form is `key=value` or `key!=value`. The two forms mean `In` and `NotIn` with one value."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
        value, (bound,) = _parse_integer(labels.get(self.key, "")), map(int, self.values)
        return value is not None and (value > bound if self.operator is Operator.GREATER_THAN else value < bound)

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.IN:
                return f"{self.key}={values}" if self.is_equality else f"{self.key} in ({values})"
            case Operator.NOT_IN:
                return f"{self.key}!={values}" if self.is_equality else f"{self.key} notin ({values})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
        return f"{self.key}{'>' if self.operator is Operator.GREATER_THAN else '<'}{values}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A selector as a list of requirements, sorted by key, then by text."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_object(cls, selector: Any, path: str = "selector", *, strict: bool = False) -> LabelSelector:
        """Return the selector of a Kubernetes `LabelSelector` (`matchLabels`, `matchExpressions`).

        Args:
            path: Place of `selector` in the document, for messages.
            strict: True to reject keys and values that no label can have.

        Raises: SelectorError for an invalid selector.
        """
        if not isinstance(selector, Mapping):
            raise SelectorError(f"{path} must be a mapping with matchLabels or matchExpressions")
        labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
        if not isinstance(labels, Mapping):
            raise SelectorError(f"{path}.matchLabels must be a mapping from labels to their values")
        if not isinstance(expressions, list | tuple) or not all(isinstance(item, Mapping) for item in expressions):
            raise SelectorError(f"{path}.matchExpressions must be a list of key, operator and values")
        requirements = [_read_label(key, value, strict=strict) for key, value in labels.items()]
        requirements += [_read_expression(expression, strict=strict) for expression in expressions]
        return cls(_sort(requirements))

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Return the selector with a text form such as `app=x,tier in (a, b),!old,generation>4`.

        The parser does not check the syntax of keys and values. Raises: SelectorError for any other form.
        """
        return cls(_sort(_parse_requirements(_Tokens(text))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class Selection(NamedTuple):
    """A selection of all objects of a kind whose labels match a selector, in one namespace or in all."""

    group_kind: GroupKind
    namespace: str | None
    """Namespace of the objects, or None to select objects in every namespace and cluster-scoped objects."""
    labels: LabelSelector

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the selection contains an object of its kind in `namespace` with `labels`."""
        return self.namespace in {None, namespace} and self.labels.matches(labels)

    def __str__(self) -> str:
        namespace_text = f" in {self.namespace}" if self.namespace else ""
        return f"{self.group_kind} objects{namespace_text} with {str(self.labels) or 'any labels'}"

    @classmethod
    def from_reference(cls, reference: Manifest) -> Selection:
        """Return the selection of a rendered `externalRef` with a selector.

        Raises: SelectorError for an invalid selector.
        """
        metadata = reference["metadata"]
        namespace = metadata.get("namespace") or None
        if namespace is not None and not isinstance(namespace, str):
            raise SelectorError("metadata.namespace must be a text; to select in all namespaces, remove the field")
        labels = LabelSelector.from_object(metadata["selector"] or {}, "metadata.selector", strict=True)
        return cls(group_kind(reference), namespace, labels)


def _sort(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda requirement: (requirement.key, str(requirement))))


def _read_label(key: Any, value: Any, *, strict: bool) -> Requirement:
    value = _check_value(_check_key(key, strict=strict), value, strict=strict)
    return Requirement(key, Operator.IN, frozenset({value}), is_equality=True)


def _read_expression(expression: Mapping[str, Any], *, strict: bool) -> Requirement:
    key, operator = _check_key(expression.get("key"), strict=strict), expression.get("operator")
    values = expression.get("values") or []
    if operator not in EXPRESSION_OPERATORS:
        raise SelectorError(f"label {key}: operator {operator!r} is not one of {', '.join(EXPRESSION_OPERATORS)}")
    if not isinstance(values, list | tuple):
        raise SelectorError(f"label {key}: values must be a list")
    if (operator in (Operator.IN, Operator.NOT_IN)) != bool(values):
        raise SelectorError(f"label {key}: operator {operator} {'takes no values' if values else 'needs values'}")
    return Requirement(key, Operator(operator), frozenset(_check_value(key, value, strict=strict) for value in values))


def _check_key(key: Any, *, strict: bool) -> str:
    if isinstance(key, str) and (not strict or _KEY.fullmatch(key)):
        return key
    raise SelectorError(f"{key!r} is not the name of a label; write a name such as app or example.com/app")


def _check_value(key: str, value: Any, *, strict: bool) -> str:
    if isinstance(value, str) and (not strict or _VALUE.fullmatch(value)):
        return value
    raise SelectorError(f"{value!r} cannot be the value of the label {key}; a label is a text of at most 63 characters")


class _Tokens:
    """The identifiers and symbols of a selector in text form. After the last token, the next token is an empty text."""

    def __init__(self, text: str) -> None:
        self._remaining = _TOKEN.findall(text)[::-1]

    @property
    def peek(self) -> str:
        return self._remaining[-1] if self._remaining else ""

    def take(self) -> str:
        return self._remaining.pop() if self._remaining else ""

    def take_identifier(self, expected: str = "identifier") -> str:
        if self.peek in _SYMBOLS:
            raise _unexpected(self.peek, expected)
        return self.take()


def _unexpected(token: str, expected: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: found '{token}', expected: {expected}")


def _parse_requirements(tokens: _Tokens) -> Iterator[Requirement]:
    separator, expected = "", "!, identifier, or 'end of string'"
    while tokens.peek or separator:
        if tokens.peek in _SYMBOLS - {"!"}:
            raise SelectorError(f"found '{tokens.peek}', expected: {expected}")
        yield _parse_requirement(tokens)
        separator, expected = tokens.take(), "identifier after ','"
        if separator not in ("", ","):
            raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")


def _parse_requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek == "!":
        tokens.take()
        return Requirement(tokens.take_identifier(), Operator.DOES_NOT_EXIST)
    key = tokens.take_identifier()
    if tokens.peek in ("", ","):
        return Requirement(key, Operator.EXISTS)
    symbol = tokens.take()
    operator = _QUERY_OPERATORS.get(symbol)
    if operator is None:
        raise _unexpected(symbol, "in, notin, =, ==, !=, gt, lt")
    if symbol in ("in", "notin"):
        return Requirement(key, operator, _parse_values(tokens))
    value = "" if tokens.peek in ("", ",") else tokens.take_identifier()
    is_equality = operator in (Operator.IN, Operator.NOT_IN)
    if not is_equality and _parse_integer(value) is None:
        raise SelectorError(
            f'unable to parse requirement: values[0]: Invalid value: "{value}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    return Requirement(key, operator, frozenset({value}), is_equality=is_equality)


def _parse_values(tokens: _Tokens) -> frozenset[str]:
    if (token := tokens.take()) != "(":
        raise SelectorError(f"unable to parse requirement: found '{token}' expected: '('")
    values: set[str] = set()
    expected = "',', ')' or identifier"
    while True:
        values.add("" if tokens.peek in (",", ")") else tokens.take_identifier(expected))
        match tokens.take():
            case ")":
                return frozenset(values)
            case ",":
                expected = "',', or identifier"
            case token:
                raise _unexpected(token, "',' or ')'")


def _parse_integer(text: str) -> int | None:
    """Return `text` as an integer, or None if `text` has a sign or does not fit into 64 bits."""
    return int(text) if re.fullmatch("[0-9]{1,63}", text) and int(text) < 2**63 else None
