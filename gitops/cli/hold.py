"""`levelgate hold`: an instance, a plain object or a source stays as it is."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    RequestCommand,
    reason_option,
    request_options,
    until_option,
)
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command()
@reason_option
@until_option
@request_options
def command(reason: str, until: datetime | None, give: RequestCommand) -> int:
    """Keep an instance, a plain object or a source as it is applied, whatever Git declares. It is still healed, and not pruned.

    The others of a rollout pass an instance that is held. Of a source everything is held: its plain objects and its instances.

    Ends at --until, and in any case after `maxHold` of its policy (72 hours by default). Undo: levelgate release.

    \b
    levelgate hold webapp/shop -n prod --until 2026-11-20T18:00 --reason "a game is running"
    levelgate hold configmap/settings -n prod --reason "INC-7"
    levelgate hold source/platform --until 2h --reason "INC-7"
    levelgate hold webapp shop -n prod --until 4h --reason "debugging, Ada" --dry-run
    """
    return give(lambda subject: requests.hold(subject, reason, until), INSTANCE, PLAIN_OBJECT, SOURCE)
