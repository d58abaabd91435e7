"""Sandboxes as the commands make them: with our CEL, on this machine's clock, and with workloads that get on.

One that runs leaves its kubeconfig where `--sandbox` finds it, so that a second terminal reaches it without being told where it is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from applier.sandbox.controllers.workloads import Behaviour, WorkloadScript
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from gitops.errors import GitopsError
from renderer.frozen import dataclass

SCRIPT: Final = WorkloadScript(default=Behaviour(seconds=3.0))
"""Everything gets ready, slowly enough to be watched."""

TICK_SECONDS: Final = 0.1
"""Seconds between two steps of the controllers."""


def create_sandbox(store: Store | None = None) -> Sandbox:
    """A sandbox with the objects of `store`, if one is given."""
    return Sandbox(evaluate=evaluate_cel, store=store, script=SCRIPT)


async def run_controllers(sandbox: Sandbox) -> None:
    """Do what controllers do, until cancelled."""
    while True:
        sandbox.tick()
        await asyncio.sleep(TICK_SECONDS)


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """A sandbox that is being served. `controllers` ends only with a fault."""

    url: str
    kubeconfig: Path
    controllers: asyncio.Future[None]


@asynccontextmanager
async def serve_sandbox(
    *, port: int = 0, directory: Path | None = None, store: Store | None = None
) -> AsyncIterator[RunningSandbox]:
    """Serve a sandbox until the block ends; its kubeconfig lies in `place`, and where `--sandbox` looks for one.

    Raises ConfigurationError if the port cannot be had, GitopsError if the kubeconfig cannot be written.
    """
    from applier.sandbox.endpoints.http import serve

    sandbox = create_sandbox(store)
    async with serve(sandbox.answer, port=port) as url:
        files = {(directory or state_directory()).resolve() / "kubeconfig", state_directory() / "kubeconfig"}
        for file in files:
            _write_kubeconfig(file, url)
        controllers = asyncio.ensure_future(run_controllers(sandbox))
        try:
            yield RunningSandbox(url, (directory or state_directory()).resolve() / "kubeconfig", controllers)
        finally:
            controllers.cancel()
            if _server_url(state_directory() / "kubeconfig") == url:
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
    address = urlsplit(_server_url(file))
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.hostname, address.port), timeout=2.0)
    except (OSError, ValueError, TimeoutError):
        return None
    writer.close()
    return file if address.hostname else None


def _write_kubeconfig(file: Path, url: str) -> None:
    from applier.sandbox.endpoints.http import write_kubeconfig

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(file, url)
    except OSError as error:
        raise GitopsError(f"{file}: cannot be written: {error.strerror}") from None


def _server_url(file: Path) -> str:
    """The server in a kubeconfig of ours; empty where there is none."""
    try:
        return str(orjson.loads(file.read_bytes())["clusters"][0]["cluster"]["server"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def evaluate_cel(expression: str, variables: Mapping[str, Any]) -> Any:
    """Our CEL, for the rules of custom kinds."""
    # Imported when the first rule is evaluated: most sandboxes have none.
    from renderer.cel import compile_expression

    return compile_expression(expression).evaluate(variables)
