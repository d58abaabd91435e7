"""Command `levelgate hold`: keep an instance, a plain object or a source in its applied state."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    REQUEST_EXIT_CODES,
    RequestCommand,
    reason_option,
    request_options,
    until_option,
)
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@reason_option
@until_option
@request_options
def command(reason: str, until: datetime | None, send_request: RequestCommand) -> int:
    """Keep an instance, a plain object or a source in its applied state, whatever Git declares.

    Levelgate still heals a held object, and does not prune it.

    Use this command to protect running work from a change. A rollout continues with instances that are not held. A held
    source holds its plain objects and its instances. The hold ends at --until. No hold lasts longer than maxHold
    of the policy (72 hours by default). Undo: levelgate release.

    \b
    levelgate hold webapp/shop -n prod --until 2026-11-20T18:00 --reason "a game is running"
    levelgate hold configmap/settings -n prod --reason "INC-7"
    levelgate hold source/platform --until 2h --reason "INC-7"
    levelgate hold webapp shop -n prod --until 4h --reason "debugging, Ada" --dry-run
    """
    return send_request(lambda subject: requests.hold(subject, reason, until), INSTANCE, PLAIN_OBJECT, SOURCE)
