"""`levelgate hold`: an instance stays where it is."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import INSTANCE, RequestCommand, reason_option, request_options, until_option
from gitops.records import requests


@click.command()
@reason_option
@until_option
@request_options
def command(reason: str, until: datetime | None, give: RequestCommand) -> int:
    """Keep one instance at its applied revision, whatever Git declares. It is still healed, and the others of its rollout pass it.

    Ends at --until, and in any case after `maxHold` of its policy (72 hours by default). Undo: levelgate release.

    \b
    levelgate hold webapp/shop -n prod --until 2026-11-20T18:00 --reason "a game is running"
    levelgate hold webapp shop -n prod --until 4h --reason "debugging, Ada" --dry-run
    """
    return give(lambda subject: requests.hold(subject, reason, until), INSTANCE)
