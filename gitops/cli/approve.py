"""Command `levelgate approve`: approve the next step of a rollout, or the deletions of a source."""

from __future__ import annotations

import click

from gitops.cli.person_requests import REQUEST_EXIT_CODES, RequestCommand, optional_reason_option, request_options
from gitops.records import requests
from gitops.records.references import ROLLOUT, SOURCE
from gitops.records.requests import PersonRequest, RequestSubject


@click.command(epilog=REQUEST_EXIT_CODES)
@click.option("--after", metavar="WAVE|N", help="For a rollout: the wave or number in `approvals` to approve.")
@click.option("--commit", metavar="SHA", help="For a source: the commit to approve, at least 7 characters of its id.")
@optional_reason_option
@request_options
def command(after: str | None, commit: str | None, reason: str, send_request: RequestCommand) -> int:
    """Approve the next step of a rollout, or the deletions of a source.

    Use this command after levelgate status or explain reports ApprovalRequired, BrakeEngaged, HistoryRewritten or
    Unsigned. An approval opens nothing else, and ends with the next revision or commit.

    \b
    levelgate approve rollout/webapp.kro.run --after canary --reason "looks good"
    levelgate approve source/platform --commit 9c1d2e7
    """
    if bool(after) == bool(commit):
        raise click.UsageError(
            "exactly one of --after and --commit is required; give --after for a rollout, or --commit for a source"
        )

    def make_request(subject: RequestSubject) -> PersonRequest:
        return (
            requests.approve(subject, after, reason)
            if after
            else requests.approve_commit(subject, commit or "", reason)
        )

    return send_request(make_request, ROLLOUT if after else SOURCE)
