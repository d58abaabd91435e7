"""Plans of untrusted commits, each in a separate process with limited time and memory.

The author of a pull request decides the cost of the plan. Thousands of instances may each stay below every limit of the
renderer. The limits of the separate process stop a costly plan before the plan delays other pull requests.
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
"""Limit of wall-clock time in seconds. A limit of CPU time does not stop a process that waits."""
MAX_MEMORY_BYTES: Final = 4 << 30
"""Bytes of address space that a plan may use."""
OUT_OF_MEMORY: Final = 77
"""Exit code of a process that has too little memory to send a message."""
RESERVE_BYTES: Final = 64 << 20
"""Bytes of address space beyond the limit, for reporting a failure."""
RESERVE_SECONDS: Final = 5
"""Seconds of CPU time between SIGXCPU, by which the parent recognizes a timeout, and SIGKILL."""
SAMPLE_SECONDS: Final = 0.1
"""Seconds between two samples of the process memory. When a process ends, the kernel drops the peak."""


class PlanError(GitopsError):
    """Failure of a plan, with the reason in its text."""


class Defect(PlanError):
    """Failure of a plan because of a fault of Levelgate or a lack of memory."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Request to plan `head` against `base`."""

    source: str
    target: SourceTarget
    base: SourceSnapshot
    head: SourceSnapshot
    clock: Clock
    version: str
    cluster_name: str
    fleet_source: str = ""
    """Name of the source that declares clusters, or an empty string if there is no fleet."""


async def compute_plan(request: PlanRequest) -> Report:
    """Plan in this process. Raises: PlanError if the plan fails, Defect if Levelgate is at fault or lacks memory."""
    try:
        base = source_config.load_catalog(request.base, source=request.source)
        head = state_of(request.source, request.target, request.head, base)
        if request.fleet_source:
            base = strip_placement(base, request.fleet_source)
            head = replace(head, catalog=strip_placement(head.catalog, request.fleet_source))
        facts = {
            name: ExternalFact(None, "a review requests no external facts")
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
    except Exception as error:  # a fault that a commit triggers fails only the plan of that commit
        if lacks_memory(error):
            raise Defect("the plan needs more memory than it may use; make smaller pull requests") from error
        raise _defect_of(error) from error


def _defect_of(error: BaseException) -> Defect:
    """Return the failure for an unexpected error, without the text of `error`, which may quote a secret."""
    return Defect(f"Levelgate itself failed ({type(error).__name__}); report the fault with the log")


async def compute_plan_isolated(
    request: PlanRequest,
    *,
    cpu_seconds: int = MAX_CPU_SECONDS,
    seconds: float = TIMEOUT_SECONDS,
    memory: int = MAX_MEMORY_BYTES,
) -> Report:
    """Plan in a separate process.

    Args:
        seconds: limit of wall-clock time.
        memory: limit of the address space in bytes.

    Raises: PlanError if the plan fails or exceeds a limit.
    """
    sendable = replace(request, base=_make_picklable(request.base), head=_make_picklable(request.head))
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_run_in_child, args=(sender, sendable, cpu_seconds, memory), daemon=True)
    watched = WatchedProcess(child, receiver)
    try:
        try:
            await asyncio.to_thread(child.start)
        except Exception as error:  # no memory, no free process, or a request that cannot be pickled
            message = f"the process of the plan cannot be started ({type(error).__name__}: {error})"
            raise PlanError(f"{message}; if the machine has memory and processes left, report the fault") from error
        sender.close()
        async with asyncio.timeout(seconds):
            answer = await asyncio.to_thread(watched.receive)
    except TimeoutError:
        raise PlanError(f"the plan takes more than {seconds:g} s; make smaller pull requests") from None
    except (EOFError, OSError):
        await asyncio.to_thread(child.join)  # before the kill below: the child's own exit code is the reason
        raise PlanError(describe_exit(child.exitcode, watched.peak, cpu_seconds=cpu_seconds, memory=memory)) from None
    finally:
        if child.pid:
            child.kill()  # the end of the child also ends the thread that waits for the answer
            child.join()
    if isinstance(answer, PlanError):
        raise answer
    return answer


class WatchedProcess:
    """A planning process, with the highest sample of its address space in bytes."""

    def __init__(self, child: BaseProcess, receiver: Connection) -> None:
        self.child, self.receiver, self.peak = child, receiver, 0

    def receive(self) -> Report | PlanError:
        """Wait for the answer and return it. Raises: EOFError or OSError if the process ends without an answer."""
        while not self.receiver.poll(SAMPLE_SECONDS):
            self.peak = max(self.peak, peak_of(self.child.pid or 0))
        sent = self.receiver.recv_bytes()
        try:
            answer: Report | PlanError = pickle.loads(sent)  # trusted: a child of this process sends these bytes
        except Exception as error:
            return Defect(
                f"Levelgate itself failed (the answer of the process cannot be read: {type(error).__name__}); "
                "report the fault with the log"
            )
        return answer


def describe_exit(code: int | None, peak: int, *, cpu_seconds: int, memory: int) -> str:
    """Return the message about a process that sent no answer, from its exit code and its memory peak in bytes."""
    died = f"exit code {code}" if code is None or code >= 0 else _signal(-code)
    if code == -signal.SIGXCPU:
        return f"the plan needs more than the {cpu_seconds} s of CPU time that it may use; make smaller pull requests"
    if code == OUT_OF_MEMORY or (code != -signal.SIGKILL and is_near_limit(peak, memory)):
        return f"the plan needs more than the {memory >> 20} MiB of memory that it may use; make smaller pull requests"
    if code == -signal.SIGKILL:  # Levelgate's own kill at the timeout happens after this check
        why = "the process of the plan was killed (SIGKILL), probably because the machine has no memory left"
        return f"{why}; make smaller pull requests or give Levelgate more memory"
    return f"Levelgate itself failed (the process of the plan ended with {died}); report the fault with the log"


def is_near_limit(peak: int, memory: int) -> bool:
    """Return whether a memory peak is so close to the limit that the limit most likely caused the failure."""
    return peak >= memory // 8 * 7


def lacks_memory(error: BaseException) -> bool:
    """Return whether an exception, its causes or its parts include a MemoryError."""
    return any(isinstance(each, MemoryError) for each in _chain(error, set()))


def peak_of(pid: int | str) -> int:
    """Return the peak of a process's address space in bytes, or 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak:")), 0)


def _chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yield an exception, its causes and the parts of exception groups, each once."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for source in (error.__cause__, error.__context__, *parts):
        if source is not None:
            yield from _chain(source, seen)


def _signal(number: int) -> str:
    """Return the name of a signal, or its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _make_picklable(snapshot: SourceSnapshot) -> SourceSnapshot:
    """Return the snapshot with its files in a plain dict, because a mapping proxy cannot be pickled."""
    return replace(snapshot, files=dict(snapshot.files))


def _run_in_child(sender: Connection, request: PlanRequest, cpu_seconds: int, memory: int) -> None:
    """Plan in the child process and send the answer. Without an answer, the exit code or signal shows the reason.

    The soft limit of memory applies to the plan. To report a failure, the process raises the soft limit to the hard
    limit.
    """
    reserve = _reduced_to_hard_limit(resource.RLIMIT_AS, max(memory, peak_of("self")) + RESERVE_BYTES)
    reserve_limits = (reserve, reserve)
    try:
        limits = (
            (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + RESERVE_SECONDS),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_AS, memory, reserve),
        )
        for limit, soft, hard in limits:
            value = _reduced_to_hard_limit(limit, hard)
            resource.setrlimit(limit, (min(soft, value), value))
        asyncio.run(_send_answer(sender, request, reserve_limits, memory))
    except BaseException as error:
        _end_process(sender, error, reserve_limits, memory)


async def _send_answer(sender: Connection, request: PlanRequest, reserve_limits: tuple[int, int], memory: int) -> None:
    """Compute the plan and send the answer.

    If either fails, end the process at once, because asyncio cannot clean up without memory.
    """
    try:
        sender.send(await compute_plan(request))
    except BaseException as error:
        _end_process(sender, error, reserve_limits, memory)


def _end_process(sender: Connection, error: BaseException, reserve_limits: tuple[int, int], memory: int) -> NoReturn:
    """End the process with a message or exit code, without cleaning up, because a cleanup may lack memory."""
    code = OUT_OF_MEMORY
    try:
        resource.setrlimit(resource.RLIMIT_AS, reserve_limits)
        is_clear = isinstance(error, PlanError) and not isinstance(error, Defect)
        if not lacks_memory(error) and (is_clear or not is_near_limit(peak_of("self"), memory)):
            code = 1
            failure = error if isinstance(error, PlanError) else _defect_of(error)
            sender.send(PlanError(str(failure)))
            code = 0
    finally:
        os._exit(code)


def _reduced_to_hard_limit(limit: int, wanted: int) -> int:
    """Return the wanted limit of a process resource, but at most the present hard limit."""
    most = resource.getrlimit(limit)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)
