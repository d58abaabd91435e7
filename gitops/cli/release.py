"""`levelgate release`: an instance that was held goes on."""

from __future__ import annotations

import click

from gitops.cli.person_requests import INSTANCE, PLAIN_OBJECT, RequestCommand, request_options
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command()
@request_options
def command(give: RequestCommand) -> int:
    """End the hold of an instance, a plain object or a source. The opposite of `hold`.

    An instance joins the queue of the present rollout.

    \b
    levelgate release webapp/shop -n prod
    levelgate release source/platform
    """
    return give(requests.release, INSTANCE, PLAIN_OBJECT, SOURCE)
