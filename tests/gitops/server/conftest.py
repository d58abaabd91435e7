"""A real browser for the tests of the status page, and what happens where there is none."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.conftest import IN_CI
from tests.gitops.server.browsing import Browsing, launched

NAMES: Final = ("chromium", "chromium-browser")
MISSING: Final = "there is no Chromium: apt-get install chromium (the tests of the status page need it)"


def chromium() -> str | None:
    """The system's own; none is downloaded."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture
async def browsing() -> AsyncIterator[Browsing]:
    """A headless Chromium. Without one the test is skipped; with `CI=true` it fails."""
    executable = chromium()
    if executable is None:
        (pytest.fail if IN_CI else pytest.skip)(MISSING)
    async with launched(executable) as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if count := sum(MISSING in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(f"{count} tests were skipped: {MISSING}", yellow=True, bold=True)
