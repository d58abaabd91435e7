"""`levelgate uninstall`, as it is typed, where it takes long: see tests/scenarios/test_uninstall.py for all else."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from gitops.leadership import Leadership, NotLeading
from gitops.maintenance.uninstall import Uninstaller
from renderer.identity import source_parent
from tests.support.cli import Typed
from tests.support.link_platform import LinkPlatform


@pytest.mark.parametrize("words", [[], ["--with-workloads"]])
def test_it_goes_no_further_once_another_process_has_taken_the_lead(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """I6: what it does takes minutes, and a Lease that nobody renews lasts for seconds."""

    async def lost(*_: object) -> NoReturn:
        raise NotLeading("two has taken the lease")

    async def take_minutes(*_: object, **__: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Leadership, "hold", lost)
    for work in ("release", "prune_sources"):
        monkeypatch.setattr(Uninstaller, work, take_minutes)
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        assert "two has taken the lease" in typed(fleet, "uninstall", *words, "--yes", code=1)
        assert fleet.at("one") == ["a"]
        assert fleet.call(fleet.cluster.get(source_parent("platform")))
