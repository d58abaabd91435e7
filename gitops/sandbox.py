"""Sandboxes as the command makes them: with our CEL, on this machine's clock, and with workloads that get on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from applier.sandbox.api import Sandbox
from applier.sandbox.store import Store
from applier.sandbox.workloads import Behaviour, Script

SCRIPT: Final = Script(otherwise=Behaviour(seconds=3.0))
"""Everything gets ready, slowly enough to be watched."""

TICK: Final = 0.1
"""Seconds between two steps of the controllers."""


def new_sandbox(store: Store | None = None, *, script: Script = SCRIPT) -> Sandbox:
    """A sandbox with the objects of `store`, if one is given."""
    return Sandbox(evaluate=_evaluate, store=store, script=script)


async def control(sandbox: Sandbox) -> None:
    """Do what controllers do, until cancelled."""
    while True:
        sandbox.tick()
        await asyncio.sleep(TICK)


def _evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    # Imported when the first rule is evaluated: most sandboxes have none.
    from renderer.cel import compile_expression

    return compile_expression(expression).evaluate(variables)
