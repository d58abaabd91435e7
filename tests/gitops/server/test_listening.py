"""Where it listens: a port that is free, one that is taken, and a stop that nobody who looks can hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiohttp import ClientSession

from gitops.cli import EXIT_USAGE, invoke
from gitops.config.fields import ListenAddress
from gitops.server.http import ListenError, listen
from tests.support.monitoring.scene import scene


async def test_port_0_is_one_that_is_free() -> None:
    async with (
        scene() as seen,
        listen(seen.server.create_app(is_local=True), ListenAddress("127.0.0.1", 0)) as where,
        ClientSession() as client,
    ):
        assert where.port > 0
        assert (await client.get(f"http://{where}/healthz")).status == 200


async def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    async with scene() as seen, listen(seen.server.create_app(is_local=True), ListenAddress("127.0.0.1", 0)) as where:
        with pytest.raises(ListenError) as told:
            async with listen(seen.server.create_app(is_local=True), where):
                pass
    assert f"cannot listen on {where}: " in str(told.value)
    assert "in use" in str(told.value)
    assert "--listen ADDR:PORT" in str(told.value)


async def test_people_who_look_do_not_hold_up_the_end() -> None:
    """A graceful stop takes less than ten seconds, however many streams are open."""
    async with scene() as seen, ClientSession() as client:
        async with listen(seen.server.create_app(is_local=True), ListenAddress("127.0.0.1", 0)) as where:
            streams = [await client.get(f"http://{where}/events") for _ in range(5)]
            begun = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begun < 8
        for stream in streams:
            assert (await stream.content.read()).startswith(b"retry: 3000\n")


async def test_more_people_than_can_be_told_are_asked_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitops.server.http._MAX_STREAMS", 2)
    async with scene() as seen, seen.client() as client:
        first, second = await client.get("/events"), await client.get("/events")
        assert (await client.get("/events")).status == 503
        first.close()
        second.close()


@pytest.mark.parametrize(
    "arguments", [["--listen", "8480"], ["--listen", "localhost"], ["--listen", "http://127.0.0.1:8480"]]
)
def test_an_address_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
    assert invoke(["run", "--source", ".", *arguments]) == EXIT_USAGE
    assert "is not an address; write ADDR:PORT" in capsys.readouterr().err
