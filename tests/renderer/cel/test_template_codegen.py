"""One generated function for all expressions of a template."""

import pytest

from renderer.cel import OMIT, compile_expression
from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.template_codegen import Composer


def test_holes_become_the_values_of_a_display() -> None:
    composer = Composer()
    number = composer.add_hole([compile_expression("a * 2.0")], binary=False)
    text = composer.add_hole(["x-", compile_expression("b")], binary=False)
    function = composer.compile_function(f"[{number}, {text}]")
    assert function({"a": 1.5, "b": "y"}, Meter()) == [3, "x-y"]
    with pytest.raises(EvaluationError, match="expected string inside a text"):
        function({"a": 1.5, "b": 1}, Meter())


def test_omitted_entries_and_elements_are_left_out() -> None:
    composer = Composer()
    hole = composer.add_hole([compile_expression("a ? 1 : omit()")], binary=False)
    entry = composer.emit_entry("k", hole, may_omit=True)
    element = composer.emit_element(hole, may_omit=True)
    function = composer.compile_function(f"[{{{entry}}}, [{element}]]")
    assert function({"a": True}, Meter()) == [{"k": 1}, [1]]
    assert function({"a": False}, Meter()) == [{}, []]


def test_bytes_are_encoded_in_a_binary_hole_alone() -> None:
    for binary in (True, False):
        composer = Composer()
        function = composer.compile_function(composer.add_hole([compile_expression("b'hi'")], binary=binary))
        if binary:
            assert function({}, Meter()) == "aGk="
        else:
            with pytest.raises(EvaluationError, match="bytes cannot be a field"):
                function({}, Meter())


def test_a_constant_is_known_by_its_name() -> None:
    composer = Composer()
    name = composer.add_constant(OMIT)
    assert composer.compile_function(name)({}, Meter()) is OMIT
