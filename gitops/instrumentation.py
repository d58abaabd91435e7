"""Timed stages of the work: reconciliations, their parts, and requests to Git servers.

A caller writes `with stage("render"):` and knows neither metrics nor traces. If an exception leaves the block, the
stage receives the exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

STAGES: Final = ("pass", "part", "observe", "render", "plan", "apply", "conclude", "ask", "fetch")
"""Names of the stages.

`pass` is a full reconciliation, and `part` is a partial reconciliation. Both contain the stages `observe` to
`conclude`. `ask` reads the refs of a Git server, and `fetch` reads one source.
"""


class Stage(Protocol):
    """Function that opens a stage, to measure or to trace it."""

    def __call__(self, name: str, /, **about: str) -> AbstractContextManager[None]:
        """Return the context of the stage `name`, one of `STAGES`. Args: `about` is the subject, such as the source."""


def no_stage(_name: str, /, **_about: str) -> AbstractContextManager[None]:
    """Return a context that measures nothing."""
    return nullcontext()


def combine(*everyone: Stage) -> Stage:
    """Return a stage that opens a stage of each member of `everyone`, in the given order."""

    @contextmanager
    def stage(name: str, /, **about: str) -> Iterator[None]:
        with ExitStack() as stack:
            for listener in everyone:
                stack.enter_context(listener(name, **about))
            yield

    return stage
