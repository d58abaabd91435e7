"""Eight shops of one definition on a Friday in Berlin, one of them with a database that may change from nine to eleven only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.link_platform import GROUP, LinkPlatform

SHOPS = ("api", "auth", "billing", "cart", "catalog", "mail", "search", "shop")
WEEKDAYS: dict[str, Any] = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 9 * * 1-5"}}
DBA = {**WEEKDAYS, "duration": "2h", "byName": True, "ticket": "CHG-2210"}
HOURS = {**WEEKDAYS, "until": "17:00", "cutoff": "30m", "selector": {"namespaces": ["default"]}}
DATABASE: dict[str, Any] = {
    "id": "database",
    "includeWhen": ["${schema.spec.database}"],
    "propagateWhen": ['${inWindow("dba-hours")}'],
    "template": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-db"},
        "data": {"image": "IMAGE"},
    },
}
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
POLICY = {"waves": [{"name": "prod", "selector": {}}], "selector": {"rgds": [f"links.{GROUP}"]}}


@contextmanager
def opened() -> Iterator[LinkPlatform]:
    """Friday 10:00 in Berlin: all run, cart with a database; then the rules."""
    with LinkPlatform(names=SHOPS, more=[DATABASE], written={"cart": {"database": True}}) as fleet:
        fleet.schema["database"] = "boolean | default=false"
        fleet.clock.moment = START
        fleet.push(**{"dba-hours": DBA})
        fleet.start(**{"business-hours": HOURS, "webapps": POLICY})
        yield fleet


def friday(fleet: LinkPlatform) -> None:
    """At 14:02 a commit; api, auth and billing move, cart stops at its database; at 15:20 somebody asks."""
    fleet.clock.moment = START + timedelta(hours=4, minutes=2)
    fleet.push("two")
    fleet.move("two")
    fleet.clock.moment = START + timedelta(hours=5, minutes=20)
    fleet.step()
