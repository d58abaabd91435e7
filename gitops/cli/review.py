"""Command `levelgate review`: keep a comment with the plan on each open pull request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitops import source_config
from gitops.cli import describe_exit_codes, program_version
from gitops.cli.options import EXISTING_FILE, Duration, cluster_name_option, read_cluster_name
from gitops.cli.terminal import echo, on_stop_signal
from gitops.clock import SystemClock, wait_for_any
from gitops.config.fields import ListenAddress, parse_address
from gitops.source import Credentials, Mirror, default_cache, stop_tick_on_exit

if TYPE_CHECKING:
    from gitops.plan.isolated_process import PlanRequest
    from gitops.plan.report import Report
    from gitops.pull_requests.reviewer import Reviewer


@click.command(
    epilog=describe_exit_codes(
        "0 every pull request is planned", "1 with --once: a plan failed or has problems", "130 interrupted"
    )
)
@click.argument("url", metavar="URL")
@click.option(
    "--token-file",
    required=True,
    type=EXISTING_FILE,
    metavar="FILE",
    help="File with the token for the forge, and for Git over https. You can rotate the token at any time.",
)
@click.option("--once", is_flag=True, help="Review once and exit.")
@click.option("--pr", "number", type=click.IntRange(1), metavar="N", help="With --once: review only this pull request.")
@click.option("--interval", type=Duration(), default="1m", show_default=True, help="Time between reviews.")
@click.option(
    "--listen",
    metavar="ADDR:PORT",
    default="",
    help="Address for webhooks of the forge at /hooks/FORGE, which start a review. Requires --hook-secret-file.",
)
@click.option(
    "--hook-secret-file",
    "secret_file",
    type=EXISTING_FILE,
    metavar="FILE",
    help="File with the secrets that sign webhooks, each on its own line.",
)
@click.option("--path", metavar="DIR", default="", help="Read only this directory of the repository.")
@click.option("--source", default="", metavar="NAME", help="Name of the source.  [default: name of the repository]")
@click.option(
    "--forge", type=click.Choice(["github", "gitlab", "gitea"]), help="Kind of the forge.  [default: from a known host]"
)
@click.option("--api", metavar="URL", default="", help="URL of the forge's API.  [default: from the host]")
@click.option(
    "--project", metavar="OWNER/NAME", default="", help="Name of the repository at the forge.  [default: from the URL]"
)
@click.option(
    "--login",
    metavar="NAME",
    default="",
    help="Name of the account that owns the token. Needed if the token cannot read the name, for example "
    "github-actions[bot] in GitHub Actions.",
)
@cluster_name_option
def command(  # noqa: PLR0913 - one parameter for each option
    url: str,
    token_file: Path,
    once: bool,
    number: int | None,
    interval: timedelta,
    listen: str,
    secret_file: Path | None,
    path: str,
    source: str,
    forge: str | None,
    api: str,
    project: str,
    login: str,
    file: Path | None,
) -> int:
    """Plan a repository's open pull requests, keep a comment with each plan up to date, and set commit statuses.

    Use this command as a service, or in CI with --once. The command reads the files of a pull request, but never runs
    them, and asks no cluster. When the target branch moves, the command marks the plan as stale. When the pull request
    is merged or closed, the command adds a note to the comment.

    \b
    levelgate review https://github.com/acme/platform --token-file token
    levelgate review https://git.example.com/acme/platform --forge gitea --token-file token --interval 30s
    levelgate review https://github.com/acme/platform --token-file token --listen :8481 --hook-secret-file hook
    levelgate review "$CI_PROJECT_URL" --forge gitlab --token-file token --once --pr "$CI_MERGE_REQUEST_IID"
    """
    if number and not once:
        raise click.UsageError("--pr requires --once; add --once")
    listen_address = _parse_listen_address(listen, secret_file, once=once)
    config = source_config.parse_source(f"{source}={url}" if source else url, path=path)
    cluster_name = read_cluster_name(file)
    plan_pull = _choose_planner(file)
    credentials = Credentials(token_file=_git_token_file(url, token_file))

    async def review(tick: Callable[[], None]) -> bool:
        from gitops.forge.connect import ForgeProject
        from gitops.pull_requests.reviewer import Reviewer

        clock = SystemClock()
        forge_location = ForgeProject.from_url(url, token_file, kind=forge or "", api=api, project=project, login=login)
        forge_project, rest_client = forge_location.connect(clock)
        try:
            mirror = Mirror(config.target, default_cache(), credentials=credentials, tick=tick)
            reviewer = Reviewer(
                forge_project,
                mirror,
                config.name,
                clock,
                program_version(),
                cluster_name,
                notice=_print_notice,
                plan=plan_pull,
            )
            if number:
                return await reviewer.review_one(number)
            if once:
                return await reviewer.review_all()
            if listen_address is None or secret_file is None:
                return await _review_until_stopped(reviewer, interval)
            from gitops.server.http import serve_wake_hooks

            async with serve_wake_hooks(
                reviewer.triggered, config, forge_location.kind, secret_file, listen_address
            ) as hook_url:
                _print_notice(0, f"webhooks arrive at {hook_url}")
                return await _review_until_stopped(reviewer, interval)
        finally:
            await rest_client.close()

    async def interruptible() -> bool:
        # Inside the coroutine: when it ends, asyncio.run waits for the Git threads, which only the tick can stop.
        with stop_tick_on_exit() as tick:
            return await review(tick)

    return 0 if asyncio.run(interruptible()) else 1


def _choose_planner(file: Path | None) -> Callable[[PlanRequest], Awaitable[Report]]:
    """Return the function that plans a pull request.

    If the configuration has a fleet, the plan shows the objects as they are in Git, before placements send the objects
    to clusters. The comment then contains a note.
    """
    from gitops.config import read_config
    from gitops.plan.isolated_process import compute_plan_isolated

    fleet = read_config(file).fleet if file else None
    if fleet is None:
        return compute_plan_isolated
    return lambda request: compute_plan_isolated(replace(request, fleet_source=fleet.source))


def _git_token_file(url: str, token_file: Path) -> Path | None:
    """Return `token_file` if Git uses https. For a local repository or ssh, which need no token, return None."""
    return token_file if url.startswith("https:") else None


async def _review_until_stopped(reviewer: Reviewer, interval: timedelta) -> bool:
    on_stop_signal(reviewer.stop.set)
    await wait_for_any(reviewer.run(interval), reviewer.stop.wait())
    return True


def _parse_listen_address(listen: str, secret_file: Path | None, *, once: bool) -> ListenAddress | None:
    """Return the address for webhooks, or None if `listen` is empty. Raises: UsageError."""
    if bool(listen) != bool(secret_file):
        raise click.UsageError(
            "--listen and --hook-secret-file require each other, because Levelgate rejects unsigned webhooks; give both"
        )
    if once and listen:
        raise click.UsageError("--listen cannot be combined with --once; leave one out")
    try:
        return parse_address(listen) if listen else None
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None


def _print_notice(number: int, text: str) -> None:
    echo(f"#{number}  {text}" if number else text)
