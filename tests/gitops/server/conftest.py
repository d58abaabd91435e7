"""A real browser for the tests of the status page, and what happens where there is none."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.environment import IN_CI
from tests.support.monitoring.browser import Browsing, launched

NAMES: Final = ("chromium", "chromium-browser")
MISSING: Final = "there is no Chromium: apt-get install chromium (the tests of the status page need it)"


def chromium() -> str | None:
    """The system's own; none is downloaded."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium for all tests of a module: to start one costs more than most of them. Without one they are skipped, with `CI=true` they
    fail.
    """
    executable = chromium()
    if executable is None:
        (pytest.fail if IN_CI else pytest.skip)(MISSING)
    async with launched(executable) as found:
        yield found


@pytest.fixture
def browsing(browser: Browser) -> Browsing:
    return Browsing(browser)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if count := sum(MISSING in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(f"{count} tests were skipped: {MISSING}", yellow=True, bold=True)
