"""Command `levelgate release`: end a hold."""

from __future__ import annotations

import click

from gitops.cli.person_requests import INSTANCE, PLAIN_OBJECT, REQUEST_EXIT_CODES, RequestCommand, request_options
from gitops.records import requests
from gitops.records.references import SOURCE


@click.command(epilog=REQUEST_EXIT_CODES)
@request_options
def command(send_request: RequestCommand) -> int:
    """End the hold of an instance, a plain object or a source. Opposite: levelgate hold.

    Use this command once the reason for the hold is gone. An instance joins the queue of the current rollout.

    \b
    levelgate release webapp/shop -n prod
    levelgate release source/platform
    """
    return send_request(requests.release, INSTANCE, PLAIN_OBJECT, SOURCE)
