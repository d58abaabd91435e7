"""Types of the fixtures that run a command as a person types it."""

from __future__ import annotations

from collections.abc import Callable

Typed = Callable[..., str]


Printed = Callable[..., tuple[str, str]]
