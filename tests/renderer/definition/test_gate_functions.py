"""Functions of gates become reads of variables that the judge of the gate provides."""

import pytest

from renderer.cel.analysis import analyse
from renderer.cel.errors import EvaluationError
from renderer.cel.parser import parse
from renderer.cel.program import Program
from renderer.definition.gate_functions import GateRewriter, GateScope, PaceCall

SCOPE = GateScope(items=frozenset({"each", "app"}), collection="apps", ancestors={"db": False, "workers": True})


def rewritten(text: str) -> tuple[Program, GateRewriter]:
    rewriter = GateRewriter(SCOPE)
    tree = rewriter.rewrite(parse(text))
    return Program(text, tree, analyse(tree)), rewriter


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("inWindow('dba')", ("@windows", "dba")),
        ("external('budget')", ("@externals", "budget")),
        ("inFlight(apps)", ("@counters", "inFlight")),
        ("linearlyReady(each, apps)", ("@rates", "linear 1")),
        ("exponentiallyReady(each, apps, 3)", ("@rates", "exponential 3")),
        ("db.ready()", ("db", "@ready")),
    ],
)
def test_a_call_is_a_read(text: str, read: tuple[str, ...]) -> None:
    program, _ = rewritten(text)
    assert program.reads == (read,)
    assert program.calls == frozenset()


def test_a_gate_waits_for_what_it_asks_about_except_its_own_item() -> None:
    _, rewriter = rewritten("db.ready() && each.updated() && workers.all(w, w.settled())")
    assert rewriter.waits_for == {"db", "workers"}


def test_paces_are_collected() -> None:
    _, rewriter = rewritten("linearlyReady(each, apps, '25%')")
    assert rewriter.pace_calls == {PaceCall("linear", "25%")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inWindow(app)", "inWindow() takes the name of one window as a text"),
        ("workers.ready()", "ready() works on one item; for all items write workers.all(x, x.ready())"),
        ("linearlyReady(each, apps, 0)", "n must be a whole number of at least 1"),
        ("exponentiallyReady(each, apps, 1)", "the factor must be a whole number of at least 2"),
        ("inFlite(apps)", "unknown function inFlite(); did you mean 'inFlight'?"),
    ],
)
def test_a_wrong_call_is_refused(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        rewritten(text)
    assert caught.value.message.startswith(message)
