"""`levelgate pin`: a source stays at one commit."""

from __future__ import annotations

from datetime import datetime

import click

from gitops.cli.person_requests import RequestCommand, reason_option, request_options, until_option
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command()
@click.option("--revision", metavar="SHA", required=True, help="The commit: 7 characters of its id or more.")
@reason_option
@until_option
@request_options
def command(revision: str, reason: str, until: datetime | None, give: RequestCommand) -> int:
    """Read this commit of a source instead of the head of its ref, also while Git is down, as long as the commit was read before.

    It may be any commit, an older one too; the brake on deletions counts. Ends at --until. Undo: levelgate unpin.

    \b
    levelgate pin source/platform --revision 4e01b7a --until 4h --reason "INC-7, back to Wednesday"
    """
    return give(lambda subject: requests.pin(subject, revision.lower(), reason, until), SOURCE)
