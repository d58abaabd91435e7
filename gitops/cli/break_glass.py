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
    """Let an instance, or every instance of a definition (rgd/NAME), bypass maintenance windows for a short time.

    Pace, halts, holds and approvals still apply; a window can forbid break-glass.

    Each use is recorded with the person and the reason.

    \b
    levelgate break-glass webapp/cart -n prod --for 1h --reason INC-7
    """
    return give(lambda subject: requests.break_glass(subject, reason, subject.now + duration), INSTANCE, DEFINITION)
