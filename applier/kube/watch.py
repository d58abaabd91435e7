"""Watch that decodes the events after a version, and continues if the server ends the stream without an error.

A bookmark advances the version. After 410 or an error event, the watch has missed events. Then the watch raises an
exception, and the caller has to list the objects again.

Source: Kubernetes API concepts, "Efficient detection of changes".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import orjson

from applier.cluster import WatchEvent
from applier.errors import Unavailable
from applier.kube.client import ApiRequest, Client
from applier.kube.error_translation import translate
from applier.kube.shared_parts import share_equal_parts

WATCH_SILENCE_SECONDS: Final = 150.0
"""Seconds without an event after which a watch counts as dead. Servers send a bookmark about once a minute."""

MIN_WATCH_SECONDS, MAX_WATCH_SECONDS = 240, 480
"""Range of the watch duration, in seconds, that the client requests. The duration is random, so that watches spread
over all servers.
"""


async def follow_changes(
    client: Client, make_request: Callable[[str, int], ApiRequest], resource_version: str, *, rng: Callable[[], float]
) -> AsyncGenerator[WatchEvent, None]:
    """Yield the changes after `resource_version`.

    Args:
        make_request: function that returns the request for a version and a timeout in seconds.

    Raises: ClusterError.
    """
    while True:
        call = make_request(
            resource_version, round(MIN_WATCH_SECONDS + (MAX_WATCH_SECONDS - MIN_WATCH_SECONDS) * rng())
        )
        has_events = False
        async with client.stream_lines(call, silence=WATCH_SILENCE_SECONDS) as lines:
            async for line in lines:
                event, has_events = _parse_event(call, line), True
                obj = event["object"]
                resource_version = obj["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield WatchEvent(obj, deleted=event["type"] == "DELETED")
        if not has_events:
            raise Unavailable(f"{call.description}: the stream ended without an event")


def _parse_event(call: ApiRequest, line: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(line)
        if event["type"] == "ERROR":
            status = event["object"]
            code = int(status.get("code") or 500)
            raise translate(
                code, orjson.dumps(status), description=call.description, is_write=False, is_secret=call.is_secret
            )
        event["object"]["metadata"]["resourceVersion"]
        share_equal_parts(event["object"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Unavailable(f"{call.description}: malformed event: {error}") from None
    parsed_event: dict[str, Any] = event
    return parsed_event
