"""`levelgate release`: an instance that was held goes on."""

from __future__ import annotations

import click

from gitops.cli.person_requests import INSTANCE, RequestCommand, request_options
from gitops.records import requests


@click.command()
@request_options
def command(give: RequestCommand) -> int:
    """End the hold of an instance: it joins the queue of the present rollout. The opposite of `hold`.

    \b
    levelgate release webapp/shop -n prod
    """
    return give(requests.release, INSTANCE)
