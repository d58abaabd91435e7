"""One closed vocabulary of reasons (docs/semantics.md). `Fleet.step` checks that no story tells any other word of an instance."""

from __future__ import annotations

import re
from pathlib import Path

from applier.reasons import Reason

SEMANTICS = Path(__file__).parents[2] / "docs" / "semantics.md"


def test_every_reason_is_documented_and_there_are_no_others() -> None:
    text = SEMANTICS.read_text()
    (table,) = re.findall(r"There are no others:\n\n((?:\|.*\n)+)", text)
    words = [word for row in table.splitlines()[2:] for word in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(words) == sorted(Reason)
