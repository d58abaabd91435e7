"""Command `levelgate sandbox`: serve one or several Kubernetes APIs for trials, without a cluster."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gitops.cli import describe_exit_codes
from gitops.cli.options import clusters_option, flags_on_command_line
from gitops.cli.terminal import on_stop_signal

if TYPE_CHECKING:
    from applier.sandbox.storage.store import Store
    from gitops.sandbox import RunningSandbox

_LAST_PORT: Final = 65535


@click.command(epilog=describe_exit_codes("0 stopped, or switched", "1 an error"))
@click.option(
    "--port",
    type=click.IntRange(0, _LAST_PORT),
    default=0,
    metavar="N",
    help="Port on 127.0.0.1. With --clusters, further clusters use the next ports.  [default: free ports]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the objects and the kubeconfig.  [default: a temporary directory]",
)
@clusters_option
@click.option(
    "--cut",
    metavar="NAME",
    multiple=True,
    help="Cut off this cluster of the running sandbox: its server accepts connections but does not answer. Repeatable.",
)
@click.option("--heal", metavar="NAME", multiple=True, help="Reconnect this cluster after a cut. Repeatable.")
def command(port: int, data: Path | None, clusters: int, cut: tuple[str, ...], heal: tuple[str, ...]) -> int:
    """Serve an imitation of a Kubernetes API on this machine until you press Ctrl-C.

    The command neither needs nor changes a cluster.

    Use this command to try definitions and rollouts. The sandbox stores, merges, validates and watches as the API
    server does. The sandbox runs no containers: a script makes a Deployment ready after a few seconds. Every client has
    all permissions. The sandbox listens only on 127.0.0.1.

    \b
    levelgate sandbox --data ~/sandbox
    KUBECONFIG=~/sandbox/kubeconfig kubectl get namespaces
    levelgate run --sandbox --source .

    Serve several clusters in one process, and cut off a cluster from another terminal:

    \b
    levelgate sandbox --data ~/sandbox --clusters 3
    kubectl --kubeconfig ~/sandbox/kubeconfig --context c1 get namespaces
    levelgate sandbox --cut c1
    levelgate sandbox --heal c1
    """
    if cut or heal:
        if serving := flags_on_command_line(port="--port", data="--data", clusters="--clusters"):
            raise click.UsageError(
                f"--cut and --heal change the running sandbox and start none; leave out {', '.join(serving)}"
            )
        if both := set(cut) & set(heal):
            raise click.UsageError(f"both --cut and --heal name {min(both)}; give one of them")
        asyncio.run(_switch(cut, heal))
        return 0
    if port + clusters > _LAST_PORT:
        raise click.UsageError(
            f"--port {port} leaves no ports for {clusters} clusters; name at most port {_LAST_PORT - clusters}"
        )
    asyncio.run(_serve(port, data, clusters))
    return 0


async def _switch(cut: Sequence[str], heal: Sequence[str]) -> None:
    from gitops.sandbox import set_cut

    await set_cut(cut, heal)
    for name in cut:
        click.echo(f"{name} does not answer. To end the cut, run levelgate sandbox --heal {name}.")
    for name in heal:
        click.echo(f"{name} answers.")


async def _serve(port: int, data: Path | None, clusters: int) -> None:
    from gitops.sandbox import serve_sandbox

    async with AsyncExitStack() as stack:
        stores = _open_stores(stack, data, clusters) if data else {}
        place = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="levelgate-sandbox-")))
        sandbox = await stack.enter_async_context(
            serve_sandbox(clusters=clusters, port=port, directory=place, stores=stores)
        )
        stop = asyncio.Event()
        on_stop_signal(stop.set)
        stop_task = asyncio.ensure_future(stop.wait())
        _print_greeting(sandbox, is_persistent=data is not None)
        # The controllers end only with an error, which must end the sandbox too.
        await asyncio.wait((sandbox.controllers, stop_task), return_when=asyncio.FIRST_COMPLETED)
        stop_task.cancel()
    click.echo("stopped")


def _open_stores(stack: AsyncExitStack, data: Path, clusters: int) -> dict[str, Store]:
    """Return the stored objects of each cluster.

    The objects of the first cluster are in `data`. The objects of each further cluster are in the subdirectory with the
    name of that cluster.
    """
    from applier.sandbox.endpoints.http import context_names
    from applier.sandbox.storage.persistence import DataDirectory

    own, *others = context_names(clusters)
    stores = {}
    for name, path in {own: data, **{name: data / name for name in others}}.items():
        directory = DataDirectory.open(path)
        stack.callback(directory.close)
        stores[name] = directory.store
    return stores


def _print_greeting(sandbox: RunningSandbox, *, is_persistent: bool) -> None:
    own, *others = sandbox.urls
    click.echo(f"A sandbox at {sandbox.urls[own]}. A sandbox answers like a cluster, but runs no containers.")
    click.echo("\n".join(("", f"    export KUBECONFIG={sandbox.kubeconfig}", "    kubectl get namespaces", "")))
    if others:
        advice = f"To cut a cluster off, run `levelgate sandbox --cut {others[0]}`."
        click.echo(f"The sandbox is the context {own}. {advice} Further clusters:\n")
        click.echo("\n".join((*(f"    {name:4} {sandbox.urls[name]}" for name in others), "")))
    click.echo("With --sandbox, levelgate commands use the sandbox.")
    click.echo(
        "The directory keeps the objects. Press Ctrl-C to stop."
        if is_persistent
        else "Press Ctrl-C to stop the sandbox and delete its objects."
    )
