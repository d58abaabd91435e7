"""A terminal of one person, with a home directory of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import command as process


@dataclass(frozen=True)
class Terminal:
    """A terminal: a home directory, and the directory in which commands are typed."""

    home: Path
    directory: Path

    def levelgate(self, *arguments: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its exit code must be *check*."""
        done = process.run(arguments, self.environment, directory=self.directory)
        assert check is None or done.returncode == check, done.stdout + done.stderr
        return done

    def start(self, *arguments: str) -> process.RunningCommand:
        """Start a command that goes on."""
        return process.RunningCommand(arguments, self.environment, directory=self.directory)

    @property
    def environment(self) -> dict[str, str]:
        mine = {"HOME": str(self.home), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", "NO_COLOR": "1", "KUBECONFIG": ""}
        return {**os.environ, **mine}
