"""A watch, from a version on: events become changes, and it goes on where the server ends it in good order.

Source: Kubernetes API concepts, "Efficient detection of changes". A bookmark moves the version; 410, or an event that is an error, means that
events are lost: then everything has to be read again, so the watch raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import orjson

from applier.cluster import WatchEvent
from applier.errors import Unavailable
from applier.kube.client import ApiRequest, Client
from applier.kube.error_translation import translate

SILENCE: Final = 150.0
"""Seconds without a word, bookmarks included, after which a watch counts as dead; servers send a bookmark about once a minute."""

SHORTEST, LONGEST = 240, 480
"""Seconds after which the server is asked to end a watch, so that it is not kept by a server that others have left."""


async def changes(
    client: Client, call_from: Callable[[str, int], ApiRequest], since: str, *, rng: Callable[[], float]
) -> AsyncGenerator[WatchEvent, None]:
    """What happens after version `since`; `call_from` makes the request for a version and a number of seconds. Raises ClusterError."""
    while True:
        call = call_from(since, round(SHORTEST + (LONGEST - SHORTEST) * rng()))
        heard = False
        async with client.lines(call, silence=SILENCE) as lines:
            async for line in lines:
                event, heard = _event(call, line), True
                obj = event["object"]
                since = obj["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield WatchEvent(obj, deleted=event["type"] == "DELETED")
        if not heard:
            raise Unavailable(f"{call.about}: it ended without a word")


def _event(call: ApiRequest, line: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(line)
        if event["type"] == "ERROR":
            status = event["object"]
            code = int(status.get("code") or 500)
            raise translate(code, orjson.dumps(status), about=call.about, write=False, secret=call.secret)
        event["object"]["metadata"]["resourceVersion"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Unavailable(f"{call.about}: this is no event: {error}") from None
    found: dict[str, Any] = event
    return found
