"""Faults by script, between a door and the sandbox: for tests, and for whoever wants to see what happens then.

    faulty = Faulty(sandbox.answer, [Fault(Refuse(429, retry_after=1), verb="patch", times=3)])
    cluster = cluster_of(faulty.answer)

Each fault says which requests it befalls and how often. A request meets the first fault that is not used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase

import orjson

from applier.sandbox.api.request_path import RequestPath, address
from applier.sandbox.endpoints.transport import Door
from applier.sandbox.wire import DroppedError, Refusal, Request, Response, UnknownPathError
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answered with this status, and not carried out. `retry_after` in seconds, 0: the answer says nothing of that."""

    code: int
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection ends without an answer, before or after the request was carried out."""

    carried_out: bool


@dataclass(frozen=True, slots=True)
class Delay:
    """The request arrives so many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CutWatch:
    """A watch ends after so many chunks of events."""

    chunks: int = 0


@dataclass(frozen=True, slots=True)
class SilenceWatch:
    """A watch tells nothing more after so many chunks of events, and does not end."""

    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Stale:
    """A read is answered as it was the last time that this very request was made; the first one as it is."""


@dataclass(frozen=True, slots=True)
class StuckFinalizer:
    """A write is carried out, and then somebody puts a finalizer on the object that nobody will take away: a deletion of
    it never ends.
    """

    finalizer: str = "example.com/stuck"


Kind = Refuse | Reset | Delay | CutWatch | SilenceWatch | Stale | StuckFinalizer


_PARTS = ("verb", "plural", "namespace", "name", "subresource")


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """What befalls which requests: patterns for verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    `deletecollection`), plural, namespace, name and subresource. It spares the first `after` of them and befalls the next `times`
    (None: all).
    """

    kind: Kind
    verb: str = "*"
    plural: str = "*"
    namespace: str = "*"
    name: str = "*"
    after: int = 0
    times: int | None = None
    subresource: str = "*"

    def meets(self, where: RequestPath) -> bool:
        return all(fnmatchcase(getattr(where, part), getattr(self, part)) for part in _PARTS)


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class FaultInjector:
    """A door with faults. `faults` may be replaced at any time; `met` has every fault that befell a request."""

    door: Door
    faults: Sequence[InjectedFault] = ()
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    met: list[InjectedFault] = field(default_factory=list)
    _counts: dict[InjectedFault, int] = field(default_factory=dict)
    _earlier: dict[str, Response] = field(default_factory=dict)

    async def answer(self, request: Request) -> Response:
        """Raises DroppedError."""
        fault = self._fault(request)
        if fault is not None:
            self.met.append(fault)
        match fault.kind if fault else None:
            case Refuse(code, retry_after):
                message = "a fault of the sandbox, by script"
                return Refusal(code, _REASONS.get(code, ""), message, details={}, retry_after=retry_after).response
            case Reset(carried_out):
                if carried_out:
                    await self.door(request)
                raise DroppedError("connection reset by the script of the sandbox", sent=True)
            case Delay(seconds):
                await self.sleep(seconds)
                return await self.door(request)
            case CutWatch(chunks):
                return _limited(await self.door(request), chunks, end=True)
            case SilenceWatch(chunks):
                return _limited(await self.door(request), chunks, end=False)
            case StuckFinalizer(finalizer):
                response = await self.door(request)
                if addition := _held(request, response, finalizer):
                    await self.door(addition)
                return response
            case Stale():
                return self._earlier.get(request.target) or await self._remembered(request)
            case _:
                return await self._remembered(request)

    def _fault(self, request: Request) -> InjectedFault | None:
        try:
            where = address(request)
        except (UnknownPathError, Refusal):
            return None
        for fault in self.faults:
            if fault.meets(where):
                count = self._counts[fault] = self._counts.get(fault, 0) + 1
                if count > fault.after and (fault.times is None or count <= fault.after + fault.times):
                    return fault
        return None

    async def _remembered(self, request: Request) -> Response:
        response = await self.door(request)
        if (
            request.method == "GET"
            and response.stream is None
            and any(isinstance(one.kind, Stale) for one in self.faults)
        ):
            self._earlier[request.target] = response
        return response


def _limited(response: Response, chunks: int, *, end: bool) -> Response:
    if response.stream is None:
        return response
    return replace(response, stream=_first(response.stream, chunks, end=end))


async def _first(events: AsyncIterator[bytes], chunks: int, *, end: bool) -> AsyncIterator[bytes]:
    count = 0
    async for chunk in events:
        if chunk and count == chunks:
            break
        count += bool(chunk)
        yield chunk
    if not end:
        await asyncio.Event().wait()


def _held(request: Request, response: Response, finalizer: str) -> Request | None:
    """The request that adds a finalizer to what a write answered; None if nothing was written or it has it already."""
    where = address(request)
    if where.verb not in ("create", "update", "patch") or response.status >= 300 or "dryRun" in where.query:
        return None
    metadata = orjson.loads(response.body)["metadata"]
    present = metadata.get("finalizers", [])
    if finalizer in present:
        return None
    path = request.target.partition("?")[0].removesuffix(f"/{where.subresource}")
    target = path if where.name else f"{path}/{metadata['name']}"
    headers = {"content-type": "application/merge-patch+json", "user-agent": finalizer}
    return Request("PATCH", target, headers, orjson.dumps({"metadata": {"finalizers": [*present, finalizer]}}))
