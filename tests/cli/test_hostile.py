"""What others wrote moves no cursor and makes up no line (threats: "terminal"): annotations and commit messages are theirs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitops.cli.progress import Progress
from gitops.words.text import visible
from tests.cli.conftest import Typed
from tests.gitops.fleet import Fleet, StillClock

HOSTILE = "\x1b]0;title\x07\x1b[2J\u202egnitirw\x9b31m\nlink/api   Settled"


@pytest.mark.parametrize(
    "command",
    [
        ("status", "-o", "wide"),
        ("explain", "link/api"),
        ("events",),
        ("logs",),
        ("history",),
        ("tree", "link/api"),
        ("resume", "link/api", "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_terminal_is_told_nothing_by_what_others_wrote(
    held_up: Fleet, typed: Typed, command: tuple[str, ...]
) -> None:
    held_up.annotate("api", suspend=HOSTILE)
    held_up.step(timedelta(minutes=1))
    told = typed(held_up, *command)
    assert [letter for letter in told if not letter.isprintable() and letter != "\n"] == []


@pytest.mark.parametrize("command", [("status", "-o", "wide"), ("events",), ("logs",)], ids=" ".join)
def test_nobody_can_make_up_a_row(held_up: Fleet, typed: Typed, command: tuple[str, ...]) -> None:
    held_up.annotate("api", suspend=HOSTILE)
    held_up.step(timedelta(minutes=1))
    assert not any(line.startswith("link/api   Settled") for line in typed(held_up, *command).splitlines())


def test_a_log_shows_which_lines_are_of_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(StillClock()).notice("shop", HOSTILE)
    first, second = capsys.readouterr().out.splitlines()
    assert first == r"2026-11-20T12:00:00Z  shop                     \x1b]0;title\x07\x1b[2J\u202egnitirw\x9b31m"
    assert second == f"{'':22}link/api   Settled"


def test_what_is_text_stays_as_it_is() -> None:
    for text in ("", "two\nlines", "Jürgen: “größer”, 日本語, 👩\u200d💻", "می\u200cخواهم"):
        assert visible(text) == text
