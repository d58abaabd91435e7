"""Names that an expression may use."""

import pytest

from renderer.cel import compile_expression
from renderer.definition.variables import find_mistakes, find_name_mistake


@pytest.mark.parametrize("name", ["web", "webApp2"])
def test_lower_camel_case_is_a_name(name: str) -> None:
    assert find_name_mistake(name) == ""


@pytest.mark.parametrize("name", ["Web", "web-app", "2web", "", None, True])
def test_anything_else_is_not(name: object) -> None:
    assert "must be lowerCamelCase" in find_name_mistake(name)


@pytest.mark.parametrize("name", ["schema", "each", "while", "resourceGraphDefinition"])
def test_reserved_words_are_refused(name: str) -> None:
    assert "is a reserved word; choose another name" in find_name_mistake(name)


def test_unknown_names_get_a_hint() -> None:
    program = compile_expression("wbe.a + self + other.b")
    assert list(find_mistakes(program, frozenset({"web"}), own_id="other")) == [
        "${wbe.a + self + other.b}: 'other' is this resource itself; read it in readyWhen only",
        "${wbe.a + self + other.b}: 'self' is not a resource or variable in scope; choose from web",
        "${wbe.a + self + other.b}: 'wbe' is not a resource or variable in scope; did you mean 'web'?",
    ]
