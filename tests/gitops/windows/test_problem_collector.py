"""Problems of one object: each with its line, all of them together."""

from __future__ import annotations

import pytest

from gitops.windows.problem_collector import FieldError, FieldProblems, parse_field
from gitops.windows.recurrence import ScheduleError
from renderer.catalog.file_content import DeclaredObject
from renderer.documents import load
from renderer.errors import SourceLocation


def refuse(_: str) -> str:
    raise ScheduleError("no")


def test_a_reader_continues_after_each_problem() -> None:
    [document], _ = load("w.yaml", b"spec:\n  cutoff: 1h\n  until: x\n")
    problems = FieldProblems(DeclaredObject(document.value, SourceLocation("w.yaml", 1), document))
    assert problems.try_parse(lambda: parse_field("spec.until", refuse, "x")) is None
    assert problems.try_parse(lambda: parse_field("spec.cutoff", str.upper, "1h")) == "1H"
    problems.add_problem("spec", "wrong")
    problems.add_problem("spec", "wrong")
    assert problems.has_problem_at("spec.until")
    assert not problems.has_problem_at("spec.cutoff")
    found = problems.value_or_problems("value")
    assert [str(problem) for problem in found] == ["w.yaml:1: spec: wrong", "w.yaml:3: spec.until: no"]


def test_a_value_is_returned_only_without_problems() -> None:
    problems = FieldProblems(DeclaredObject({}, SourceLocation("w.yaml", 1), None))
    assert problems.value_or_problems("value") == "value"
    assert problems.value_or_problems(None) == []


def test_a_refused_field_names_its_path() -> None:
    with pytest.raises(FieldError) as refused:
        parse_field("spec.until", refuse, "x")
    assert refused.value.args == ("spec.until", "no")
