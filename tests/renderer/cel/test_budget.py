"""An expression cannot take the renderer down: work, text, patterns and depth are bounded."""

import tracemalloc
from typing import Any

import pytest

from renderer.cel import BudgetExceeded, Meter, compile_expression, to_json
from renderer.cel.errors import BudgetError
from renderer.errors import ExpressionError

LIST = list(range(2000))

GREEDY = {
    "cubic": "l.filter(x, l.exists(y, l.exists(z, z == -1)))",
    "quadratic": "l.map(x, l.map(y, y))",
    "doubling": "".join(f"cel.bind(s{n}, s{n - 1} + s{n - 1}, " for n in range(1, 40)) + "s39" + ")" * 39,
    "joining": "l.map(x, text).join(text)",
    "replacing": "text.replace('', text)",
    "range": "lists.range(9000000000)",
    "lists": "l.map(x, l + l + l)",
    "comparing": "l.filter(x, [l, l] == [l, l])",
    "searching": "l.filter(x, -1 in l)",
    "distinct": "(l + l.map(x, x + 2000)).map(x, string(x)).distinct()",
    "patterns": "l.filter(x, text.matches('(a+)+$'))",
    "sorting long texts": "l.map(x, x % 2 == 0 ? text : longer).sort()",
    "long bytes": "cel.bind(b, bytes(longer), l.filter(x, l.exists(y, b < b)))",
    "flattening": "l.map(x, l).flatten()",
    "matches": "(text + text + text + text).findAll('a(.*b)?')",
    "replaced matches": "regex.replace(text, '', text)",
    "sets": "sets.intersects(l, l.map(x, x + 5000))",
    "equal texts": "l.filter(x, text == text)",
    "ordered texts": "l.filter(x, text < text)",
    "prefixes": "l.filter(x, l.exists(y, text.startsWith(text + 'x')))",
    "marshalling": "json.marshal(l.map(x, l))",
    "absorbed": "l.filter(x, l.exists(y, l.exists(z, z == -1))) == [] || true",
}


@pytest.mark.parametrize("text", GREEDY.values(), ids=GREEDY)
def test_greed_is_stopped(text: str) -> None:
    variables: dict[str, Any] = {"l": LIST, "text": "a" * 5000, "longer": "a" * 5001, "s0": "ab"}
    tracemalloc.start()
    try:
        with pytest.raises(BudgetExceeded, match="stopped: the expression"):
            compile_expression(text).evaluate(variables)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64_000_000


def test_an_instance_has_a_budget_too() -> None:
    """Its objects are charged to it; what an expression asked for and did not get is not."""
    whole = Meter.of_instance()

    def made(*units: int) -> None:
        part = whole.of_object()
        try:
            for spent in units:
                part.renew().spend(spent)
        finally:
            whole.charge(part)

    with pytest.raises(BudgetError, match="the expression needs more than 1,000,000 units"):
        made(10**12)
    with pytest.raises(BudgetError, match="expressions of this object together need more than 10,000,000 units"):
        made(*[999_999] * 11)
    for _ in range(39):
        made(500_000, 500_000)
    with pytest.raises(BudgetError, match="expressions of this instance together need more than 50,000,000 units"):
        made(1, 500_000)


@pytest.mark.parametrize(
    "text", ["l.map(x, string(x)).join(',').size()", "l.filter(x, x % 2 == 0).sum()", "json.marshal(l) + text"]
)
def test_the_same_work_costs_the_same_and_more_costs_more(text: str) -> None:
    def cost(length: int) -> int:
        meter = Meter()
        compile_expression(text).evaluate({"l": list(range(length)), "text": "a" * 10 * length}, meter)
        return meter.granted - meter.left

    assert cost(1000) == cost(1000)
    assert 0 < cost(1000) < cost(2000) < 3 * cost(1000)


def test_a_small_value_with_a_huge_json_is_stopped() -> None:
    doubled = "".join(f"cel.bind(s{n}, [s{n - 1}, s{n - 1}], " for n in range(1, 40)) + "s39" + ")" * 39
    value = compile_expression(doubled).evaluate({"s0": 1})
    with pytest.raises(BudgetExceeded, match="stopped"):
        to_json(value)
    for text in (f"json.marshal({doubled})", f"({doubled}) == ({doubled})", f"'%s'.format([{doubled}])"):
        with pytest.raises(BudgetExceeded, match="stopped"):
            compile_expression(text).evaluate({"s0": 1})


def test_ordinary_work_is_not_stopped() -> None:
    assert compile_expression("l.filter(x, x % 2 == 0).map(x, string(x)).join(',').size()").evaluate({"l": LIST}) > 4000
    assert compile_expression("l.map(x, l.size()).sum()").evaluate({"l": LIST}) == 4_000_000


def test_patterns_take_linear_time() -> None:
    assert compile_expression("text.matches('(a+)+$')").evaluate({"text": "a" * 10_000 + "b"}) is False


@pytest.mark.parametrize("pattern", ["a{1001}", "(a{1000}){1000}", "a" * 20_000])
def test_monstrous_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ExpressionError, match="invalid regular expression"):
        compile_expression("'a'.matches(p)").evaluate({"p": pattern})


@pytest.mark.parametrize("text", ["[" * 100_000, "(" * 20_000, "a." * 10_000, "a ? b : " * 4_000, "-" * 30_000 + "1"])
def test_hostile_texts_are_errors_of_syntax(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text)


def test_hostile_json_is_an_error_of_the_expression() -> None:
    with pytest.raises(ExpressionError, match="nested deeper"):
        compile_expression("json.unmarshal(text)").evaluate({"text": "[" * 100_000})
