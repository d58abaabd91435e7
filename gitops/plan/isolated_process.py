"""Plan what others wrote in a process of its own, which has so much time and memory and no more.

What a commit holds may be as costly as its author likes: instances by the thousand, each of which stays below every limit. Only its own plan pays.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NoReturn

from applier.errors import ApplierError
from gitops import source_config
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.gates.evaluate import ExternalFact
from gitops.plan import planner
from gitops.plan.before_placement import strip_placement, warn_before_placement
from gitops.plan.report import Report
from gitops.reconcile.sources import state_of
from gitops.source import SourceSnapshot, SourceTarget
from renderer.errors import RendererError
from renderer.frozen import dataclass

MAX_CPU_SECONDS: Final = 120
TIMEOUT_SECONDS: Final = 600
"""By the clock: also what only waits comes to an end."""
MAX_MEMORY_BYTES: Final = 4 << 30
"""Bytes of address space."""
OUT_OF_MEMORY: Final = 77
"""Exit code of a process that reached its limit of memory: all it can still say then."""
RESERVE: Final = 64 << 20
"""Bytes of address space that a process keeps for its end."""
RESERVE_SECONDS: Final = 5
"""CPU time between SIGXCPU, which says why a process ends, and SIGKILL, which does not."""
SAMPLED: Final = 0.1
"""Seconds between two looks at the memory of a process: the kernel forgets its peak when it ends."""


class PlanError(GitopsError):
    """There is no plan; the text says why."""


class Defect(PlanError):
    """There is no plan, by a fault of Levelgate itself or for want of memory."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What `head` changes of what is as `base` says. `fleet_source` is the source that declares clusters, empty where there is no fleet."""

    source: str
    target: SourceTarget
    base: SourceSnapshot
    head: SourceSnapshot
    clock: Clock
    version: str
    cluster_name: str
    fleet_source: str = ""


async def compute_plan(request: PlanRequest) -> Report:
    """The answer, worked out here. Raises PlanError."""
    try:
        base = source_config.load_catalog(request.base, source=request.source)
        head = state_of(request.source, request.target, request.head, base)
        if request.fleet_source:
            base = strip_placement(base, request.fleet_source)
            head = replace(head, catalog=strip_placement(head.catalog, request.fleet_source))
        facts = {
            name: ExternalFact(None, "a review does not ask")
            for definition in head.catalog.definitions.values()
            for gate in definition.gates
            for name in gate.externals
        }
        report = await planner.plan_commits(
            base, head, clock=request.clock, version=request.version, cluster_name=request.cluster_name, facts=facts
        )
        return warn_before_placement(report) if request.fleet_source else report
    except (GitopsError, ApplierError, RendererError, RecursionError) as error:
        raise PlanError(str(error) or type(error).__name__) from None
    except Exception as error:  # whatever others wrote, it ends no more than its own plan
        if lacks_memory(error):
            raise Defect("the plan needs more memory than it may use; make smaller pull requests") from error
        raise _defect_of(error) from error


def _defect_of(error: BaseException) -> Defect:
    """Return what people are told of an error that nobody foresaw: its type, and nothing that it may quote."""
    return Defect(f"Levelgate itself failed ({type(error).__name__}): please report it")


async def compute_plan_isolated(
    request: PlanRequest,
    *,
    cpu_seconds: int = MAX_CPU_SECONDS,
    seconds: float = TIMEOUT_SECONDS,
    memory: int = MAX_MEMORY_BYTES,
) -> Report:
    """The answer, worked out by another process. Raises PlanError, also where that takes too much."""
    sendable = replace(request, base=_make_picklable(request.base), head=_make_picklable(request.head))
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_run_in_child, args=(sender, sendable, cpu_seconds, memory), daemon=True)
    watched = Watched(child, receiver)
    try:
        try:
            await asyncio.to_thread(child.start)
        except Exception as error:  # no memory or no room for a process, or a question that cannot be sent
            message = f"its process cannot be started ({type(error).__name__}: {error})"
            raise PlanError(f"{message}; if the machine has memory and processes left, please report it") from error
        sender.close()
        async with asyncio.timeout(seconds):
            answer = await asyncio.to_thread(watched.received)
    except TimeoutError:
        raise PlanError(f"no plan after {seconds:g} s; make smaller pull requests") from None
    except (EOFError, OSError):
        await asyncio.to_thread(child.join)  # before it is killed below: its own end says why
        raise PlanError(ending(child.exitcode, watched.peak, cpu_seconds=cpu_seconds, memory=memory)) from None
    finally:
        if child.pid:
            child.kill()  # Which ends the thread that waits for its answer, too.
            child.join()
    if isinstance(answer, PlanError):
        raise answer
    return answer


class Watched:
    """The process that works out an answer, and the most memory that it was seen to have."""

    def __init__(self, child: BaseProcess, here: Connection) -> None:
        self.child, self.here, self.peak = child, here, 0

    def received(self) -> Report | PlanError:
        """Return the answer when it comes. Raises EOFError or OSError where the process ends without one."""
        while not self.here.poll(SAMPLED):
            self.peak = max(self.peak, peak_of(self.child.pid or 0))
        sent = self.here.recv_bytes()
        try:
            answer: Report | PlanError = pickle.loads(sent)  # from a process of our own
        except Exception as error:
            return Defect(
                f"Levelgate itself failed (its answer cannot be read: {type(error).__name__}): please report it"
            )
        return answer


def ending(code: int | None, peak: int, *, cpu_seconds: int, memory: int) -> str:
    """Return why a process gave no answer, by its exit code and the peak of its memory."""
    died = f"exit code {code}" if code is None or code >= 0 else _signal(-code)
    if code == -signal.SIGXCPU:
        return f"the plan needs more than the {cpu_seconds} s of CPU time that it may use; make smaller pull requests"
    if code == OUT_OF_MEMORY or (code != -signal.SIGKILL and is_near(peak, memory)):
        return f"the plan needs more than the {memory >> 20} MiB of memory that it may use; make smaller pull requests"
    if code == -signal.SIGKILL:  # nothing of Levelgate has sent it by then
        why = "its process was killed (SIGKILL), as happens where the machine has no memory left"
        return f"{why}; make smaller pull requests or give Levelgate more memory"
    return f"Levelgate itself failed (its process ended with {died}): please report it"


def is_near(peak: int, memory: int) -> bool:
    """Return whether so much memory is so close to the limit that a failure is most likely for want of it."""
    return peak >= memory // 8 * 7


def lacks_memory(error: BaseException) -> bool:
    """Return whether a MemoryError is among what led to an exception."""
    return any(isinstance(each, MemoryError) for each in _chain(error, set()))


def peak_of(pid: int | str) -> int:
    """Return the most bytes of address space that a process has had; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak:")), 0)


def _chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """An exception and all that it came from."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for source in (error.__cause__, error.__context__, *parts):
        if source is not None:
            yield from _chain(source, seen)


def _signal(number: int) -> str:
    """The name of a signal, where it has one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _make_picklable(snapshot: SourceSnapshot) -> SourceSnapshot:
    """As it can be sent to another process."""
    return replace(snapshot, files=dict(snapshot.files))


def _run_in_child(sender: Connection, request: PlanRequest, cpu_seconds: int, memory: int) -> None:
    """Send the answer, in the other process, or end with an exit code or a signal that says why there is none.

    Only the soft limit of memory is what the plan may take. At its end the process lifts it to the hard one, and so has memory for that.
    """
    reserve = _room(resource.RLIMIT_AS, max(memory, peak_of("self")) + RESERVE)
    room = (reserve, reserve)
    try:
        limits = (
            (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + RESERVE_SECONDS),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_AS, memory, reserve),
        )
        for limit, soft, hard in limits:
            value = _room(limit, hard)
            resource.setrlimit(limit, (min(soft, value), value))
        asyncio.run(_sent(sender, request, room, memory))
    except BaseException as error:
        _end(sender, error, room, memory)


async def _sent(there: Connection, asked: PlanRequest, room: tuple[int, int], memory: int) -> None:
    """Send the answer. A failure ends the process here, before asyncio has to clean up without memory."""
    try:
        there.send(await compute_plan(asked))
    except BaseException as error:
        _end(there, error, room, memory)


def _end(there: Connection, error: BaseException, room: tuple[int, int], memory: int) -> NoReturn:
    """End the process and say why, without any cleaning up, for which there may be no memory."""
    code = OUT_OF_MEMORY
    try:
        resource.setrlimit(resource.RLIMIT_AS, room)
        is_clear = isinstance(error, PlanError) and not isinstance(error, Defect)
        if not lacks_memory(error) and (is_clear or not is_near(peak_of("self"), memory)):
            code = 1
            failure = error if isinstance(error, PlanError) else _defect_of(error)
            there.send(PlanError(str(failure)))
            code = 0
    finally:
        os._exit(code)


def _room(limit: int, wanted: int) -> int:
    """Return as much as is wanted of a resource, or what the hard limit that is there leaves of it."""
    most = resource.getrlimit(limit)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)
