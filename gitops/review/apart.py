"""Plan what others wrote in a process of its own, which has so much time and memory and no more.

What a commit holds may be as costly as its author likes: instances by the thousand, each of which stays below every limit. Only its own plan pays.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final

from applier.errors import ApplierError
from gitops import compose
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.passes.sources import state_of
from gitops.propagation.gates import Fact
from gitops.review import planning
from gitops.review.report import Report
from gitops.source import Snapshot, Target
from renderer.errors import RendererError
from renderer.values import dataclass

CPU_SECONDS: Final = 120
SECONDS: Final = 600
"""By the clock: also what only waits comes to an end."""
MEMORY: Final = 4 << 30
"""Bytes of address space."""


class Unplannable(GitopsError):
    """There is no plan; the text says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """What `head` changes of what is as `base` says."""

    source: str
    target: Target
    base: Snapshot
    head: Snapshot
    clock: Clock
    version: str


async def planned(asked: Question) -> Report:
    """The answer, worked out here. Raises Unplannable."""
    try:
        base = compose.catalog_of(asked.base, source=asked.source)
        head = state_of(asked.source, asked.target, asked.head, base)
        names = {name for one in head.catalog.definitions.values() for gate in one.gates for name in gate.externals}
        facts = {name: Fact(None, "a review does not ask") for name in names}
        return await planning.between(base, head, clock=asked.clock, version=asked.version, facts=facts)
    except (GitopsError, ApplierError, RendererError, RecursionError) as error:
        raise Unplannable(str(error) or type(error).__name__) from None
    except MemoryError:
        raise Unplannable("it takes more memory than a plan may take") from None
    except Exception as error:  # whatever others wrote, it ends no more than its own plan
        raise Unplannable(f"Levelgate itself failed ({type(error).__name__}): please report it") from error


async def planned_apart(
    asked: Question, *, cpu_seconds: int = CPU_SECONDS, seconds: float = SECONDS, memory: int = MEMORY
) -> Report:
    """The answer, worked out by another process. Raises Unplannable, also where that takes too much."""
    sent = replace(asked, base=_plain(asked.base), head=_plain(asked.head))
    clean = multiprocessing.get_context("spawn")
    here, there = clean.Pipe(duplex=False)
    child = clean.Process(target=_answer, args=(there, sent, cpu_seconds, memory), daemon=True)
    try:
        await asyncio.to_thread(child.start)
        there.close()
        async with asyncio.timeout(seconds):
            answer: Report | Unplannable = await asyncio.to_thread(here.recv)
    except TimeoutError:
        raise Unplannable(f"there is no plan after {seconds:g} s; make smaller pull requests") from None
    except (EOFError, OSError):
        why = f"it takes more than the {cpu_seconds}s of CPU time and {memory >> 20} MiB that a plan may take"
        raise Unplannable(f"{why}; make smaller pull requests") from None
    finally:
        if child.pid:
            child.kill()  # Which ends the thread that waits for its answer, too.
            child.join()
    if isinstance(answer, Unplannable):
        raise answer
    return answer


def _plain(snapshot: Snapshot) -> Snapshot:
    """As it can be sent to another process."""
    return replace(snapshot, files=dict(snapshot.files))


def _answer(there: Connection, asked: Question, cpu_seconds: int, memory: int) -> None:
    """Runs in the other process."""
    for what, most in ((resource.RLIMIT_CPU, cpu_seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    try:
        answer: Report | Unplannable = asyncio.run(planned(asked))
    except Unplannable as error:
        answer = error
    there.send(answer)
