"""Fixtures: a repository, a cache directory, a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git.repository import WorkTree
from tests.support.git.secure_server import MISSING
from tests.support.git.server import GitServer, serving


@pytest.fixture
def work(tmp_path: Path) -> WorkTree:
    return WorkTree.create(tmp_path / "work")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving(tmp_path) as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if count := sum(MISSING in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(f"{count} tests were skipped: {MISSING}", yellow=True, bold=True)
