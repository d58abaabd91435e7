"""A sandbox that is cut off: nobody is answered, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from applier.errors import ConfigurationError
from applier.sandbox.endpoints.cut_switch import CUT_PATH, CutSwitch
from applier.sandbox.endpoints.http import serve, set_cut
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from tests.support.cluster.waiting import until

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def creation(name: str) -> Request:
    return Request(
        "POST", CONFIG_MAPS, {"accept": "application/json"}, json.dumps({"metadata": {"name": name}}).encode()
    )


def names(sandbox: Sandbox) -> list[str]:
    found = json.loads(sandbox.handle(Request("GET", CONFIG_MAPS, {}, b"")).body)
    return [item["metadata"]["name"] for item in found["items"]]


async def turn_until_idle() -> None:
    """All that can go on without time passing has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_was_asked_of_a_cut_sandbox_is_done_once_it_is_healed() -> None:
    sandbox = Sandbox()
    switch = CutSwitch(sandbox.answer)
    switch.cut()
    asked = asyncio.ensure_future(switch.answer(creation("late")))
    await turn_until_idle()
    assert switch.is_cut
    assert not asked.done()
    assert names(sandbox) == []
    switch.heal()
    assert (await asked).status == 201
    assert names(sandbox) == ["late"]


async def test_who_hangs_up_on_a_cut_server_may_yet_have_changed_something() -> None:
    """As with an API server that was stopped: what has arrived is carried out."""
    sandbox = Sandbox()
    switch = CutSwitch(sandbox.answer)
    arrived: list[str] = []

    async def noted(request: Request) -> Response:
        arrived.append(request.method)
        return await switch.answer(request)

    async with serve(noted) as url:
        await set_cut(url, is_cut=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        body = creation("late").body
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await until(lambda: arrived == ["PUT", "POST"])
        writer.close()
        await writer.wait_closed()
        assert names(sandbox) == []
        await set_cut(url, is_cut=False)
        await until(lambda: names(sandbox) == ["late"])
        assert await reader.read() == b""


async def test_who_breaks_off_within_the_process_has_changed_nothing() -> None:
    sandbox = Sandbox()
    switch = CutSwitch(sandbox.answer)
    switch.cut()
    asked = asyncio.ensure_future(switch.answer(creation("given-up")))
    await turn_until_idle()
    asked.cancel()
    switch.heal()
    await turn_until_idle()
    assert names(sandbox) == []


async def test_a_watch_of_a_cut_sandbox_is_silent_and_misses_nothing() -> None:
    sandbox = Sandbox()
    switch = CutSwitch(sandbox.answer)
    response = await switch.answer(Request("GET", f"{CONFIG_MAPS}?watch=1", {}, b""))
    assert response.stream
    async with aclosing(lines(response)) as events:
        sandbox.handle(creation("before"))
        assert await anext(events) == ("ADDED", "before")
        switch.cut()
        sandbox.handle(creation("meanwhile"))
        following = asyncio.ensure_future(anext(events))
        await turn_until_idle()
        assert not following.done()
        switch.heal()
        assert await following == ("ADDED", "meanwhile")


async def lines(response: Response) -> AsyncGenerator[tuple[str, str], None]:
    assert response.stream
    async with aclosing(response.stream) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            for line in chunk.splitlines():
                event = json.loads(line)
                yield event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_of_a_cut_sandbox_ends_when_it_is_healed() -> None:
    async def ended() -> AsyncIterator[bytes]:
        yield b"{}"

    async def handler(_: Request) -> Response:
        return Response(200, stream=ended())

    switch = CutSwitch(handler)
    response = await switch.answer(Request("GET", CONFIG_MAPS, {}, b""))
    assert response.stream
    assert await anext(response.stream) == b"{}"
    switch.cut()
    end = asyncio.ensure_future(anext(response.stream, None))
    await turn_until_idle()
    assert not end.done()
    switch.heal()
    assert await end is None


async def test_the_switch_is_turned_over_http_at_any_time() -> None:
    switch = CutSwitch(Sandbox().answer)
    async with serve(switch.answer) as url:
        for _ in range(2):
            await set_cut(url, is_cut=True)
            assert switch.is_cut
        for _ in range(2):
            await set_cut(url, is_cut=False)
            assert not switch.is_cut


async def test_other_requests_to_the_path_of_the_switch_turn_nothing() -> None:
    """A page in a browser may send GET and POST to this machine without being asked."""
    switch = CutSwitch(Sandbox().answer)
    for method in ("GET", "POST"):
        assert (await switch.answer(Request(method, CUT_PATH, {}, b""))).status == 404
    assert not switch.is_cut


async def test_a_server_without_a_switch_is_told_of() -> None:
    async with serve(Sandbox().answer) as url:
        with pytest.raises(ConfigurationError, match="it answers with status 404; start the sandbox again"):
            await set_cut(url, is_cut=True)
    with pytest.raises(ConfigurationError, match="cannot be cut off or healed: it does not answer"):
        await set_cut("http://127.0.0.1:1", is_cut=True)
