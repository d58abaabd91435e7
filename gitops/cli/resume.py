"""Command `levelgate resume`: end a suspension, or the halt of a rollout."""

from __future__ import annotations

import click

from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    REQUEST_EXIT_CODES,
    RequestCommand,
    everything_option,
    optional_reason_option,
    request_options,
)
from gitops.records import requests
from gitops.records.references import DEFINITION, ROLLOUT, SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@optional_reason_option
@everything_option
@request_options
def command(reason: str, everything: bool, send_request: RequestCommand) -> int:
    """End a suspension, or the halt of a rollout.

    Use this command once the reason for the stop is gone. For a rollout, give --reason, because you accept its current
    failures.

    \b
    levelgate resume --all
    levelgate resume webapp/shop -n prod
    levelgate resume rollout/webapp.kro.run --reason "INC-7 is over"
    """
    return send_request(
        lambda subject: requests.resume(subject, reason),
        INSTANCE,
        PLAIN_OBJECT,
        DEFINITION,
        SOURCE,
        ROLLOUT,
        everything=everything,
    )
