"""Of the package `kubernetes` its configuration and its REST layer, without all else that it imports with itself."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec


def prepare() -> None:
    """Let parts of `kubernetes.aio` be imported by themselves.

    The package's own first lines import its second client, for threads, with all that this needs (requests, oauthlib, websocket), and then some:
    a third of what it costs to start a command that speaks to a cluster. Parts that somebody else imports are found as ever.
    """
    for name in ("kubernetes", "kubernetes.aio"):
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)
