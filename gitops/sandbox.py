"""Sandboxes for commands, with CEL rules, the machine's clock, workloads that become ready, and further clusters.

A running sandbox leaves its kubeconfig at a fixed place. `--sandbox` finds the kubeconfig there, so a command in a
second terminal needs no address.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from applier.errors import ConfigurationError
from applier.sandbox.controllers.workloads import Behaviour, WorkloadScript
from applier.sandbox.endpoints.cut_switch import CutSwitch
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from gitops.errors import GitopsError
from renderer.frozen import dataclass
from renderer.phrasing import format_count, suggestion_or_names

SCRIPT: Final = WorkloadScript(default=Behaviour(seconds=3.0))
"""Script by which every workload becomes ready, slowly enough for a person to watch."""

TICK_SECONDS: Final = 0.1
"""Seconds between two steps of the controllers."""


def create_sandbox(store: Store | None = None) -> Sandbox:
    """Return a sandbox with the objects of `store`, or an empty sandbox if `store` is None."""
    return Sandbox(evaluate=evaluate_cel, store=store, script=SCRIPT)


async def run_controllers(sandboxes: Sequence[tuple[Sandbox, CutSwitch]]) -> None:
    """Run the controllers of all sandboxes until the task is cancelled.

    While a cluster is cut off, its controllers pause.
    """
    while True:
        for sandbox, switch in sandboxes:
            if not switch.is_cut:
                sandbox.tick()
        await asyncio.sleep(TICK_SECONDS)


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """Sandbox that this process serves: its kubeconfig, URLs and controllers."""

    urls: Mapping[str, str]
    """URL of each cluster by its context. The sandbox's own cluster is the first."""
    kubeconfig: Path
    controllers: asyncio.Future[None]
    """Task of the controllers, which ends only with an exception."""


@asynccontextmanager
async def serve_sandbox(
    *, clusters: int, port: int = 0, directory: Path | None = None, stores: Mapping[str, Store] | None = None
) -> AsyncIterator[RunningSandbox]:
    """Serve a sandbox and `clusters` further clusters during the block.

    Each cluster has its own server and objects. The first server listens on `port`, and further servers listen on the
    next ports. The function writes the kubeconfig to `directory`, and to the place where `--sandbox` looks for it.

    Args:
        stores: initial objects, by context.

    Raises: ConfigurationError if a port is not free, GitopsError if the kubeconfig cannot be written.
    """
    from applier.sandbox.endpoints.http import context_names, serve

    async with AsyncExitStack() as stack:
        sandboxes, urls = [], {}
        for number, name in enumerate(context_names(clusters)):
            sandbox = create_sandbox((stores or {}).get(name))
            switch = CutSwitch(sandbox.answer)
            urls[name] = await stack.enter_async_context(serve(switch.answer, port=port and port + number))
            sandboxes.append((sandbox, switch))
        place = (directory or state_directory()).resolve() / "kubeconfig"
        for file in {place, state_directory() / "kubeconfig"}:
            _write_kubeconfig(file, urls)
        controllers = asyncio.ensure_future(run_controllers(sandboxes))
        try:
            yield RunningSandbox(urls, place, controllers)
        finally:
            controllers.cancel()
            # A sandbox that was started later may have replaced the file.
            if _read_servers(state_directory() / "kubeconfig") == urls:
                (state_directory() / "kubeconfig").unlink(missing_ok=True)
            with suppress(asyncio.CancelledError):
                await controllers


def state_directory() -> Path:
    """Return the directory with the kubeconfig of the last started sandbox.

    The directory is below `$XDG_STATE_HOME` or `~/.local/state`.
    """
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "levelgate" / "sandbox"


async def find_kubeconfig() -> Path | None:
    """Return the kubeconfig of the running sandbox, or None if no sandbox answers."""
    file = state_directory() / "kubeconfig"
    address = urlsplit(next(iter(_read_servers(file).values()), ""))
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.hostname, address.port), timeout=2.0)
    except (OSError, ValueError, TimeoutError):
        return None
    writer.close()
    return file if address.hostname else None


async def require_kubeconfig() -> Path:
    """Return the kubeconfig of the running sandbox. Raises: ConfigurationError if no sandbox answers."""
    if file := await find_kubeconfig():
        return file
    start = "`levelgate run --sandbox --source .` or `levelgate sandbox`"
    raise ConfigurationError(f"no sandbox is running: start one in another terminal with {start}")


async def require_clusters(clusters: int) -> None:
    """Check that the running sandbox has `clusters` further clusters. Raises: ConfigurationError."""
    from applier.sandbox.endpoints.http import context_names

    file = await require_kubeconfig()
    names = list(_read_servers(file))
    if names != context_names(clusters):
        raise ConfigurationError(
            f"{file}: a sandbox is already running, with {format_count(len(names) - 1, 'further cluster')}: "
            "stop it, or leave out --clusters"
        )


async def set_cut(cut: Sequence[str], heal: Sequence[str]) -> None:
    """Cut off the clusters in `cut`, and reconnect the clusters in `heal`.

    The names are contexts of the running sandbox. If the sandbox does not know a name, no cluster changes.

    Raises: ConfigurationError.
    """
    from applier.sandbox.endpoints import http

    file = await require_kubeconfig()
    urls = _read_servers(file)
    for name in (*cut, *heal):
        if name not in urls:
            raise ConfigurationError(f"{file}: the sandbox has no cluster {name!r}{suggestion_or_names(name, urls)}")
    for name in (*cut, *heal):
        await http.set_cut(urls[name], is_cut=name in cut)


def _write_kubeconfig(file: Path, urls: Mapping[str, str]) -> None:
    from applier.sandbox.endpoints.http import write_kubeconfig

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(file, *urls.values())
    except OSError as error:
        raise GitopsError(f"{file}: cannot be written: {error.strerror}; check the directory") from None


def _read_servers(file: Path) -> dict[str, str]:
    """Return the servers in a sandbox's kubeconfig, by context. If `file` is missing or unreadable, return {}."""
    try:
        return {entry["name"]: str(entry["cluster"]["server"]) for entry in orjson.loads(file.read_bytes())["clusters"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def evaluate_cel(expression: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of a CEL expression, such as a validation rule of a custom kind."""
    # Imported with the first rule: most sandboxes do not have rules, and start sooner without this module.
    from renderer.cel import compile_expression

    return compile_expression(expression).evaluate(variables)
