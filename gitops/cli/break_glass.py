"""Command `levelgate break-glass`: let an instance, plain object, definition or source bypass windows."""

from __future__ import annotations

from datetime import timedelta

import click

from gitops.cli.options import Duration
from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    REQUEST_EXIT_CODES,
    RequestCommand,
    reason_option,
    request_options,
)
from gitops.records import requests
from gitops.records.references import DEFINITION, SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@click.option(
    "--for",
    "duration",
    metavar="DURATION",
    type=Duration(),
    required=True,
    help="Duration of the bypass, at most 4h.",
)
@reason_option
@request_options
def command(duration: timedelta, reason: str, send_request: RequestCommand) -> int:
    """Let an instance, a plain object, a definition or a source bypass maintenance windows for a short time.

    Use this command in an emergency, for a change that cannot wait for the next opening. With rgd/NAME, all instances
    of the definition bypass windows. With source/NAME, all objects of the source bypass windows, including deletions.
    Pace, halts, holds and approvals still apply. A window can forbid break-glass. Levelgate records the person and the
    reason.

    \b
    levelgate break-glass webapp/cart -n prod --for 1h --reason INC-7
    levelgate break-glass configmap/settings -n prod --for 1h --reason INC-7
    levelgate break-glass source/platform --for 30m --reason INC-7
    """
    return send_request(
        lambda subject: requests.break_glass(subject, reason, subject.now + duration),
        INSTANCE,
        PLAIN_OBJECT,
        DEFINITION,
        SOURCE,
    )
