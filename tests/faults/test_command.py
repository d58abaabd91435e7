"""`make faults` itself: what goes wrong anywhere is counted, told in the last line, and ends in another status than 0."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.faults import __main__ as command
from tests.support.faults.model import Rules
from tests.support.faults.reduction import explore_all


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SIZES", ((2, 2),))
    monkeypatch.setattr(sys, "argv", ["make faults"])


def test_the_model_beside_the_rest_finds_nothing_in_the_protocol_and_something_without_a_rule_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command.ModelProcess().breaches() == []
    monkeypatch.setattr(command, "explore_all", partial(explore_all, rules=Rules(superset_first=False)))
    (breach,) = command.ModelProcess().breaches()
    assert "2 objects, 2 commits" in breach
    assert "I1" in breach


def test_a_model_that_did_not_come_to_its_end_has_shown_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "explore_all", lambda *_, **__: sys.exit(3))
    assert command.ModelProcess().breaches() == ["its process ended with code 3"]


def fine(report: command.Report, _: object) -> None:
    report.caught, report.points = command.MUTATIONS, 7


def violated(report: command.Report, _: object) -> None:
    fine(report, _)
    report.violated("update, write 3, received", ["I4: one-a is still used"])


def missed(report: command.Report, _: object) -> None:
    report.caught = command.MUTATIONS - 1


def interrupted(report: command.Report, _: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("course", "status", "last"),
    [
        (fine, 0, f"faults: points=7 violations=0 mutants={command.MUTATIONS}/{command.MUTATIONS}"),
        (violated, 1, f"faults: points=7 violations=1 mutants={command.MUTATIONS}/{command.MUTATIONS}"),
        (missed, 1, f"faults: points=0 violations=0 mutants={command.MUTATIONS - 1}/{command.MUTATIONS}"),
        (interrupted, 130, "interrupted"),
    ],
)
def test_the_status_is_what_was_found(
    course: Callable[[command.Report, object], None],
    status: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "run", course)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert command.main() == status
    assert capsys.readouterr().out.splitlines()[-1] == last


async def test_what_cannot_be_tried_is_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    async def fails() -> None:
        raise AssertionError("a run that nobody disturbed is not at rest")

    report = command.Report()
    run = command.Run(upstream=None, audit=None, report=report)  # type: ignore[arg-type]
    await run.tried("update", fails)
    assert report.violations == 1
    assert "VIOLATION update: could not be tried: AssertionError" in capsys.readouterr().out
