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
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Timer

from gitops.cli import invoke

_TIME_LIMIT = 600.0


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    directory: Path | None = None,
    before: Callable[..., None] | None = None,
    given: Sequence[object] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; its exit code is negative where a signal ended it. `before`, a function of a module, is called in the process
    first, with what is `given`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out, err = Path(scratch) / "out", Path(scratch) / "err"
        process = _forked(arguments, environment, directory, (str(out), str(err)), before, given)
        process.join(_TIME_LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), _TIME_LIMIT, out.read_bytes(), err.read_bytes())
        code = process.exitcode
        process.close()
        return subprocess.CompletedProcess(tuple(arguments), code, out.read_text(), err.read_text())


LONGEST = 900.0


class RunningCommand:
    """A command that goes on; `stdout` is what it prints, errors among it. At the end of a `with` it is dead, and after `LONGEST` seconds: who waits
    for a line that does not come reads its end.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], *, directory: Path | None = None
    ) -> None:
        reader, writer = os.pipe()
        self.stdout = os.fdopen(reader)
        with Connection(writer, readable=False) as both:
            self._process = _forked(arguments, environment, directory, both)
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self._limit = Timer(LONGEST, self.kill)
        self._limit.start()

    @property
    def returncode(self) -> int | None:
        """Negative where a signal ended it; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float) -> int:
        """Its exit code; after so many seconds it is killed."""
        self.communicate(timeout)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float) -> str:
        """All that it has still to say, once it has ended; after so many seconds it is killed."""
        limit = Timer(timeout, self.kill)
        limit.start()
        said = "" if self.stdout.closed else self.stdout.read()
        self._process.join()
        limit.cancel()
        return said

    def __enter__(self) -> RunningCommand:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._limit.cancel()
        code = self.returncode
        self.kill()
        self._process.join()
        if error and code is not None and not self.stdout.closed:
            error.add_note(
                f"the command had ended by itself with {code}; what it said and nobody read:\n{self.stdout.read()}"
            )
        self.stdout.close()


def _forked(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: Path | None,
    output: tuple[str, str] | Connection,
    before: Callable[..., None] | None = None,
    given: Sequence[object] = (),
) -> ForkServerProcess:
    place = str(directory or Path.cwd())
    process = _context().Process(
        target=_main, args=(tuple(arguments), dict(environment), place, output, before, tuple(given))
    )
    process.start()
    return process


def _context() -> ForkServerContext:
    """What the commands import is imported before the first one begins."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tests.support.command_preload"])
    return context


def _main(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    output: tuple[str, str] | Connection,
    before: Callable[..., None] | None,
    given: Sequence[object],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    if isinstance(output, tuple):
        files = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in output]
    else:
        files = [os.dup(output.fileno()), os.dup(output.fileno())]
        output.close()
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    if before:
        before(*given)
    sys.exit(invoke(list(arguments)))
