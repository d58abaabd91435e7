"""`levelgate break-glass`: an instance, a plain object, or all of a definition or a source, goes past windows for a short time."""

from __future__ import annotations

from datetime import timedelta

import click

from gitops.cli.options import Duration
from gitops.cli.person_requests import INSTANCE, PLAIN_OBJECT, RequestCommand, reason_option, request_options
from gitops.records import requests
from gitops.records.references import DEFINITION, SOURCE


@click.command()
@click.option("--for", "duration", metavar="DURATION", type=Duration(), required=True, help="At most 4h.")
@reason_option
@request_options
def command(duration: timedelta, reason: str, give: RequestCommand) -> int:
    """Let something bypass maintenance windows for a short time: an instance, a plain object, a definition (rgd/NAME) or a source.

    Of a definition that is every instance, of a source everything that it has; deletions as well.

    Pace, halts, holds and approvals still apply; a window can forbid break-glass.

    Each use is recorded with the person and the reason.

    \b
    levelgate break-glass webapp/cart -n prod --for 1h --reason INC-7
    levelgate break-glass configmap/settings -n prod --for 1h --reason INC-7
    levelgate break-glass source/platform --for 30m --reason INC-7
    """
    return give(
        lambda subject: requests.break_glass(subject, reason, subject.now + duration),
        INSTANCE,
        PLAIN_OBJECT,
        DEFINITION,
        SOURCE,
    )
