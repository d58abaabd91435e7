"""Plan what others wrote in a process of its own, which has so much time and memory and no more.

What a commit holds may be as costly as its author likes: instances by the thousand, each of which stays below every limit. Only its own plan pays.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
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

CPU_SECONDS: Final = 120
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


async def planned_apart(asked: Question, *, seconds: int = CPU_SECONDS, memory: int = MEMORY) -> Report:
    """The answer, worked out by another process. Raises Unplannable, also where that takes too much."""
    sent = replace(asked, base=_plain(asked.base), head=_plain(asked.head))
    clean = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, clean, initializer=_limit, initargs=(seconds, memory)) as process:
        try:
            return await asyncio.get_running_loop().run_in_executor(process, _answer, sent)
        except BrokenProcessPool:
            why = f"it takes more than the {seconds}s of CPU time and {memory >> 20} MiB that a plan may take"
            raise Unplannable(f"{why}; make smaller pull requests") from None


def _plain(snapshot: Snapshot) -> Snapshot:
    """As it can be sent to another process."""
    return replace(snapshot, files=dict(snapshot.files))


def _limit(seconds: int, memory: int) -> None:
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def _answer(asked: Question) -> Report:
    return asyncio.run(planned(asked))
