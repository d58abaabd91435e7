"""The endpoint of traces, and `levelgate debug`, which asks it."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gitops.cli import EXIT_USAGE, invoke
from gitops.config.fields import ListenAddress
from gitops.server.http import listen
from gitops.server.trace_endpoint import PATH, TraceEndpoint
from tests.support.link_platform import GROUP
from tests.support.monitoring.scene import scene

A = f"Link.{GROUP}/default/i0"


async def test_a_trace_is_told_to_this_machine_as_json() -> None:
    async with scene() as seen, seen.client() as client:
        await seen.started()
        response = await client.get(PATH, params={"key": A})
        found = await response.json()
        assert found["object"] == A
        assert f"live({A})" in found["inputs"]
        assert {root["name"] for root in found["roots"]} >= {f"set_plans {A}", "plan"}
        assert all(root["computedAt"] and root["path"] for root in found["roots"])


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"key": "nothing"}, 400, "'nothing' is no object; write KIND[.GROUP]/[NAMESPACE/]NAME"),
        ({"key": A, "cluster": "locl"}, 404, "no reconciled cluster 'locl'; did you mean 'local'?"),
    ],
    ids=["object", "cluster"],
)
async def test_a_wrong_question_is_answered_with_what_to_do(query: dict[str, str], status: int, text: str) -> None:
    async with scene() as seen, seen.client() as client:
        response = await client.get(PATH, params=query)
        assert response.status == status
        assert text in await response.text()


async def test_another_machine_is_refused() -> None:
    class Transport(asyncio.Transport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return ("192.0.2.7", 5) if name == "peername" else default

    request = make_mocked_request("GET", f"{PATH}?key={A}", transport=Transport())
    with pytest.raises(web.HTTPForbidden) as refused:
        await TraceEndpoint(dict).handle_request(request)
    assert "kubectl port-forward" in str(refused.value.text)


async def test_the_command_prints_why_a_plan_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    async with scene() as seen, listen(seen.server.create_app(is_local=True), ListenAddress("127.0.0.1", 0)) as where:
        await seen.started()
        url = f"http://{where}"
        assert await asyncio.to_thread(invoke, ["debug", A, "--url", url]) == 0
        printed = capsys.readouterr().out
        assert f"{A}: " in printed
        assert f"\nset_plans {A}\n  computed  20" in printed
        assert "  because   set_plan(" in printed
        assert f"  reads     live({A}) > " in printed
        assert await asyncio.to_thread(invoke, ["debug", A, "--url", url, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["object"] == A
        assert await asyncio.to_thread(invoke, ["debug", "ConfigMap/default/nobody", "--url", url]) == 1
        assert "no decision has read ConfigMap/default/nobody; check its kind" in capsys.readouterr().err
        assert await asyncio.to_thread(invoke, ["debug", A, "--url", url, "--cluster", "eu"]) == 1
        assert "no reconciled cluster 'eu'" in capsys.readouterr().err


def test_the_command_tells_where_no_daemon_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["debug", A, "--url", "http://127.0.0.1:1"]) == 1
    told = capsys.readouterr().err
    assert "no daemon answers at http://127.0.0.1:1: " in told
    assert "start levelgate run, or name the address of one with --url" in told
    assert invoke(["debug", "shop"]) == EXIT_USAGE
    assert "'shop' is no object; write KIND[.GROUP]/[NAMESPACE/]NAME" in capsys.readouterr().err
