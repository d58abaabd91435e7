"""`levelgate halt`: no further instance of a rollout moves."""

from __future__ import annotations

import click

from gitops.cli.person_requests import RequestCommand, reason_option, request_options
from gitops.records import requests
from gitops.records.references import ROLLOUT


@click.command()
@reason_option
@request_options
def command(reason: str, give: RequestCommand) -> int:
    """Stop a rollout: no further instance moves to its target. Instances in flight continue; a newer revision is rolled out.

    Undo: levelgate resume.

    \b
    levelgate halt rollout/webapp.kro.run --reason "INC-7, errors in the shop"
    """
    return give(lambda subject: requests.halt(subject, reason), ROLLOUT)
