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
