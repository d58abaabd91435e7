"""Connections to an API server: what is broken off is gone at once."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from applier.kube.http_transport import HttpTransport
from applier.kube.kubeconfig import Kubeconfig
from applier.kube.transport_port import BrokenError, NotSentError
from tests.support.scripted_server import write_kubeconfig


@pytest.mark.cluster
def test_a_watch_that_is_broken_off_leaves_no_connection_behind(kubeconfig: Path) -> None:
    """Also where the loop ends with it, and whatever the server does: over TLS, a close with manners waits for an answer."""

    async def look() -> None:
        transport = await HttpTransport.open(Kubeconfig((kubeconfig,), None))
        path = "/api/v1/namespaces?watch=1"
        async with transport.stream(path, headers={}, silence=10.0) as answer:
            assert await anext(answer.parts)
            assert (await transport.send("GET", "/version", headers={})).status == 200
            asking = asyncio.create_task(transport.send("GET", path, headers={}))  # it is not answered
            await asyncio.sleep(0)
        await transport.close()
        with suppress(BrokenError, NotSentError):
            await asking

    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(20):
            asyncio.run(look())
        gc.collect()
    assert [str(one.message) for one in told] == []


async def test_a_silence_that_is_too_long_for_this_cluster_is_told_with_its_own_limit(tmp_path: Path) -> None:
    """Of what is read, in the way of `timeouts.request`."""

    closed = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side has given up
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with await asyncio.start_server(listen, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        file = write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}", user={})
        transport = await HttpTransport.open(Kubeconfig((file,), None), silence_seconds=0.05)
        with pytest.raises(BrokenError, match=r"no answer within 0\.05 s"):
            await transport.send("GET", "/version", headers={"Accept": "application/json"})
        await transport.close()
        await closed.wait()
