"""Command `levelgate halt`: stop a rollout."""

from __future__ import annotations

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, reason_option, request_options
from gitops.records import requests
from gitops.records.references import ROLLOUT


@click.command(epilog=REQUEST_EXIT_CODES)
@reason_option
@request_options
def command(reason: str, send_request: RequestCommand) -> int:
    """Stop a rollout: no further instance moves to its target.

    Use this command against a harmful revision. Instances in flight continue. A newer revision starts a new rollout.
    Undo: levelgate resume.

    \b
    levelgate halt rollout/webapp.kro.run --reason "INC-7, errors in the shop"
    """
    return send_request(lambda subject: requests.halt(subject, reason), ROLLOUT)
