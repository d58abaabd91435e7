"""Waiting for one of several things."""

from __future__ import annotations

import asyncio

import pytest

from gitops.clock import wait_for_any


async def test_the_first_that_is_over_ends_the_wait_for_all() -> None:
    ended = list[str]()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("never")

    await wait_for_any(asyncio.sleep(0), never())
    await asyncio.sleep(0)
    assert ended == ["never"]


async def test_what_fails_is_heard() -> None:
    async def fails() -> None:
        raise RuntimeError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing"):
        await wait_for_any(fails(), asyncio.Event().wait())
