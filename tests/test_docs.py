"""What the documentation says is there: pages that it links, files that it names, commands and options that it shows."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gitops.cli import group
from gitops.fleet.reach import ReachState
from tests.support.documentation import defined, named_in

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("gitops", "applier", "renderer", "tests", "bench", "deploy", "docs", "sample-repo")
FILES = {
    str(path.relative_to(ROOT))
    for path in (*ROOT.iterdir(), *(one for name in FOLDERS for one in (ROOT / name).rglob("*")))
}
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|yaml|toml|mod|css|html))`")
SHOWN = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*levelgate ([a-z-].+)$", re.MULTILINE)

TOP = click.Context(group, **group.context_settings)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands(words: str = "", found: click.Command = group) -> Iterator[tuple[str, click.Command]]:
    if isinstance(found, click.Group):
        for name in found.list_commands(TOP):
            below = found.get_command(TOP, name)
            assert below
            yield from commands(f"{words} {name}".strip(), below)
    else:
        yield words, found


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        if not target.startswith("https:"):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [*PAGES[:2], ROOT / "docs/architecture.md"], ids=lambda path: path.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    """A bare name is of a file in a folder that was named before."""
    named = set(NAMED.findall(page.read_text()))
    assert {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)} == set()


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_option_is_documented(words: str, command: click.Command) -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    assert re.search(rf"[`\s]{words.split()[-1]}[`\s|]", text)
    options = [option.opts + option.secondary_opts for option in command.params if isinstance(option, click.Option)]
    missing = [one for one in options if not any(re.search(rf"[`\s\[|]{name}[`\s=\],|]", text) for name in one)]
    assert missing == []


@pages
def test_commands_that_are_shown_are_understood(page: Path) -> None:
    """As far as names of commands and options go."""
    for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL):
        for shown in SHOWN.findall(block.replace("\\\n", " ")):
            words = shlex.split(re.split(r" (?:&&|\|\|?|>|;) ", shown)[0], comments=True)
            command: click.Command | None = group
            while isinstance(command, click.Group) and words and not words[0].startswith("-"):
                command = command.get_command(TOP, words.pop(0))
            assert command, shown
            command.make_parser(click.Context(command, TOP)).parse_args(words)


def test_what_is_said_of_a_cluster_is_explained_in_the_words_that_are_said() -> None:
    """Every state, and messages as they stand in the program."""
    page = (ROOT / "docs/fleet.md").read_text()
    states = dict(rows_below(page, "| state | what to do |"))
    assert {name.strip("`") for name in states} == {*ReachState}
    sources = "".join(path.read_text() for name in ("gitops", "applier") for path in (ROOT / name).rglob("*.py"))
    messages = [re.findall(r"`([^`]+)`", cell) for cell, _ in rows_below(page, "| message of a cluster | do |")]
    assert len(messages) > 15
    assert [one for row in messages for one in row if one not in sources] == []


@pages
def test_tests_that_are_named_are_there_and_every_row_that_is_shown_by_one_names_it(page: Path) -> None:
    """S3-21, S4-18: of a contract, of a decision, and of what was taken from others or avoided."""
    text = page.read_text()
    assert [(str(file), name) for file, name in named_in(text) if name and name not in defined(file)] == []
    for header in re.findall(r"^\|.*\| shown by \|$", text, re.MULTILINE):
        rows = rows_below(text, header)
        assert [row for row in rows if not any(file.exists() for file, _ in named_in(row[-1]))] == [], header


@pytest.mark.parametrize(
    ("page", "subject"),
    [("fleet", "contract"), ("fleet", "decision"), ("architecture", "taken"), ("architecture", "avoided")],
)
def test_what_is_contract_and_what_was_taken_from_others_is_a_table(page: str, subject: str) -> None:
    """S3-21: contract apart from decisions; S4-18: taken apart from avoided."""
    assert len(rows_below((ROOT / f"docs/{page}.md").read_text(), f"| {subject} | shown by |")) > 5


def rows_below(page: str, header: str) -> list[list[str]]:
    """Return the rows of the table with this header, as their cells."""
    _, _, table = page.partition(f"\n{header}\n")
    lines = itertools.takewhile(lambda line: line.startswith("|"), table.splitlines())
    return [line.strip("| ").split(" | ") for line in itertools.islice(lines, 1, None)]


def test_the_architecture_shows_the_folders_and_layers_that_there_are() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    folders = {path.parent for name in ("renderer", "applier", "gitops") for path in (ROOT / name).rglob("*.py")}
    told = {name.removeprefix("gitops/") for name in (f"{path.relative_to(ROOT)}/" for path in folders)}
    assert {name for name in told if name and f"`{name}`" not in page} == set()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["gitops"])
    names = [re.findall(r"\w+", layer) for layer in layers]
    rows = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)]
    assert [sorted(layer) for layer in names] == [sorted(row) for row in rows if sorted(row) in map(sorted, names)]
