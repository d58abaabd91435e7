"""A server process that never outlives the process that started it, however that one ends.

Each server has a guard: a shell that waits for the end of a pipe which only we hold open, and then kills the server.
The guard is a process of its own, so that it also ends a server that is stopped (SIGSTOP) or that we did not build.
Both are in sessions of their own: Ctrl-C in the terminal reaches only us, who stop the servers in order.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import TypeAlias, cast

Flags: TypeAlias = dict[str, str | Path]

STOP_WITHIN = 4.0
"""Seconds after which a server that is to end is killed: an API server with an open watch would take a minute."""

_GARBAGE = "GOGC=400"  # Memory is there, and looking for garbage was an eighth of what the servers do.

# The server waits for its guard: if we die in between, it reads end-of-file and never starts.
_LAUNCH = 'read -r go && exec "$@"'
_GUARD = 'read -r end; kill -KILL "$1"'

_lifelines: set[FileIO] = set()


def _drop_lifelines() -> None:
    """A forked child (a worker of a process pool) must not keep servers alive after our end."""
    for lifeline in _lifelines:
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)


class ServerProcess:
    """One running server, its output appended to `log`."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.name = log.stem
        self._log = log
        self._server, start = _shell(_LAUNCH, command, log)
        self._guard, self._lifeline = _shell(_GUARD, [str(self._server.pid)], Path(os.devnull))
        _lifelines.add(self._lifeline)
        start.write(b"\n")
        start.close()

    @property
    def pid(self) -> int:
        return self._server.pid

    def check(self) -> None:
        """Raises RuntimeError with the end of the log if the server has ended."""
        code = self._server.poll()
        if code is not None:
            lines = self._log.read_text(errors="replace").splitlines()
            raise RuntimeError("\n".join([f"{self.name} ended with code {code}:", *lines[-15:]]))

    def pause(self) -> None:
        """Stops it in its tracks; on return none of its threads runs (but on macOS may soon not)."""
        self._server.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._server.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Asks the server to end; returns at once."""
        self._server.terminate()
        self.resume()  # A stopped process does not see SIGTERM.

    def end(self, *, within: float) -> None:
        """Waits for the server to end by itself, kills it after `within` seconds."""
        try:
            self._server.wait(within)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._guard.kill()  # Before its pipe is closed: the process id may already be someone else's.
        self._guard.wait()
        self._lifeline.close()
        _lifelines.discard(self._lifeline)


def start_server(command: Sequence[str | Path], flags: Flags, log: Path) -> ServerProcess:
    """A server of the control plane with these flags."""
    return ServerProcess(["env", _GARBAGE, *command, *(f"--{key}={value}" for key, value in flags.items())], log)


def _shell(script: str, arguments: Sequence[str | Path], log: Path) -> tuple[subprocess.Popen[bytes], FileIO]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return process, cast(FileIO, process.stdin)
