"""`levelgate sandbox`: a Kubernetes API to try things on."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import click

from gitops.cli.terminal import on_stop_signal


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Listen on this port of 127.0.0.1.  [default: a free one]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the objects, and the kubeconfig, in this directory.  [default: one that is removed at the end]",
)
def command(port: int, data: Path | None) -> int:
    """Serve an imitation of a Kubernetes API on this machine, until interrupted. No cluster is needed, and none is touched.

    It stores, merges, validates and watches as the API server does. It runs no containers: a script makes a Deployment ready after a few
    seconds. Every client may do everything; it listens on 127.0.0.1 only.

    \b
    levelgate sandbox --data ~/sandbox
    KUBECONFIG=~/sandbox/kubeconfig kubectl get namespaces
    levelgate run --sandbox --source .
    """
    asyncio.run(_serve(port, data))
    return 0


async def _serve(port: int, data: Path | None) -> None:
    from applier.sandbox.storage.persistence import DataDirectory
    from gitops.sandbox import serve_sandbox

    async with AsyncExitStack() as stack:
        directory = None if data is None else DataDirectory.open(data)
        if directory:
            stack.callback(directory.close)
        place = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="levelgate-sandbox-")))
        sandbox = await stack.enter_async_context(
            serve_sandbox(port=port, directory=place, store=directory.store if directory else None)
        )
        stop = asyncio.Event()
        on_stop_signal(stop.set)
        stop_task = asyncio.ensure_future(stop.wait())
        _print_greeting(sandbox.url, sandbox.kubeconfig, is_persistent=data is not None)
        # A fault of the controllers must not go unnoticed.
        await asyncio.wait((sandbox.controllers, stop_task), return_when=asyncio.FIRST_COMPLETED)
        stop_task.cancel()
    click.echo("stopped")


def _print_greeting(url: str, kubeconfig: Path, *, is_persistent: bool) -> None:
    click.echo(f"A sandbox at {url}. It is not a cluster: it answers like one, and runs no containers.")
    click.echo("\n".join(("", f"    export KUBECONFIG={kubeconfig}", "    kubectl get namespaces", "")))
    click.echo("levelgate reaches it with --sandbox.")
    click.echo(
        "Its objects are kept there. Ctrl-C stops it." if is_persistent else "Ctrl-C stops it and deletes its objects."
    )
