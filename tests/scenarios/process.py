"""`levelgate` as a process of its own that does not begin by importing everything: forked from one that has.

It is a real process, with its own environment, exit code and end by a signal; what it saves is most of a second of each command.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

from gitops.cli import run as command

_TIME_LIMIT = 120.0


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    before: Callable[..., None] | None = None,
    given: Sequence[object] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; its exit code is negative where a signal ended it. `before`, a function of a module, is called in the process
    first, with what is `given`.
    """
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory) / "out", Path(directory) / "err"
        process = _context().Process(
            target=_main, args=(tuple(arguments), dict(environment), str(Path.cwd()), str(out), str(err), before, given)
        )
        process.start()
        process.join(_TIME_LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), _TIME_LIMIT, out.read_bytes(), err.read_bytes())
        code = process.exitcode
        process.close()
        return subprocess.CompletedProcess(tuple(arguments), code, out.read_text(), err.read_text())


def _context() -> ForkServerContext:
    """What the commands import is imported before the first one begins."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tests.scenarios.warm"])
    return context


def _main(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    out: str,
    err: str,
    before: Callable[..., None] | None,
    given: Sequence[object],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    if before:
        before(*given)
    sys.exit(command(list(arguments)))
