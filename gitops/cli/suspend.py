"""Command `levelgate suspend`: stop all writes to one object, or to everything."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    REQUEST_EXIT_CODES,
    RequestCommand,
    everything_option,
    reason_option,
    request_options,
    until_option,
)
from gitops.records import requests
from gitops.records.references import DEFINITION, SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@reason_option
@until_option
@everything_option
@request_options
def command(reason: str, until: datetime | None, everything: bool, send_request: RequestCommand) -> int:
    """Stop all writes to REF, or to everything with --all: no change, no healing, no pruning.

    Use this command to change objects by hand, or to stop Levelgate in an emergency. REF is an instance, a plain
    object, a definition (rgd/NAME) or a source. With --all, pending writes finish and no further write starts. Undo:
    levelgate resume.

    \b
    levelgate suspend --all --reason INC-7
    levelgate suspend source/platform --until 2h --reason "migration of the database"
    levelgate suspend webapp/shop -n prod --reason "debugging, Ada"
    """
    return send_request(
        lambda subject: requests.suspend(subject, reason, until),
        INSTANCE,
        PLAIN_OBJECT,
        DEFINITION,
        SOURCE,
        everything=everything,
    )
