"""Git processes, in an environment that files and variables of the machine cannot change.

Only this module imports GitPython, whose command runner starts each process. Options are fixed. Values from outside
follow `--` or `--end-of-options`, or are full ref names. Each process has its own session. So a timeout ends all child
processes of Git, and no child process can prompt on a terminal. During a command, `Git` calls the function `tick`. An
exception from `tick` ends the process.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from shutil import which
from typing import IO, Any

from gitops.errors import SourceError, Stopped
from renderer.frozen import dataclass

_INHERITED = frozenset({"GIT_EXEC_PATH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO"})
_FOREIGN_PREFIXES = ("GIT_", "SSH_ASKPASS", "GCM_")
_TICK_SECONDS = 0.5
_CHUNK_BYTES = 1 << 20

# These variables deny all access: no prompt, no configuration of system or user, no transport. `Remote` then permits
# the one transport and the credentials that its target needs.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "false",
}

# Findings of fsck about file names that harm only a checkout. Levelgate makes no checkout, and the module `tree` checks
# every name itself. Without this list, one bad file name would stop the whole source.
_HARMLESS_WITHOUT_CHECKOUT = """
    hasDot hasDotdot hasDotgit fullPathname zeroPaddedFilemode badTimezone missingSpaceBeforeDate mailmapSymlink
    gitmodulesName gitmodulesUrl gitmodulesPath gitmodulesUpdate gitmodulesParse gitmodulesBlob gitmodulesLarge
    gitmodulesMissing gitmodulesSymlink gitattributesSymlink gitattributesLarge gitattributesLineLength
    gitattributesBlob gitattributesMissing gitignoreSymlink
""".split()

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.symlinks": "false",
    "core.fsmonitor": "false",
    "core.askPass": "true",
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "credential.helper": "",
    "protocol.ext.allow": "never",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "30",
    "safe.directory": "*",
    "gc.auto": "0",
    **{f"fetch.fsck.{name}": "ignore" for name in _HARMLESS_WITHOUT_CHECKOUT},
}


class GitError(Exception):
    """Failure of Git. The error never leaves this package, because `stderr` may quote text from a server."""

    def __init__(self, status: int, stderr: str) -> None:
        self.status = status
        self.stderr = stderr
        super().__init__(f"git ended with status {status}")


class GitTimeoutError(GitError):
    """Timeout of a Git process. After `Git.timeout` seconds, `Git` kills the process."""


class OutputTooLargeError(GitError):
    """Excessive output of a Git process. If the output exceeds the limit, `Git` kills the process."""


@dataclass(slots=True)
class Git:
    """Runner of Git for one repository (`git_dir`), or for a directory that may be in a repository (`directory`)."""

    directory: Path
    git_dir: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to the fixed variables."""
    timeout: float = 120.0
    """Time limit of a command, in seconds."""
    tick: Callable[[], None] = lambda: None
    """Function to call about twice a second during a command. An exception from the function kills Git."""
    lock_descriptors: tuple[int, ...] = ()
    """File descriptors of locks, for child processes. A lock lasts until the last process with its descriptor ends."""

    def run(self, *arguments: str, stdin: bytes = b"", limit: int = 1 << 30) -> bytes:
        """Return the standard output of `git ARGUMENTS`, of at most `limit` bytes.

        Raises: GitError if the exit status is not 0; GitTimeoutError; OutputTooLargeError; any exception of `tick`.
        """
        return self.run_with_stderr(*arguments, stdin=stdin, limit=limit)[0]

    def run_with_stderr(self, *arguments: str, stdin: bytes = b"", limit: int = 1 << 30) -> tuple[bytes, str]:
        """Return the standard output and the standard error of Git. Raises: the errors of `run`."""
        with _stdin_file(stdin) as input_file:
            process = self._start(arguments, input_file)
            try:
                output, errors = self._drain(process, limit)
            except BaseException:
                _kill(process)
                raise
            finally:
                for stream in (process.stdout, process.stderr):
                    stream and stream.close()
        stderr = errors.decode("utf-8", "replace")
        if status := process.wait():
            raise GitError(status, stderr)
        return output, stderr

    def run_text(self, *arguments: str) -> str:
        """Return the standard output as text, without the line end."""
        return self.run(*arguments).decode("utf-8", "replace").rstrip("\n")

    def succeeds(self, *arguments: str) -> bool:
        """Return True for exit status 0, and False for exit status 1. Raises: GitError for any other status."""
        try:
            self.run(*arguments)
        except GitError as failure:
            if failure.status != 1:
                raise
            return False
        return True

    def _start(self, arguments: tuple[str, ...], source: IO[bytes] | None) -> subprocess.Popen[bytes]:
        """Start a process with the fixed settings. Raises: SourceError if Git is not installed."""
        if which("git") is None:
            raise _not_installed_error()
        runner = _load_runner()
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        git_dir_option = [f"--git-dir={self.git_dir}"] if self.git_dir else []
        program = [*_env_command_prefix(), "git", "--no-pager"]
        try:
            wrapper = runner.Git(str(self.directory)).execute(
                [*program, *settings, *git_dir_option, *arguments],
                istream=source,
                as_process=True,
                env={**_ENVIRONMENT, **self.environment},
                start_new_session=True,
                pass_fds=self.lock_descriptors,
            )
        except runner.GitCommandNotFound:
            raise _not_installed_error() from None
        process: subprocess.Popen[bytes] = wrapper.proc
        wrapper.proc = None
        return process

    def _drain(self, process: subprocess.Popen[bytes], limit: int) -> tuple[bytes, bytes]:
        """Return standard output and standard error. Read both concurrently, because a full pipe would block Git.

        Raises: GitTimeoutError, OutputTooLargeError.
        """
        deadline = time.monotonic() + self.timeout
        streams: dict[int, bytearray] = {}
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                streams[stream.fileno()] = bytearray()
                selector.register(stream, selectors.EVENT_READ)
            output, errors = streams.values()
            while selector.get_map():
                for key, _ in selector.select(_TICK_SECONDS):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    streams[key.fd] += chunk
                    if not chunk:
                        selector.unregister(key.fileobj)
                if len(output) > limit or len(errors) > _CHUNK_BYTES:
                    raise OutputTooLargeError(-1, "more output than expected")
                if time.monotonic() > deadline:
                    raise GitTimeoutError(-1, f"no end after {self.timeout:g} s")
                self.tick()
        return bytes(output), bytes(errors)


def _load_runner() -> Any:
    """Import `git.cmd` without the rest of GitPython.

    The import of the whole package takes four times as long, and starts two processes to get the version of Git. If
    another module reads a further name of the package, the package imports the rest.
    """
    if "git" not in sys.modules and (spec := find_spec("git")) and (loader := spec.loader):
        package = module_from_spec(spec)

        def whole(name: str) -> Any:
            del vars(package)["__getattr__"]
            loader.exec_module(package)
            return getattr(package, name)

        vars(package)["__getattr__"] = whole
        sys.modules["git"] = package
    return import_module("git.cmd")


def _stdin_file(stdin: bytes) -> AbstractContextManager[IO[bytes] | None]:
    """Return a file from which Git reads `stdin`, or a null context if `stdin` is empty.

    With a pipe instead of a file, Git and Levelgate could wait for each other.
    """
    if not stdin:
        return nullcontext()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller's `with`
    file.write(stdin)
    file.seek(0)
    return file


def _not_installed_error() -> SourceError:
    return SourceError("git", "cannot be started", advice="install Git 2.34 or newer and put it on the PATH")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group, because Git starts ssh and remote helpers as child processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _env_command_prefix() -> list[str]:
    """Return the command prefix that unsets Git's variables from the caller, such as a hook's GIT_DIR."""
    foreign = [
        name
        for name in os.environ
        if name.startswith(_FOREIGN_PREFIXES) and name not in _INHERITED and name not in _ENVIRONMENT
    ]
    return ["env", *(word for name in sorted(foreign) for word in ("-u", name))] if foreign else []


def make_stop_tick(has_ended: Callable[[], bool]) -> Callable[[], None]:
    """Return a tick that raises Stopped as soon as `has_ended` returns True."""

    def tick() -> None:
        if has_ended():
            raise Stopped("Git", "the process is stopping")

    return tick


@contextmanager
def stop_tick_on_exit() -> Iterator[Callable[[], None]]:
    """Yield a tick that raises Stopped after the end of the block.

    After a task leaves the block, a thread of the task may still run Git. If the thread uses the tick, the tick kills
    that Git process.
    """
    exited = threading.Event()
    try:
        yield make_stop_tick(exited.is_set)
    finally:
        exited.set()
