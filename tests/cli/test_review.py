"""`levelgate review` as it is typed, and the examples of how CI calls it (docs/review.md). What it does: tests/gitops/review/test_reviewer.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitops.cli import USAGE, invoke
from gitops.cli.review import command

EXAMPLES = Path(__file__).parents[2] / "deploy" / "review"


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    place = "https://git.example.com/acme/platform"
    assert invoke(["review", place, "--token-file", str(token), "--pr", "3"]) == USAGE
    assert "--pr goes with --once" in capsys.readouterr().err
    assert invoke(["review", place, "--token-file", str(token), "--once"]) == 1
    assert "Say github, gitlab or gitea (--forge" in capsys.readouterr().err


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.stem)
def test_the_examples_use_options_that_there_are(example: Path) -> None:
    """And none of them checks out or runs what a pull request holds."""
    text = example.read_text()
    (called,) = [
        line for line in text.splitlines() if "levelgate review " in line and "#" not in line.split("levelgate")[0]
    ]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(--[a-z-]+)", called)) <= known
    assert "uses: actions/checkout" not in text
