"""Command `levelgate pin`: keep a source at one commit."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, reason_option, request_options, until_option
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@click.option("--revision", metavar="SHA", required=True, help="The commit: 7 characters of its id or more.")
@reason_option
@until_option
@request_options
def command(revision: str, reason: str, until: datetime | None, send_request: RequestCommand) -> int:
    """Read this commit of a source instead of the head of its ref.

    Use it to go back to a commit that worked. It may be any commit, older ones included; the deletion brake applies. A
    commit that was read before can be pinned even while the Git server is down. Ends at --until. Undo: levelgate unpin.

    \b
    levelgate pin source/platform --revision 4e01b7a --until 4h --reason "INC-7, back to Wednesday"
    """
    return send_request(lambda subject: requests.pin(subject, revision.lower(), reason, until), SOURCE)
