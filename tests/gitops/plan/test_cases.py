"""Plans as their reviewers see them: every folder of `tests/cases/plans` holds two states of a repository and the plan between them.

`base` is left out where it is the sample repository; `head` lies over the base, and an empty file in it takes one away. Without `head` it is the
sample repository. With `live` the plan is against a cluster that was brought to the base, where somebody else then made these objects; what is
in no set may be adopted. With `elsewhere` it is against one that has another source with these files beside it.
`python -m tests.gitops.plan.test_cases` writes the plans anew, to be read before they are committed.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gitops.cli.plan_text import text
from gitops.plan.report import Report
from gitops.text import TimeFormat
from tests.support.git.commits import planned, planned_beside
from tests.support.plan_cases import CASES, commits, files


def report(case: Path) -> Report:
    others = files(case / "live"), files(case / "elsewhere")
    return planned_beside(*commits(case), *others) if any(others) else planned(*commits(case))


def shown(case: Path) -> str:
    found = text(report(case), TimeFormat(utc=True))
    return click.unstyle("\n".join(line.rstrip() for line in found)).strip() + "\n"


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_the_plan_is_the_one_that_was_read(case: Path) -> None:
    assert shown(case) == (case / "plan.txt").read_text()


if __name__ == "__main__":
    for case in sorted(CASES.iterdir()):
        (case / "plan.txt").write_text(shown(case))
