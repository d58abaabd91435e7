"""What others wrote moves no cursor and makes up no line (threats: "terminal"): annotations, commit messages and all of a repository are theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gitops.cli import invoke
from gitops.cli.progress import ProgressPrinter
from gitops.text import escape_terminal, escape_terminal_json
from tests.support.cli import Typed
from tests.support.clock import StillClock
from tests.support.git.repository import WorkTree
from tests.support.link_platform import LinkPlatform

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
    held_up: LinkPlatform, typed: Typed, command: tuple[str, ...]
) -> None:
    held_up.annotate("api", suspend=HOSTILE)
    held_up.step(timedelta(minutes=1))
    told = typed(held_up, *command)
    assert [letter for letter in told if not letter.isprintable() and letter != "\n"] == []


@pytest.mark.parametrize("command", [("status", "-o", "wide"), ("events",), ("logs",)], ids=" ".join)
def test_nobody_can_make_up_a_row(held_up: LinkPlatform, typed: Typed, command: tuple[str, ...]) -> None:
    held_up.annotate("api", suspend=HOSTILE)
    held_up.step(timedelta(minutes=1))
    assert not any(line.startswith("link/api   Settled") for line in typed(held_up, *command).splitlines())


def test_a_log_shows_which_lines_are_of_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressPrinter(StillClock()).print_notice("shop", HOSTILE)
    first, second = capsys.readouterr().out.splitlines()
    assert first == r"2026-11-20T12:00:00Z  shop                     \x1b]0;title\x07\x1b[2J\u202egnitirw\x9b31m"
    assert second == f"{'':22}link/api   Settled"


def test_what_is_text_stays_as_it_is() -> None:
    for text in ("", "two\nlines", "Jürgen: “größer”, 日本語, 👩\u200d💻", "می\u200cخواهم"):
        assert escape_terminal(text) == text


@pytest.fixture
def repository(tmp_path: Path) -> WorkTree:
    """What a pull request may hold, in names, kinds, keys, values and rules."""
    work = WorkTree.create(tmp_path / "platform")
    work.commit()
    for number, manifest in enumerate(_manifests()):
        (work.path / f"{number}.json").write_text(json.dumps(manifest))
    (work.path / "9.yaml").write_text("a: [\u200b@everyone")
    work.git("add", "--all")
    work.git("commit", "--quiet", "--message", HOSTILE.splitlines()[0])
    return work


def _manifests() -> Iterator[dict[str, Any]]:
    named = {"name": HOSTILE, "namespace": HOSTILE}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {HOSTILE: HOSTILE}}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {HOSTILE: HOSTILE}}
    yield {"apiVersion": "x/v1", "kind": HOSTILE, "metadata": {"name": "c"}}
    window = {"kind": "Allow", "timeZone": HOSTILE, "schedule": {"cron": HOSTILE}, "description": HOSTILE}
    yield {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "w"},
        "spec": window,
    }
    yield {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": named,
        "spec": {"schema": HOSTILE},
    }


@pytest.mark.parametrize(
    "command",
    [
        ("lint",),
        ("lint", "-o", "json"),
        ("render",),
        ("render", "-o", "json"),
        ("windows",),
        ("simulate", "--base", "HEAD~"),
        ("simulate", "--base", "HEAD~", "-o", "json"),
        ("simulate", "--base", "HEAD~", "-o", "svg"),
        *(("plan", "--base", "HEAD~", "-o", form) for form in ("text", "json", "markdown", "junit", "sarif")),
    ],
    ids=" ".join,
)
def test_a_terminal_is_told_nothing_by_what_a_repository_holds(
    repository: WorkTree, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """What programs read says the same all the same, and nobody turns round what forges show of it."""
    assert invoke([command[0], str(repository.path), *command[1:]]) in {0, 1}
    found = capsys.readouterr()
    told = found.out + found.err
    assert [letter for letter in told if not letter.isprintable() and letter != "\n"] == []
    assert not any(line.startswith("link/api   Settled") for line in told.splitlines())
    match command[-1]:
        case "json" | "sarif":
            json.loads(found.out)
        case "junit" | "svg":
            ElementTree.fromstring(found.out)


def test_a_document_says_the_same_however_it_is_shown() -> None:
    text = json.dumps({HOSTILE: "\u200d\x7f\U000e0001"}, ensure_ascii=False)
    assert json.loads(escape_terminal_json(text)) == json.loads(text)
    assert escape_terminal_json('{"a": "größer"}') == '{"a": "größer"}'
