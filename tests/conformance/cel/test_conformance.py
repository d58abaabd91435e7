"""The tests of google/cel-spec, from a folder that the environment names.

    LEVELGATE_CEL_CONFORMANCE=cel-spec/tests/simple/testdata pytest tests/conformance/cel

`docs/cel.md` says what is left out, and why.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.cel.suite import cases, outcome, right

VARIABLE = "LEVELGATE_CEL_CONFORMANCE"


def test_conformance(capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        with capsys.disabled():
            print(f"\nNOT RUN: CEL conformance; set {VARIABLE} to a folder of SimpleTest files (*.textproto)")
        pytest.skip(f"{VARIABLE} is not set")
    wrong: list[str] = []
    total: Counter[str] = Counter()
    with capsys.disabled():
        print()
        for (file, section), group in groupby(cases(Path(folder)), lambda case: (case.file, case.section)):
            tests = list(group)
            run = [case for case in tests if case.left_out is None]
            failed = [case for case in run if not right(case)]
            total += Counter(right=len(run) - len(failed), run=len(run), left_out=len(tests) - len(run))
            apart = Counter(case.left_out for case in tests if case.left_out)
            told = "".join(f"  ({count} left out: {reason})" for reason, count in sorted(apart.items()))
            print(f"{f'{file}/{section}':<50} {len(run) - len(failed):>4} / {len(run):<4}{told}")
            wrong += (
                f"{case.id}: {case.expression!r} is {outcome(case)!r}, expected {case.expected!r}" for case in failed
            )
        print(f"{'all':<50} {total['right']:>4} / {total['run']:<4}  ({total['left_out']} left out)")
    assert total["run"], f"no tests in {folder}"
    assert not wrong, "\n".join(wrong)
