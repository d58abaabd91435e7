"""Command `levelgate unpin`: let a pinned source follow its ref again."""

from __future__ import annotations

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, request_options
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@request_options
def command(send_request: RequestCommand) -> int:
    """Let a pinned source follow its ref again. The opposite of pin.

    Use it when the head of the ref is right again. The source moves to that head if it descends from the commit before
    the pin, or from the pinned one.

    \b
    levelgate unpin source/platform
    """
    return send_request(requests.unpin, SOURCE)
