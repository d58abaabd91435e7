"""CEL validation rules of a schema."""

from typing import Any

from renderer.cel import compile_expression
from renderer.schema.cel_rules import broken_rules, find_misplaced_transitions, rule_mistakes

COUNTED: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}},
    "x-kubernetes-validations": [{"rule": "self.count < 9", "message": "too many", "fieldPath": ".count"}],
}


def evaluate(text: str, variables: Any) -> Any:
    return compile_expression(text).evaluate(variables)


def broken(value: Any, old: Any = None) -> list[tuple[str, str]]:
    return [(rule.path, rule.message) for rule in broken_rules(COUNTED, value, evaluate, old=old)]


def test_a_broken_rule_has_the_path_that_it_names() -> None:
    assert broken({"count": 9}) == [(".count", "too many")]


def test_a_rule_with_an_old_value_needs_that_value() -> None:
    assert broken({"count": 1}) == []
    assert broken({"count": 1}, {"count": 2}) == [("count", "failed rule: self >= oldSelf")]


def test_an_unchanged_value_is_held_only_to_rules_with_an_old_value() -> None:
    assert broken({"count": 9}, {"count": 9}) == []


def test_a_rule_that_cannot_be_evaluated_is_broken() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.nosuch == 1"}]}
    (mistake,) = rule_mistakes(schema, {})
    assert mistake.message.startswith("rule cannot be evaluated: ")


def test_names_that_are_no_identifiers_are_escaped() -> None:
    schema = {
        "type": "object",
        "properties": {"a-b": {"type": "integer"}, "in": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a__dash__b == self.__in__"}],
    }
    assert rule_mistakes(schema, {"a-b": 1, "in": 1}) == []
    assert len(rule_mistakes(schema, {"a-b": 1, "in": 2})) == 1


def test_a_transition_inside_a_plain_list_is_misplaced() -> None:
    rule = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    plain = {"type": "array", "items": rule}
    assert [mistake.path for mistake in find_misplaced_transitions(plain, "spec.list")] == ["spec.list"]
    assert list(find_misplaced_transitions({**plain, "x-kubernetes-list-type": "map"}, "spec.list")) == []
