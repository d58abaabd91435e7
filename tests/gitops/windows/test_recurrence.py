"""The days of a cron expression are those on which CronSim, asked for one moment after the other, comes by."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import takewhile

import pytest
from cronsim import CronSim

from gitops.windows.recurrence import parse_cron


@pytest.mark.parametrize("year", [2026, 2028])
@pytest.mark.parametrize(
    "fields",
    ["* * *", "29 2 *", "L * *", "31 4-9 *", "*/10 2,FEB,12 *", "* * 0,6", "* */5 MON-FRI", "* 3 5#5", "LW * *"],
)
def test_the_days_of_a_year(fields: str, year: int) -> None:
    moments = CronSim(f"0 0 {fields}", datetime(year, 1, 1) - timedelta(seconds=1))
    expected = [moment.date() for moment in takewhile(lambda moment: moment.year == year, moments)]
    assert list(parse_cron(f"0 9 {fields}")[0].in_year(year)) == expected
