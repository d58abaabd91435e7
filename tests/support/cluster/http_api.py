"""Requests to either server, as plain HTTP would say them."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from applier.sandbox.endpoints.http import serve
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request
from renderer.cel import compile_expression
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually

T = TypeVar("T")
Json = dict[str, Any]

JSON, YAML = "application/json", "application/yaml"
APPLY, MERGE, JSON_PATCH = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
)


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """One answer; `body` is parsed where it is JSON, else text; `raw` as it came."""

    code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def refusal(self) -> tuple[int, str]:
        """Code and reason, "" where there is none."""
        return self.code, self.body.get("reason", "") if isinstance(self.body, dict) else ""

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause, sorted and without repetitions."""
        found = (self.body.get("details") or {}).get("causes") or []
        return sorted({(cause.get("reason", ""), cause.get("field", "")) for cause in found})


class Api:
    """The requests of the conformance tests; subclasses send them."""

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> ApiResponse:
        raise NotImplementedError

    def eventually(self, probe: Callable[[], T]) -> T:
        """The first truthy answer of a probe, while controllers work."""
        raise NotImplementedError

    def watch(self, path: str, count: int) -> list[Json]:
        """The first `count` events of a watch that has no end of its own yet."""
        raise NotImplementedError

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON, accept: str = JSON
    ) -> ApiResponse:
        headers = {"accept": accept} | ({"content-type": content_type} if body is not None else {})
        return self.send(method, path, body, headers)

    def get(self, path: str, *, accept: str = JSON) -> ApiResponse:
        return self.request("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> ApiResponse:
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> ApiResponse:
        return self.request("PUT", path, body)

    def merge(self, path: str, body: Any) -> ApiResponse:
        return self.request("PATCH", path, body, content_type=MERGE)

    def json_patch(self, path: str, body: Any) -> ApiResponse:
        return self.request("PATCH", path, body, content_type=JSON_PATCH)

    def apply(self, path: str, body: Any, *, manager: str = "m1", force: bool = False) -> ApiResponse:
        query = f"{'&' if '?' in path else '?'}fieldManager={manager}&force={str(force).lower()}"
        return self.request("PATCH", path + query, body, content_type=APPLY)

    def delete(self, path: str, body: Any = None) -> ApiResponse:
        return self.request("DELETE", path, body)


def encoded(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def parsed(code: int, body: bytes, headers: Mapping[str, str]) -> ApiResponse:
    try:
        return ApiResponse(code, json.loads(body), headers, body)
    except ValueError:
        return ApiResponse(code, body.decode(errors="replace"), headers, body)


class HttpApi(Api):
    """A server behind a socket."""

    headers: Mapping[str, str] = {}

    def connect(self) -> http.client.HTTPConnection:
        raise NotImplementedError

    @cached_property
    def _connection(self) -> http.client.HTTPConnection:
        return self.connect()

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> ApiResponse:
        self._connection.request(method, path, encoded(body), {**self.headers, **headers})
        response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return parsed(response.status, response.read(), found)

    def eventually(self, probe: Callable[[], T]) -> T:
        return eventually(probe)

    def watch(self, path: str, count: int) -> list[Json]:
        connection = self.connect()
        try:
            connection.request("GET", path, headers=dict(self.headers))
            response = connection.getresponse()
            lines = (response.readline() for _ in range(count))
            return [json.loads(line) for line in lines if line]
        finally:
            connection.close()

    def close(self) -> None:
        self._connection.close()


class RealApi(HttpApi):
    """A real kube-apiserver."""

    def __init__(self, server: ControlPlane) -> None:
        self.headers = {"Authorization": f"Bearer {server.token('other')}"}
        self._host, _, self._port = server.url.removeprefix("https://").partition(":")
        self._context = ssl.create_default_context(cafile=server.ca_file)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(self._host, int(self._port), context=self._context, timeout=60)


class ServedApi(HttpApi):
    """A sandbox behind its own HTTP server, which runs in a thread with the controllers."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._urls: SimpleQueue[str] = SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self.url = self._urls.get(timeout=60)

    async def _serve(self) -> None:
        async with serve(self._sandbox.answer) as url:
            self._urls.put(url)
            answered = -1
            while not self._stop.is_set():
                # One that is not asked anything rests: scenarios keep theirs to the end of the run.
                is_busy = self._sandbox.tick() or answered != self._sandbox.request_count
                answered = self._sandbox.request_count
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), 0.01 if is_busy else 0.05)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)

    def close(self) -> None:
        super().close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


class SandboxApi(Api):
    """A sandbox in this process, without a door."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> ApiResponse:
        response = self.sandbox.handle(Request(method, path, headers, encoded(body) or b""))
        found = {"content-type": response.content_type} | {
            name.lower(): text for name, text in response.headers.items()
        }
        return parsed(response.status, response.body, found)

    def eventually(self, probe: Callable[[], T]) -> T:
        self.sandbox.tick_until_stable()
        answer = probe()
        assert answer, f"not so when nothing changes any more: {answer!r}"
        return answer

    def watch(self, path: str, count: int) -> list[Json]:
        return asyncio.run(self._watch(path, count))

    async def _watch(self, path: str, count: int) -> list[Json]:
        response = self.sandbox.handle(Request("GET", path, {"accept": JSON}))
        if response.stream is None:
            return [json.loads(response.body)]
        lines: list[bytes] = []
        async with asyncio.timeout(10):
            async for chunk in response.stream:
                lines += chunk.splitlines()
                if len(lines) >= count:
                    break
        await response.stream.aclose()  # type: ignore[attr-defined]
        return [json.loads(line) for line in lines[:count]]


def evaluate(rule: str, variables: Mapping[str, Any]) -> Any:
    """Evaluate a CEL rule of a custom kind, as `gitops` does."""
    return compile_expression(rule).evaluate(variables)
