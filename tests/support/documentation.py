"""Commands, outputs and test names that pages of the documentation show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
LEFT_OUT: Final = "[...]"
VARIABLE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:T[\d:]+Z| \d\d:\d\d)|\b\d\d:\d\d\b|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\b[0-9a-f]{7}\b"
)
"""Times, days and short ids of commits: they differ from run to run."""


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page with the lines of output that the page shows below."""
    for block in re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
        for step in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, *output = step.splitlines()
            yield command, [line for line in output if line and line != LEFT_OUT]


def normalised(line: str) -> str:
    """Replace the parts of a line that differ from run to run."""
    return VARIABLE.sub("…", line).rstrip()


def named_in(page: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that a page names below `tests/`, each with the test in it, or ""."""
    for file, name in re.findall(r"`([\w/]+\.py)(?:::(test_\w+))?`", page):
        yield ROOT / "tests" / file, name


@cache
def defined(file: Path) -> Set[str]:
    """Return the names of all functions in a file."""
    found = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
