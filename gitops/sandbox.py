"""Sandboxes as the commands make them: with our CEL, on this machine's clock, with workloads that get on, and with further clusters beside them.

One that runs leaves its kubeconfig where `--sandbox` finds it, so that a second terminal reaches it without being told where it is.
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
"""Everything gets ready, slowly enough to be watched."""

TICK_SECONDS: Final = 0.1
"""Seconds between two steps of the controllers."""


def create_sandbox(store: Store | None = None) -> Sandbox:
    """A sandbox with the objects of `store`, if one is given."""
    return Sandbox(evaluate=evaluate_cel, store=store, script=SCRIPT)


async def run_controllers(sandboxes: Sequence[tuple[Sandbox, CutSwitch]]) -> None:
    """Do what controllers do, until cancelled. Those of a cluster that is cut do not reach their server."""
    while True:
        for sandbox, switch in sandboxes:
            if not switch.is_cut:
                sandbox.tick()
        await asyncio.sleep(TICK_SECONDS)


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """A sandbox that is being served: the URL of each cluster by its context, its own first. `controllers` ends only with a fault."""

    urls: Mapping[str, str]
    kubeconfig: Path
    controllers: asyncio.Future[None]


@asynccontextmanager
async def serve_sandbox(
    *, clusters: int, port: int = 0, directory: Path | None = None, stores: Mapping[str, Store] | None = None
) -> AsyncIterator[RunningSandbox]:
    """Serve a sandbox, and so many further clusters beside it, until the block ends. Each has a server and objects of its own: those of `stores`,
    by context, if some are given. The kubeconfig lies in `directory`, and where `--sandbox` looks for one. Of several clusters, the first listens on
    `port`, the others on those that follow it.

    Raises ConfigurationError if a port cannot be had, GitopsError if the kubeconfig cannot be written.
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
            if _read_servers(state_directory() / "kubeconfig") == urls:
                (state_directory() / "kubeconfig").unlink(missing_ok=True)
            with suppress(asyncio.CancelledError):
                await controllers


def state_directory() -> Path:
    """Where the kubeconfig of the sandbox that was started last lies: below `$XDG_STATE_HOME`, else `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "levelgate" / "sandbox"


async def find_kubeconfig() -> Path | None:
    """The kubeconfig of the sandbox that runs; None if none answers."""
    file = state_directory() / "kubeconfig"
    address = urlsplit(next(iter(_read_servers(file).values()), ""))
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.hostname, address.port), timeout=2.0)
    except (OSError, ValueError, TimeoutError):
        return None
    writer.close()
    return file if address.hostname else None


async def require_kubeconfig() -> Path:
    """The kubeconfig of the sandbox that runs. Raises ConfigurationError if none answers."""
    if file := await find_kubeconfig():
        return file
    start = "`levelgate run --sandbox --source .` or `levelgate sandbox`"
    raise ConfigurationError(f"no sandbox is running: start one in another terminal with {start}")


async def require_clusters(clusters: int) -> None:
    """Raises ConfigurationError if the sandbox that runs has not so many clusters beside its own."""
    from applier.sandbox.endpoints.http import context_names

    file = await require_kubeconfig()
    names = list(_read_servers(file))
    if names != context_names(clusters):
        raise ConfigurationError(
            f"{file}: a sandbox runs already, with {format_count(len(names) - 1, 'further cluster')}: stop it, or leave out --clusters"
        )


async def set_cut(cut: Sequence[str], heal: Sequence[str]) -> None:
    """Cut clusters of the sandbox that runs off, and heal others. Raises ConfigurationError, for an unknown name before anything is done."""
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
        raise GitopsError(f"{file}: cannot be written: {error.strerror}") from None


def _read_servers(file: Path) -> dict[str, str]:
    """The servers in a kubeconfig of ours, by context; empty where there is none."""
    try:
        return {entry["name"]: str(entry["cluster"]["server"]) for entry in orjson.loads(file.read_bytes())["clusters"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def evaluate_cel(expression: str, variables: Mapping[str, Any]) -> Any:
    """Our CEL, for the rules of custom kinds."""
    # Imported when the first rule is evaluated: most sandboxes have none.
    from renderer.cel import compile_expression

    return compile_expression(expression).evaluate(variables)
