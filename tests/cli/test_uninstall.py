"""`levelgate uninstall`, as it is typed, where it takes long: see tests/scenarios/test_uninstall.py for all else."""

from __future__ import annotations

from typing import NoReturn

import pytest

from gitops.leadership import Leadership, NotLeading
from tests.cli.conftest import Typed
from tests.gitops.fleet import Fleet


def test_it_deletes_nothing_once_another_process_has_taken_the_lead(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: what it waits for takes minutes, and a Lease that nobody renews lasts for seconds."""

    async def lost(_: Leadership) -> NoReturn:
        raise NotLeading("two has taken the lead")

    monkeypatch.setattr(Leadership, "hold", lost)
    with Fleet(names=("a",)) as fleet:
        fleet.start()
        assert "two has taken the lead" in typed(fleet, "uninstall", "--with-workloads", "--yes", code=1)
        assert fleet.at("one") == ["a"]
