"""CEL validation rules of a schema (`x-kubernetes-validations`), evaluated on values that are otherwise valid.

`self` has the types of the schema. The module escapes field names that are not identifiers. If no old value exists, the
module skips a rule with `oldSelf`, unless the rule has `optionalOldSelf`. For an unchanged value, the module evaluates
only rules with `oldSelf` ("Validation ratcheting"). Items of a list map have old values. Items of any other list have
none. If the evaluation of a rule fails, the rule counts as broken.

Source: Kubernetes, "Validation rules".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from renderer.cel import NONE, Meter, Optional, compile_expression
from renderer.cel.openapi import from_openapi
from renderer.cel.values import Associative
from renderer.frozen import dataclass
from renderer.schema.correlation import field_of, is_unchanged, old_item_finder
from renderer.schema.errors import SchemaMistake, child_path
from renderer.template.typed_views import view_of

Schema = Mapping[str, Any]
Evaluate = Callable[[str, Mapping[str, Any]], Any]
"""Function that evaluates a CEL expression with variables.

Raises: any exception, with a readable text, if the evaluation fails.
"""

_OLD_SELF: Final = re.compile(r"\boldSelf\b")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL: Final = re.compile("|".join(map(re.escape, _ESCAPES)))
_RESERVED: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return".split()
)


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a value breaks, with the place of the value."""

    path: str
    """Path of the value, extended by the rule's `fieldPath`."""
    rule: Mapping[str, Any]
    message: str


def rule_mistakes(schema: Schema, value: Any) -> list[SchemaMistake]:
    """Return a mistake for each rule that the new value `value` breaks, within the budget of one instance.

    The function skips rules that need an old value.
    """
    meter = Meter.of_instance()

    def evaluate(text: str, variables: Mapping[str, Any]) -> Any:
        return compile_expression(text).evaluate(variables, meter.renew())

    broken = broken_rules(schema, value, evaluate)
    return [
        SchemaMistake(broken_rule.path, f"{broken_rule.message}: {broken_rule.rule['rule']}", "validation")
        for broken_rule in broken
    ]


def broken_rules(
    schema: Schema, value: Any, evaluate: Evaluate, *, old: Any = None, path: str = "", unchanged: bool = False
) -> Iterator[BrokenRule]:
    """Yield the rules that `value`, or a value inside `value`, breaks.

    Args:
        old: The previous value, or None if the previous value is unknown.
        unchanged: True if `value` is part of a larger value that is unchanged.
    """
    unchanged = unchanged or (old is not None and is_unchanged(schema, value, old))
    rules = schema.get("x-kubernetes-validations") or ()
    if active_rules := [rule for rule in rules if not unchanged or _OLD_SELF.search(rule["rule"])]:
        to_rule_value = _rule_value_converter(schema)
        rule_value = to_rule_value(value)
        for rule in active_rules:
            yield from _evaluate_rule(rule, rule_value, old, to_rule_value, path, evaluate)
    match value:
        case dict():
            properties = schema.get("properties") or {}
            for name, item in value.items():
                if item is not None and (field := field_of(schema, name)):
                    old_item = old.get(name) if isinstance(old, dict) else None
                    place = child_path(path, name) if name in properties else f"{path}[{name}]"
                    yield from broken_rules(field, item, evaluate, old=old_item, path=place, unchanged=unchanged)
        case list():
            items, find_old_item = _mapping(schema.get("items")), old_item_finder(schema, old)
            for index, item in enumerate(value if items else ()):
                place = f"{path}[{index}]"
                yield from broken_rules(items, item, evaluate, old=find_old_item(item), path=place, unchanged=unchanged)


def _evaluate_rule(
    rule: Mapping[str, Any],
    rule_value: Any,
    old: Any,
    to_rule_value: Callable[[Any], Any],
    path: str,
    evaluate: Evaluate,
) -> Iterator[BrokenRule]:
    """Yield `rule` if `rule_value` breaks the rule.

    Args:
        to_rule_value: The conversion that returned `rule_value`.
    """
    text = rule["rule"]
    variables: dict[str, Any] = {"self": rule_value}
    if _OLD_SELF.search(text):
        optional = rule.get("optionalOldSelf")
        if old is None and not optional:
            return
        old_value = NONE if old is None else to_rule_value(old)
        variables["oldSelf"] = Optional(old_value) if optional and old is not None else old_value
    try:
        result = evaluate(text, variables)
        message = rule.get("message") or f"failed rule: {text}"
        if result is not True and rule.get("messageExpression"):
            message = str(evaluate(rule["messageExpression"], variables))
    except Exception as error:
        result, message = False, f"rule cannot be evaluated: {error}"
    if result is not True:
        yield BrokenRule(f"{path}{rule.get('fieldPath') or ''}", rule, message)


def _rule_value_converter(schema: Schema) -> Callable[[Any], Any]:
    """Return a function that converts a value for use in rules: to the types of `schema`, with escaped field names."""
    view = view_of(from_openapi(schema), [()])
    return lambda value: _with_escaped_names(schema, view.convert(value) if view else value)


def _with_escaped_names(schema: Schema, value: Any) -> Any:
    match value:
        case dict():
            properties = schema.get("properties") or {}
            return {
                _escape_name(name) if name in properties else name: _with_escaped_names(
                    field_of(schema, name) or {}, item
                )
                for name, item in value.items()
            }
        case list():
            items = [_with_escaped_names(_mapping(schema.get("items")), item) for item in value]
            key = _item_key(schema)
            return Associative(items, key) if key else items
        case _:
            return value


def _item_key(schema: Schema) -> Callable[[Any], Hashable] | None:
    """Return a function that returns the identity of an item of a set or list map.

    For any other list, return None, because the position identifies an item.
    """
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _hashable
        case "map":
            names = [_escape_name(name) for name in schema.get("x-kubernetes-list-map-keys") or ()]
            return lambda item: _hashable([item.get(name) for name in names] if isinstance(item, dict) else item)
    return None


def _hashable(value: Any) -> Hashable:
    match value:
        case dict():
            return frozenset((name, _hashable(item)) for name, item in value.items())
        case list():
            return tuple(map(_hashable, value))
        case bool():
            return str(value), bool  # Python hashes true as 1 and false as 0.
        case _:
            return value  # type: ignore[no-any-return]


def _escape_name(name: str) -> str:
    return f"__{name}__" if name in _RESERVED else _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}


_MESSAGE = (
    "immutable and rules with oldSelf do not work inside a list, because its items have no old value; "
    "use listType=map and listMapKey, or put the marker on the list"
)


def find_misplaced_transitions(
    schema: Mapping[str, Any], path: str, *, traceable: bool = True
) -> Iterator[SchemaMistake]:
    """Yield a mistake for each rule with `oldSelf` below a list that is not a map."""
    rules = schema.get("x-kubernetes-validations", ())
    if not traceable and any(_OLD_SELF.search(rule["rule"]) for rule in rules):
        yield SchemaMistake(path, _MESSAGE)
    for name, field in schema.get("properties", {}).items():
        yield from find_misplaced_transitions(field, child_path(path, name), traceable=traceable)
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        yield from find_misplaced_transitions(values, path, traceable=traceable)
    if items := schema.get("items"):
        is_traceable = traceable and schema.get("x-kubernetes-list-type") == "map"
        yield from find_misplaced_transitions(items, path, traceable=is_traceable)
