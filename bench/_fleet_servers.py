"""Sandboxes of a fleet in a process of their own: `python -m bench._fleet_servers DIRECTORY NAME...`.

The directory contains the kubeconfig of each sandbox, under the name of the sandbox. The first line of the output is
the URL of a door for the bench. The door reports the requests to each sandbox, and changes objects in the sandbox.
Requests through the door do not count. No controllers run. When its input ends, the process ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from applier.sandbox.endpoints.http import serve, write_kubeconfig
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response, json_response
from bench.kro.fleet import CONFIG_MAPS, INSTANCES
from gitops.sandbox import evaluate_cel
from renderer.identity import OWN_NAMESPACE

SOURCE: Final = "bench"
MARKS_PER_SECOND: Final = 200

_MERGE: Final = {"content-type": "application/merge-patch+json"}
_RECORD: Final = f"/api/v1/namespaces/levelgate-system/configmaps/source-{SOURCE}"
_CONTINUAL: Final = ("/leases", "watch=true", "watch=1")
_TURN: Final = 0.02


@dataclass
class Served:
    """Sandbox with counters of the requests to it, by method and resource, and with the latency of each healing.

    A latency is the time in seconds from a drift to the write that heals the drift. Watches and requests for Leases do
    not count.
    """

    sandbox: Sandbox
    requests: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    marks: int = 0
    _drifted: dict[str, float] = field(default_factory=dict)
    _marking: asyncio.Task[None] | None = None

    async def answer(self, request: Request) -> Response:
        if request.method == "PATCH" and self._drifted:
            begun = self._drifted.pop(urlsplit(request.target).path, None)
            if begun is not None:
                self.latencies.append(time.monotonic() - begun)
        if not any(word in request.target for word in _CONTINUAL):
            self.requests[f"{request.method} {_resource(request.target)}"] += 1
        return self.sandbox.handle(request)

    def figures(self) -> dict[str, Any]:
        return {
            "requests": self.requests.total(),
            "requests_by_resource": self.requests,
            "latencies": self.latencies,
            "drifted": len(self._drifted),
            "marks": self.marks,
            "state": (self._read(_RECORD).get("data") or {}).get("state", ""),
        }

    def objects(self) -> int:
        return len(self._read(CONFIG_MAPS).get("items", ()))

    def drift(self, name: str) -> None:
        """Change a ConfigMap as another writer would."""
        path = f"{CONFIG_MAPS}/{name}"
        self._drifted[path] = time.monotonic()
        if not self._merge(path, {"data": {"text": f"drift {time.monotonic()}"}}):
            raise LookupError(name)

    def mark(self) -> None:
        """Start to annotate all instances, again and again."""
        self._marking = asyncio.ensure_future(self._mark())

    def stop_marking(self) -> None:
        if self._marking:
            self._marking.cancel()

    async def _mark(self) -> None:
        names = [live["metadata"]["name"] for live in self._read(INSTANCES)["items"]]
        begun = time.monotonic()
        while True:
            while self.marks < (time.monotonic() - begun) * MARKS_PER_SECOND:
                name = names[self.marks % len(names)]
                self._merge(f"{INSTANCES}/{name}", {"metadata": {"annotations": {"marked": str(self.marks)}}})
                self.marks += 1
            await asyncio.sleep(_TURN)

    def _read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.sandbox.handle(Request("GET", path)).body)
        return found

    def _merge(self, path: str, patch: Any) -> bool:
        return self.sandbox.handle(Request("PATCH", path, _MERGE, orjson.dumps(patch))).status == 200


def _resource(target: str) -> str:
    """Return the group, version and resource of a request, such as `v1/configmaps`.

    A record of Levelgate keeps its name.
    """
    parts = urlsplit(target).path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return "/".join(parts)
    version_parts = 2 if parts[0] == "api" else 3
    version, rest = parts[1:version_parts], parts[version_parts:]
    is_record = rest[:2] == ["namespaces", OWN_NAMESPACE]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join((*version, *(rest if is_record else (*rest[:1], *rest[2:3]))))


@dataclass(frozen=True)
class Door:
    """Door for the bench: `/figures`, `/objects`, `/drift/CLUSTER/CONFIGMAP`, `/mark/CLUSTER`, `/rest/CLUSTER`."""

    served: dict[str, Served]

    async def answer(self, request: Request) -> Response:
        match request.target.strip("/").split("/"):
            case ["figures"]:
                return json_response({name: each.figures() for name, each in self.served.items()})
            case ["objects"]:
                return json_response({name: each.objects() for name, each in self.served.items()})
            case ["drift", cluster, name]:
                self.served[cluster].drift(name)
            case ["mark", cluster]:
                self.served[cluster].mark()
            case ["rest", cluster]:
                self.served[cluster].stop_marking()
            case _:
                return Response(404)
        return json_response({})


async def main(directory: Path, names: list[str]) -> None:
    async with AsyncExitStack() as stack:
        served = {name: Served(Sandbox(evaluate=evaluate_cel)) for name in names}
        for name, each in served.items():
            write_kubeconfig(directory / name, await stack.enter_async_context(serve(each.answer)))
        print(await stack.enter_async_context(serve(Door(served).answer)), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
