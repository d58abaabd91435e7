"""Validation rules of a schema, which are CEL, as the API server evaluates them on values that fit otherwise.

Source: Kubernetes, "Validation rules" (`x-kubernetes-validations`): `self` has the types of the schema, names of fields
that are no identifiers are escaped, a rule with `oldSelf` counts only where there is an old value, and one that cannot
be evaluated is broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from renderer.cel import Meter, compile_expression
from renderer.schema.mistakes import SchemaMistake, child

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
class Broken:
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
    schema: Schema, value: Any, evaluate: Evaluate, *, old: Any = None, path: str = ""
) -> Iterator[Broken]:
    """Rules of a value and of all below it; `old` is what it was, None if that cannot be told."""
    for rule in schema.get("x-kubernetes-validations") or ():
        yield from _judged(rule, schema, value, old, path, evaluate)
    match value:
        case dict():
            for name, item in value.items():
                if item is not None and (field := _field(schema, name)):
                    before = old.get(name) if isinstance(old, dict) else None
                    yield from broken_rules(field, item, evaluate, old=before, path=child(path, name))
        case list():
            items, earlier = _mapping(schema.get("items")), _by_key(schema, old)
            for index, item in enumerate(value if items else ()):
                yield from broken_rules(items, item, evaluate, old=earlier(item), path=f"{path}[{index}]")


def _judged(
    rule: Mapping[str, Any], schema: Schema, value: Any, old: Any, path: str, evaluate: Evaluate
) -> Iterator[Broken]:
    text = rule["rule"]
    variables: dict[str, Any] = {"self": _typed(schema, value)}
    if _OLD.search(text):
        if old is None and not rule.get("optionalOldSelf"):
            return
        variables["oldSelf"] = _typed(schema, old)
    try:
        held = evaluate(text, variables)
        message = rule.get("message") or f"failed rule: {text}"
        if held is not True and rule.get("messageExpression"):
            message = str(evaluate(rule["messageExpression"], variables))
    except Exception as error:
        held, message = False, f"rule cannot be evaluated: {error}"
    if held is not True:
        yield Broken(f"{path}{rule.get('fieldPath') or ''}", rule, message)


def _by_key(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Finds the earlier item of a list map with the same keys; items of other lists have no earlier one."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: None

    def identity(item: Any) -> Any:
        return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else None

    known = {identity(item): item for item in old}
    return lambda item: known.get(identity(item))


def _typed(schema: Schema, value: Any) -> Any:
    """A value as rules see it: whole numbers where the schema says `number` are doubles, names of fields are escaped."""
    match value:
        case dict():
            properties = schema.get("properties") or {}
            return {
                _escaped(name) if name in properties else name: _typed(_field(schema, name), item)
                for name, item in value.items()
            }
        case list():
            return [_typed(_mapping(schema.get("items")), item) for item in value]
        case int() if schema.get("type") == "number" and not isinstance(value, bool):
            return float(value)
        case _:
            return value


def _escaped(name: str) -> str:
    return f"__{name}__" if name in _RESERVED else _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)


def _field(schema: Schema, name: str) -> Schema:
    return _mapping((schema.get("properties") or {}).get(name, schema.get("additionalProperties")))


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}
