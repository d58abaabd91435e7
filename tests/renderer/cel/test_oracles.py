"""The same expressions through our two evaluators and through others': Google's C++ engine, and celpy where it is right."""

import math
from datetime import datetime, timedelta
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_encoders, ext_optional, ext_strings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.cel import Optional, Program, compile_expression
from renderer.errors import ExpressionError

VARIABLES: dict[str, Any] = {
    "m": {"a": 1, "b": "x", "c": [1, 2], "d": None, "e": True, "f": 1.5},
    "l": [3, 1, 2],
    "s": "a.b.c",
    "n": 2,
    "t": True,
}
ORACLE = cel.NewEnv(
    variables=dict.fromkeys(VARIABLES, cel.Type.DYN),
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_encoders.ExtEncoders()],
)

SETTINGS = settings(derandomize=True, max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))

LEAVES = st.sampled_from(
    "1 0 -1 2u 1.5 0.0 'x' '' true false null [] {} m l s n t m.a m.b m.c m.d m.e m.f m.zzz l[0] l[7] m.c[1] m['a'] missing"
    " has(m.a) has(m.zzz) b'x' 9223372036854775807 [1,'a'] {'a':1} [0,1]".split()
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"])
METHODS = st.sampled_from(["size()", "startsWith('a')", "split('.')", "upperAscii()", "contains('.')", "join('-')"])
CONVERSIONS = st.sampled_from(["string", "double", "bool", "size", "type"])
MACROS = st.sampled_from(["all", "exists", "exists_one", "filter", "map"])


def longer(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def binary(left: str, operator: str, right: str) -> str:
        return f"({left} {operator} {right})"

    return st.one_of(
        st.builds(binary, inner, OPERATORS, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("!{}".format, inner),
        st.builds("({}).{}".format, inner, METHODS),
        st.builds("{}({})".format, CONVERSIONS, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("l.{}(x, {})".format, MACROS, inner),
        st.builds("[1, 0].{}(x, x == {})".format, MACROS, inner),
        st.builds("l.map(x, x + {})".format, inner),
        st.builds("m.?a.orValue({})".format, inner),
        st.builds("m.?zzz.orValue({})".format, inner),
    )


EXPRESSIONS = st.recursive(LEAVES, longer, max_leaves=8)


class Failed:
    """All errors are alike: engines word them differently."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failed)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Failed()"


def ours(text: str, *, exactly: bool = False) -> Any:
    try:
        program = compile_expression(text)
        return comparable(program.evaluate_exactly(VARIABLES) if exactly else program.evaluate(VARIABLES))
    except ExpressionError as error:
        if "cannot be evaluated" in error.message:
            raise
        return Failed()


def oracle(text: str) -> Any:
    try:
        value = ORACLE.compile(text, disable_check=True).eval(data=VARIABLES)
    except Exception:
        return Failed()
    return Failed() if value.type() == cel.Type.ERROR else comparable(value.plain_value())


def comparable(value: Any) -> Any:
    """A value that compares as CEL values of the same type do; the C++ engine's Python form does not tell int from uint."""
    match value:
        case bool() | None | str() | datetime() | timedelta():
            return (type(value).__name__, value)
        case float():
            return ("double", "NaN" if math.isnan(value) else value)
        case int():
            return ("int", int(value))
        case bytes() | bytearray():
            return ("bytes", bytes(value))
        case list() | tuple():
            return [comparable(item) for item in value]
        case dict():
            return {key: comparable(item) for key, item in value.items()}
        case Optional():
            return ("optional", value.present, comparable(value.value))
    return ("type", str(getattr(value, "name", value)).removeprefix("<").split()[0])


@SETTINGS
@given(EXPRESSIONS)
def test_both_of_our_evaluators_agree(text: str) -> None:
    assert ours(text) == ours(text, exactly=True)


@SETTINGS
@given(EXPRESSIONS.filter(lambda text: "type(" not in text and "!!" not in text))  # It reads `!!1` as `1`.
def test_the_c_plus_plus_engine_agrees(text: str) -> None:
    assert ours(text) == oracle(text)


AGREED = [
    "m.a + 1",
    "m.b + 'y'",
    "s.startsWith('a') && m.a > 0",
    "l.filter(x, x > 1).map(x, x * 2)",
    "l.all(x, x > 0) || m.zzz",
    "m.zzz || t",
    "[0, 1].exists(x, 1 / x > 0)",
    "m.a / 0",
    "m.zzz",
    "-7 / 2",
    "-7 % 3",
    "9223372036854775807 + 1",
    "size(s)",
    "int('12') + int(3.9)",
    "string(12) + string(1.5)",
    "timestamp('2009-02-13T23:31:30Z').getHours()",
    "duration('90m') > duration('1h')",
    "s.matches('^[a-z.]+$')",
    "has(m.a) && !has(m.zzz)",
    "n in l",
    "'a' in m",
    "[[1], [2]].map(x, x.map(y, y + 1))",
    "t ? m.a : m.zzz",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", AGREED)
def test_celpy_agrees_where_it_is_right(text: str) -> None:
    celpy = pytest.importorskip("celpy")
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    program = environment.program(environment.compile(text))
    try:
        value = program.evaluate(celpy.json_to_cel(VARIABLES))
    except celpy.CELEvalError:
        assert ours(text) == Failed()
        return
    assert ours(text) == comparable(native(value))


def native(value: Any) -> Any:
    """celpy's values as Python's own."""
    match value:
        case list():
            return [native(item) for item in value]
        case _ if type(value).__name__ == "BoolType":
            return bool(value)
        case int():
            return int(value)
        case str():
            return str(value)
    return value


def test_names_are_the_same_however_often_they_are_asked_for() -> None:
    program: Program = compile_expression("m.a + n")
    assert program.names == {"m", "n"}
