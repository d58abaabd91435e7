"""Timed stages of the work: a reconciliation, its parts, and requests to Git servers.

Code that works writes `with stage("render"):` and knows neither metrics nor traces. A stage sees the exception
that leaves its block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

STAGES: Final = ("pass", "part", "observe", "render", "plan", "apply", "conclude", "ask", "fetch")
"""`pass`, a full reconciliation, and `part`, a partial one, contain those up to `conclude`.

`ask` reads the refs of a Git server, `fetch` reads one source.
"""


class Stage(Protocol):
    """A function that opens a stage."""

    def __call__(self, name: str, /, **about: str) -> AbstractContextManager[None]:
        """Return the context of one of `STAGES`; `about` names its subject, such as the source."""


def no_stage(_name: str, /, **_about: str) -> AbstractContextManager[None]:
    """Return a context that measures nothing."""
    return nullcontext()


def combine(*everyone: Stage) -> Stage:
    """Return a stage that opens a stage of each listener, in this order."""

    @contextmanager
    def stage(name: str, /, **about: str) -> Iterator[None]:
        with ExitStack() as stack:
            for listener in everyone:
                stack.enter_context(listener(name, **about))
            yield

    return stage
