"""Validation rules of a schema, which are CEL, as the API server evaluates them on values that fit otherwise.

Source: Kubernetes, "Validation rules" (`x-kubernetes-validations`): `self` has the types of the schema, names of fields that are no identifiers
are escaped, a rule with `oldSelf` counts only where there is an old value or where that is optional, one that cannot be evaluated is broken. What
has not changed is held to no rule but those with `oldSelf` ("Validation ratcheting").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from renderer.cel import NONE, Meter, Optional, compile_expression
from renderer.cel.openapi import from_openapi
from renderer.cel.values import Associative
from renderer.frozen import dataclass
from renderer.schema.correlation import field_of, is_unchanged, items_before
from renderer.schema.errors import SchemaMistake, child
from renderer.template.typed_views import view_of

Schema = Mapping[str, Any]
Evaluate = Callable[[str, Mapping[str, Any]], Any]
"""Evaluates a CEL expression with variables; raises an exception, with a text for people, if it cannot."""

_OLD: Final = re.compile(r"\boldSelf\b")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL: Final = re.compile("|".join(map(re.escape, _ESCAPES)))
_RESERVED: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return".split()
)


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a value breaks. `path` is that of the value, or what the rule's `fieldPath` adds to it."""

    path: str
    rule: Mapping[str, Any]
    message: str


def rule_mistakes(schema: Schema, value: Any) -> list[SchemaMistake]:
    """The rules that a new value breaks, all within the budget of an instance; those that compare with an old value are not asked."""
    meter = Meter.of_instance()

    def evaluate(text: str, variables: Mapping[str, Any]) -> Any:
        return compile_expression(text).evaluate(variables, meter.renew())

    found = broken_rules(schema, value, evaluate)
    return [SchemaMistake(one.path, f"{one.message}: {one.rule['rule']}", "validation") for one in found]


def broken_rules(
    schema: Schema, value: Any, evaluate: Evaluate, *, old: Any = None, path: str = "", unchanged: bool = False
) -> Iterator[BrokenRule]:
    """Rules of a value and of all below it; `old` is what it was, None if that cannot be told. With `unchanged` it is part of what is as it was."""
    unchanged = unchanged or (old is not None and is_unchanged(schema, value, old))
    rules = schema.get("x-kubernetes-validations") or ()
    if due := [rule for rule in rules if not unchanged or _OLD.search(rule["rule"])]:
        typed = _typing(schema)
        seen = typed(value)
        for rule in due:
            yield from _judged(rule, seen, old, typed, path, evaluate)
    match value:
        case dict():
            properties = schema.get("properties") or {}
            for name, item in value.items():
                if item is not None and (field := field_of(schema, name)):
                    before = old.get(name) if isinstance(old, dict) else None
                    place = child(path, name) if name in properties else f"{path}[{name}]"
                    yield from broken_rules(field, item, evaluate, old=before, path=place, unchanged=unchanged)
        case list():
            items, earlier = _mapping(schema.get("items")), items_before(schema, old)
            for index, item in enumerate(value if items else ()):
                place = f"{path}[{index}]"
                yield from broken_rules(items, item, evaluate, old=earlier(item), path=place, unchanged=unchanged)


def _judged(
    rule: Mapping[str, Any], seen: Any, old: Any, typed: Callable[[Any], Any], path: str, evaluate: Evaluate
) -> Iterator[BrokenRule]:
    """`seen` is the value as rules see it, `typed` makes that of what it was."""
    text = rule["rule"]
    variables: dict[str, Any] = {"self": seen}
    if _OLD.search(text):
        optional = rule.get("optionalOldSelf")
        if old is None and not optional:
            return
        before = NONE if old is None else typed(old)
        variables["oldSelf"] = Optional(before) if optional and old is not None else before
    try:
        held = evaluate(text, variables)
        message = rule.get("message") or f"failed rule: {text}"
        if held is not True and rule.get("messageExpression"):
            message = str(evaluate(rule["messageExpression"], variables))
    except Exception as error:
        held, message = False, f"rule cannot be evaluated: {error}"
    if held is not True:
        yield BrokenRule(f"{path}{rule.get('fieldPath') or ''}", rule, message)


def _typing(schema: Schema) -> Callable[[Any], Any]:
    """Makes of values what rules see: a double where the schema says `number`, a time where it says so; names of fields are escaped."""
    view = view_of(from_openapi(schema), [()])
    return lambda value: _with_escaped_names(schema, view(value) if view else value)


def _with_escaped_names(schema: Schema, value: Any) -> Any:
    match value:
        case dict():
            properties = schema.get("properties") or {}
            return {
                _escaped(name) if name in properties else name: _with_escaped_names(field_of(schema, name) or {}, item)
                for name, item in value.items()
            }
        case list():
            items = [_with_escaped_names(_mapping(schema.get("items")), item) for item in value]
            key = _key(schema)
            return Associative(items, key) if key else items
        case _:
            return value


def _key(schema: Schema) -> Callable[[Any], Hashable] | None:
    """What tells the items of a list apart, as rules see them; None where their order does."""
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _hashable
        case "map":
            names = [_escaped(name) for name in schema.get("x-kubernetes-list-map-keys") or ()]
            return lambda item: _hashable([item.get(name) for name in names] if isinstance(item, dict) else item)
    return None


def _hashable(value: Any) -> Hashable:
    match value:
        case dict():
            return frozenset((name, _hashable(item)) for name, item in value.items())
        case list():
            return tuple(map(_hashable, value))
        case bool():
            return str(value), bool  # Else it were 0 or 1.
        case _:
            return value  # type: ignore[no-any-return]


def _escaped(name: str) -> str:
    return f"__{name}__" if name in _RESERVED else _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}
