"""One closed vocabulary of reasons (docs/semantics.md). `Fleet.step` checks that no story tells any other word of an instance."""

from __future__ import annotations

import re
from pathlib import Path

from applier.causes import EventReason, Reason

SEMANTICS = Path(__file__).parents[2] / "docs" / "semantics.md"


def test_every_reason_is_documented_and_there_are_no_others() -> None:
    text = SEMANTICS.read_text()
    (table,) = re.findall(r"The table lists all reasons [^:]*:\n\n((?:\|.*\n)+)", text)
    words = [word for row in table.splitlines()[2:] for word in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(words) == sorted(Reason)


def test_every_word_of_an_event_is_documented() -> None:
    """surface 3.3: the same words in conditions and events; beside the reasons there are only these."""
    (listed,) = re.findall(r"Events have these reasons as well: ((?:`\w+`(?:,| and)?\s?)+)", SEMANTICS.read_text())
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(EventReason)
