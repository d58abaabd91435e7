"""Faults by script, between a client and the sandbox.

    faulty = FaultInjector(sandbox.answer, [InjectedFault(RefusedRequest(429, retry_after=1), verb="patch", times=3)])
    cluster = cluster_of(faulty.answer)

Each fault says which requests it concerns and how often. A request meets the first fault that is not used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase

import orjson

from applier.sandbox.api.request_path import RequestPath, parse_request_path
from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.wire import ConnectionDroppedError, Refusal, Request, Response, UnknownPathError
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Answered with this status, and not carried out. `retry_after` in seconds, 0: the answer says nothing of that."""

    code: int
    retry_after: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """The connection ends without an answer, before or after the request was carried out."""

    carried_out: bool


@dataclass(frozen=True, slots=True)
class DelayedRequest:
    """The request arrives so many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EndedWatch:
    """A watch ends after so many chunks of events."""

    chunks: int = 0


@dataclass(frozen=True, slots=True)
class SilentWatch:
    """A watch tells nothing more after so many chunks of events, and does not end."""

    chunks: int = 0


@dataclass(frozen=True, slots=True)
class StaleRead:
    """A read is answered as it was the last time that this very request was made; the first one as it is."""


@dataclass(frozen=True, slots=True)
class StuckFinalizer:
    """A write is carried out, and then somebody puts a finalizer on the object that nobody will take away: a deletion of
    it never ends.
    """

    finalizer: str = "example.com/stuck"


FaultKind = RefusedRequest | ConnectionReset | DelayedRequest | EndedWatch | SilentWatch | StaleRead | StuckFinalizer


_MATCHED_FIELDS = ("verb", "plural", "namespace", "name", "subresource")


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """What befalls which requests: patterns for verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    `deletecollection`), plural, namespace, name and subresource. It spares the first `after` of them and befalls the next `times`
    (None: all).
    """

    kind: FaultKind
    verb: str = "*"
    plural: str = "*"
    namespace: str = "*"
    name: str = "*"
    skip: int = 0
    times: int | None = None
    subresource: str = "*"

    def matches(self, request_path: RequestPath) -> bool:
        return all(
            fnmatchcase(getattr(request_path, field_name), getattr(self, field_name)) for field_name in _MATCHED_FIELDS
        )


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

    handler: RequestHandler
    faults: Sequence[InjectedFault] = ()
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    injected: list[InjectedFault] = field(default_factory=list)
    _counts: dict[InjectedFault, int] = field(default_factory=dict)
    _earlier_responses: dict[str, Response] = field(default_factory=dict)

    async def answer(self, request: Request) -> Response:
        """Raises ConnectionDroppedError."""
        fault = self._next_fault(request)
        if fault is not None:
            self.injected.append(fault)
        match fault.kind if fault else None:
            case RefusedRequest(code, retry_after):
                message = "a fault of the sandbox, by script"
                return Refusal(code, _REASONS.get(code, ""), message, details={}, retry_after=retry_after).response
            case ConnectionReset(carried_out):
                if carried_out:
                    await self.handler(request)
                raise ConnectionDroppedError("connection reset by the script of the sandbox", request_sent=True)
            case DelayedRequest(seconds):
                await self.sleep(seconds)
                return await self.handler(request)
            case EndedWatch(chunks):
                return _limit_events(await self.handler(request), chunks, end=True)
            case SilentWatch(chunks):
                return _limit_events(await self.handler(request), chunks, end=False)
            case StuckFinalizer(finalizer):
                response = await self.handler(request)
                if finalizer_patch := _build_finalizer_patch(request, response, finalizer):
                    await self.handler(finalizer_patch)
                return response
            case StaleRead():
                return self._earlier_responses.get(request.target) or await self._forward_and_remember(request)
            case _:
                return await self._forward_and_remember(request)

    def _next_fault(self, request: Request) -> InjectedFault | None:
        if not self.faults:
            return None
        try:
            request_path = parse_request_path(request)
        except (UnknownPathError, Refusal):
            return None
        for fault in self.faults:
            if fault.matches(request_path):
                count = self._counts[fault] = self._counts.get(fault, 0) + 1
                if count > fault.skip and (fault.times is None or count <= fault.skip + fault.times):
                    return fault
        return None

    async def _forward_and_remember(self, request: Request) -> Response:
        response = await self.handler(request)
        if (
            request.method == "GET"
            and response.stream is None
            and any(isinstance(fault.kind, StaleRead) for fault in self.faults)
        ):
            self._earlier_responses[request.target] = response
        return response


def _limit_events(response: Response, chunks: int, *, end: bool) -> Response:
    if response.stream is None:
        return response
    return replace(response, stream=_take_events(response.stream, chunks, end=end))


async def _take_events(events: AsyncIterator[bytes], chunks: int, *, end: bool) -> AsyncIterator[bytes]:
    count = 0
    async for chunk in events:
        if chunk and count == chunks:
            break
        count += bool(chunk)
        yield chunk
    if not end:
        await asyncio.Event().wait()


def _build_finalizer_patch(request: Request, response: Response, finalizer: str) -> Request | None:
    """The request that adds a finalizer to what a write answered; None if nothing was written or it has it already."""
    request_path = parse_request_path(request)
    if (
        request_path.verb not in ("create", "update", "patch")
        or response.status >= 300
        or "dryRun" in request_path.query
    ):
        return None
    metadata = orjson.loads(response.body)["metadata"]
    present_finalizers = metadata.get("finalizers", [])
    if finalizer in present_finalizers:
        return None
    path = request.target.partition("?")[0].removesuffix(f"/{request_path.subresource}")
    target = path if request_path.name else f"{path}/{metadata['name']}"
    headers = {"content-type": "application/merge-patch+json", "user-agent": finalizer}
    return Request(
        "PATCH", target, headers, orjson.dumps({"metadata": {"finalizers": [*present_finalizers, finalizer]}})
    )
