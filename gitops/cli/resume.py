"""`levelgate resume`: go on with what was suspended, or with a rollout that was halted."""

from __future__ import annotations

import click

from gitops.cli.person_requests import (
    INSTANCE,
    PLAIN_OBJECT,
    RequestCommand,
    everything_option,
    optional_reason_option,
    request_options,
)
from gitops.records import requests
from gitops.records.references import DEFINITION, ROLLOUT, SOURCE


@click.command()
@optional_reason_option
@everything_option
@request_options
def command(reason: str, everything: bool, give: RequestCommand) -> int:
    """End a suspension, or the halt of a rollout. A rollout needs a reason: its present failures are accepted.

    \b
    levelgate resume --all
    levelgate resume webapp/shop -n prod
    levelgate resume rollout/webapp.kro.run --reason "INC-7 is over"
    """
    return give(
        lambda subject: requests.resume(subject, reason),
        INSTANCE,
        PLAIN_OBJECT,
        DEFINITION,
        SOURCE,
        ROLLOUT,
        everything=everything,
    )
