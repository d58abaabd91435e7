"""Command `levelgate pin`: keep a source at one commit."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, reason_option, request_options, until_option
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@click.option("--revision", metavar="SHA", required=True, help="Commit: at least 7 characters of its id.")
@reason_option
@until_option
@request_options
def command(revision: str, reason: str, until: datetime | None, send_request: RequestCommand) -> int:
    """Read this commit of a source instead of the head of its ref.

    Use this command to go back to a commit that worked. Any commit is possible, including older commits. The deletion
    brake applies. While the Git server is down, you can pin any commit that Levelgate has read before. The pin ends at
    --until. Undo: levelgate unpin.

    \b
    levelgate pin source/platform --revision 4e01b7a --until 4h --reason "INC-7, back to Wednesday"
    """
    return send_request(lambda subject: requests.pin(subject, revision.lower(), reason, until), SOURCE)
