"""`includeWhen` and `readyWhen`: yes, no, and not known yet."""

import pytest

from renderer.cel import Meter, NoSuchKey, compile_expression
from renderer.definition.conditions import (
    ConditionResult,
    ReadyVerdict,
    as_bool,
    evaluate_include_when,
    evaluate_ready_when,
    missing_path,
)
from renderer.errors import ExpressionError

NODES = {"web": {"status": {}}, "schema": {"spec": {"on": False}}}


def include(*texts: str, ready: bool = True, arrives: bool = True) -> ConditionResult:
    return evaluate_include_when(
        map(compile_expression, texts),
        NODES,
        is_ready=lambda _: ready,
        can_arrive=lambda _: arrives,
        meter=Meter.of_instance(),
    )


def test_no_condition_means_yes() -> None:
    assert include() == ConditionResult()


def test_a_false_condition_decides_although_others_wait() -> None:
    assert include("web.status.up", "schema.spec.on") == ConditionResult(false="${schema.spec.on} is false")


def test_a_condition_waits_for_the_nodes_that_it_reads() -> None:
    assert include("has(web.status)", ready=False).waiting == ("web to be ready",)


def test_missing_data_is_waited_for_as_long_as_it_can_arrive() -> None:
    assert include("web.status.up").waiting == ("web.status.up",)
    assert "no such key 'up' in web.status" in include("web.status.up", arrives=False).error


def test_ready_has_no_verdict_without_conditions() -> None:
    assert evaluate_ready_when([], NODES, lambda _: True, Meter.of_instance()) == ReadyVerdict()


def test_what_is_missing_is_not_ready() -> None:
    program = compile_expression("web.status.up")
    assert evaluate_ready_when([program], NODES, lambda _: True, Meter.of_instance()) == ReadyVerdict(
        False, "waits for web.status.up"
    )


def test_the_whole_path_that_is_read_is_told() -> None:
    with pytest.raises(NoSuchKey) as caught:
        compile_expression("web.status.load.total").evaluate(NODES)
    assert caught.value.path == ("web", "status", "load")
    assert missing_path(caught.value) == ("web", "status", "load", "total")


@pytest.mark.parametrize(("text", "answer"), [("true", True), ("optional.none()", False), ("optional.of(true)", True)])
def test_an_empty_optional_counts_as_false(text: str, answer: bool) -> None:
    program = compile_expression(text)
    assert as_bool(program, program.evaluate({})) is answer


def test_any_other_value_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="must be true or false, not int"):
        as_bool(compile_expression("1"), 1)
