"""A loopback HTTP server that answers from a script, for what a real API server cannot be made to do on demand."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from applier.kube import connect
from applier.kube.cluster import KubeCluster

DISCOVERY_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. A `body` that is no text is sent as JSON. `reset`: drop the connection instead."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False


RESET = Reply(reset=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


def refusal(code: int, *, reason: str = "", message: str = "", **details: Any) -> Reply:
    """An answer as the API server words its refusals."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return Reply(code, status | ({"reason": reason} if reason else {}) | ({"details": details} if details else {}))


def group(name: str, *kinds: tuple[str, str], version: str = "v1", freshness: str = "Current") -> dict[str, Any]:
    """One group of aggregated discovery; `kinds` are kind and plural, all namespaced."""
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": name, "version": version, "kind": kind},
            "scope": "Namespaced",
            "verbs": ["get", "list", "patch"],
        }
        for kind, plural in kinds
    ]
    entry = {"version": version, "freshness": freshness, "resources": resources}
    return {"metadata": {"name": name} if name else {}, "versions": [entry]}


def discovery(*groups: dict[str, Any], etag: str = "") -> Reply:
    body = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(groups)}
    return Reply(body=body, headers={"ETag": etag} if etag else {})


CORE = group("", ("ConfigMap", "configmaps"), ("Secret", "secrets"))
APPS = group("apps", ("Deployment", "deployments"))


class ScriptedServer:
    """Answers each path from its own script, in order; the last answer of a script is given for ever."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.slept: list[float] = []
        self.gate: asyncio.Event | None = None
        self.in_flight = self.most_in_flight = 0
        self._scripts: dict[str, deque[Reply]] = defaultdict(deque)
        self.script("/api", discovery(CORE))
        self.script("/apis", discovery(APPS))

    def script(self, path: str, *replies: Reply) -> None:
        self._scripts[path] = deque(replies)

    def requests(self, path: str) -> list[Seen]:
        return [request for request in self.seen if request.path == path]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self._reply(request)
        finally:
            self.in_flight -= 1

    def _reply(self, request: web.Request) -> web.StreamResponse:
        script = self._scripts[request.path]
        if not script:
            return web.Response(status=404, text="404 page not found\n")
        reply = script.popleft() if len(script) > 1 else script[0]
        if reply.reset:
            assert request.transport is not None
            request.transport.abort()
        if isinstance(reply.body, str):
            return web.Response(status=reply.status, text=reply.body, headers=reply.headers)
        return web.Response(
            status=reply.status, body=orjson.dumps(reply.body), content_type="application/json", headers=reply.headers
        )


@asynccontextmanager
async def scripted(
    directory: Path, *, concurrency: int = 16, user: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[ScriptedServer, KubeCluster]]:
    """A server and a cluster that is connected to it, whose waits take no time."""
    server = ScriptedServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(app) as http:
        file = write_kubeconfig(directory / "config", str(http.make_url("/")), user=user or {"token": "first"})
        cluster = await connect(kubeconfig=str(file), concurrency=concurrency, sleep=server.sleep, rng=lambda: 0.5)
        try:
            yield server, cluster
        finally:
            await cluster.close()


def write_kubeconfig(file: Path, server: str, *, user: Mapping[str, Any], name: str = "lab") -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    file.write_text(json.dumps(document))
    return file
