"""Command `levelgate unpin`: let a pinned source follow its ref again."""

from __future__ import annotations

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, request_options
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@request_options
def command(send_request: RequestCommand) -> int:
    """Let a pinned source follow its ref again. Opposite: levelgate pin.

    Use this command after the head of the ref is correct again. If that head descends from the pinned commit or from
    the commit before the pin, the source moves to that head.

    \b
    levelgate unpin source/platform
    """
    return send_request(requests.unpin, SOURCE)
