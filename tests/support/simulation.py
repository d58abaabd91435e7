"""A commit of four instances, and the arguments of a simulation of it."""

from __future__ import annotations

import json

from tests.support.link_platform import LinkPlatform

AT = ("--start", "2026-11-20T10:50", "--utc", "--assume", "ready=4m")
FREEZE = {"kind": "Deny", "timeZone": "UTC", "schedule": {"cron": "0 11 * * 5"}, "duration": "61h"}


def files(image: str) -> dict[str, str | None]:
    """Return the files of four instances of one definition."""
    fleet = LinkPlatform(names=("a", "b", "c", "d"), image=image)
    return {
        "link.json": fleet._definition(),
        **{f"{name}.json": json.dumps(fleet._instance(name)) for name in fleet.names},
    }
