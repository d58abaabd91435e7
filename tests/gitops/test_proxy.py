"""What goes out goes by the proxy that the environment names: forges, notifications and external facts, as Git and the API server do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from gitops.clock import SystemClock
from gitops.external_facts import ExternalFactSource, FactUnavailable, request_fact
from gitops.forge.port import ForgeError
from gitops.forge.rest import Rest
from gitops.notifications.delivery import post
from gitops.notifications.receivers import OutgoingRequest

SERVER = "https://server.test:8443"


async def forge(folder: Path) -> None:
    (folder / "token").write_text("secret")
    rest = Rest(f"{SERVER}/api", folder / "token", SystemClock())
    try:
        with pytest.raises(ForgeError, match="the connection failed"):
            await rest.get("/user", str)
    finally:
        await rest.close()


async def receiver(_: Path) -> None:
    assert (await post(OutgoingRequest(f"{SERVER}/hook", {}, b"{}"))).status == 0


async def fact(_: Path) -> None:
    with pytest.raises(FactUnavailable):
        await request_fact(ExternalFactSource("budget", f"{SERVER}/budget", "yes", timedelta(minutes=1)))


@pytest.mark.parametrize("ask", [forge, receiver, fact])
async def test_what_is_asked_by_http_is_asked_by_the_proxy(
    ask: Callable[[Path], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "other.test")
        await ask(tmp_path)
    assert asked == [b"CONNECT server.test:8443 HTTP/1.1"]
