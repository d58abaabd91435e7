"""`levelgate unpin`: a source that was pinned follows its ref again."""

from __future__ import annotations

import click

from gitops.cli.person_requests import RequestCommand, request_options
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command()
@request_options
def command(give: RequestCommand) -> int:
    """Let a pinned source follow its ref again. The other half of `pin`.

    It goes on to the head of the ref where that follows from the commit before the pin, or from the pinned one.

    \b
    levelgate unpin source/platform
    """
    return give(requests.unpin, SOURCE)
