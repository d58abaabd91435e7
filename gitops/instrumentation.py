"""The parts of the work, for whoever wants to time them: a pass, what it consists of, and what is asked of Git.

Whoever works says `with stage("render"):` and knows neither metrics nor traces. What goes wrong inside is seen on the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

STAGES: Final = ("pass", "part", "observe", "render", "plan", "apply", "conclude", "ask", "fetch")
"""`pass` and `part`, a pass over some objects, hold those up to `conclude`; `ask`: what refs a Git server has, `fetch`: one source is read."""


class Stage(Protocol):
    def __call__(self, name: str, /, **about: str) -> AbstractContextManager[None]:
        """One of `STAGES` lasts as long as the context; `about` says of what, such as the source."""


def no_stage(_name: str, /, **_about: str) -> AbstractContextManager[None]:
    """Nobody wants to know."""
    return nullcontext()


def combine(*everyone: Stage) -> Stage:
    """All of these are told, the first one begins first."""

    @contextmanager
    def stage(name: str, /, **about: str) -> Iterator[None]:
        with ExitStack() as stack:
            for listener in everyone:
                stack.enter_context(listener(name, **about))
            yield

    return stage
