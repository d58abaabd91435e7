"""`levelgate break-glass`: an instance, or all of a definition, goes past maintenance windows for a short time."""

from __future__ import annotations

from datetime import timedelta

import click

from gitops.cli.options import Duration
from gitops.cli.person_requests import INSTANCE, RequestCommand, reason_option, request_options
from gitops.records import requests
from gitops.records.references import DEFINITION


@click.command()
@click.option("--for", "duration", metavar="DURATION", type=Duration(), required=True, help="At most 4h.")
@reason_option
@request_options
def command(duration: timedelta, reason: str, give: RequestCommand) -> int:
    """Let an instance, or all of a definition (rgd/NAME), go past maintenance windows, for a short time.

    Pace, halts, holds and approvals stay; a window can forbid it.

    What is written because of it is recorded with who and why.

    \b
    levelgate break-glass webapp/cart -n prod --for 1h --reason INC-7
    """
    return give(lambda subject: requests.break_glass(subject, reason, subject.now + duration), INSTANCE, DEFINITION)
