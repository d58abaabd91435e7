"""Of the package `kubernetes` its configuration and its REST layer, without all else that it imports with itself."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

_CLIENT = "kubernetes.aio.client"


def allow_partial_import() -> None:
    """Let parts of `kubernetes.aio` be imported by themselves.

    The package's own first lines import its second client, for threads, with all that this needs (requests, oauthlib, websocket), and then some:
    a third of what it costs to start a command that speaks to a cluster. Its configuration names the client of models, which needs pydantic, and
    uses it only to make one: that is a fifth of the rest. Parts that somebody else imports are found as ever.
    """
    for name in ("kubernetes", "kubernetes.aio"):
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)
    if "kubernetes.aio.config" not in sys.modules:
        client = import_module(_CLIENT)
        client.ApiClient = _api_client  # type: ignore[attr-defined]
        import_module("kubernetes.aio.config")
        del client.ApiClient


def _api_client(**options: Any) -> Any:
    """What is called by that name, imported when it is called."""
    return import_module(_CLIENT).ApiClient(**options)
