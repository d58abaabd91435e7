"""Waiting for what another process, thread or task does, bounded."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], *, within: float = 120.0, every: float = 0.05) -> T:
    """Returns the first truthy answer of `probe`, which is asked at least once.

    A probe may also assert: its AssertionError means "not yet". Any other exception is passed on at once. After
    `within` seconds an AssertionError shows the last answer.
    """
    deadline = time.monotonic() + within
    while True:
        refusal: AssertionError | None = None
        try:
            if answer := probe():
                return answer
            last = repr(answer)
        except AssertionError as error:
            refusal, last = error, str(error)
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within:g} s; last answer: {last}") from refusal
        time.sleep(every)


async def until(holds: Callable[[], bool], *, within: float = 120.0) -> None:
    """Turns the event loop until `holds` says so, and looks after each turn. After `within` seconds it raises TimeoutError: by time, since a turn is
    over long before a real thread gets on. It is the machine's time: that of a virtual loop stands still meanwhile.
    """
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {within:g} s")
        await asyncio.sleep(0)
        _let_threads_run()


def _let_threads_run() -> None:
    """Give the interpreter lock away. A thread that imports modules would starve otherwise."""
    time.sleep(0.0001)
