"""Servers are not waited for any more once nobody wants to hear what they say: a `tick` of Git that says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gitops.errors import Stopped


def make_stop_tick(has_ended: Callable[[], bool]) -> Callable[[], None]:
    """A tick that raises `Stopped` once this has `ended`."""

    def tick() -> None:
        if has_ended():
            raise Stopped("Git", "the process comes to its end")

    return tick


@contextmanager
def stop_tick_on_exit() -> Iterator[Callable[[], None]]:
    """A tick that raises `Stopped` once this block is left, for a thread that whoever leaves it waits for."""
    exited = threading.Event()
    try:
        yield make_stop_tick(exited.is_set)
    finally:
        exited.set()
