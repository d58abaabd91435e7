"""The tour of the README, typed as it stands from a copy of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.documentation import ROOT, normalised, steps
from tests.support.git.repository import GIT_ENVIRONMENT

END: Final = "end of command"


def test_the_tour_of_the_readme_works_as_it_is_typed(tmp_path: Path) -> None:
    """Every command succeeds, and every line that the README shows is among what the command prints."""
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    clone.mkdir()
    shutil.copytree(ROOT / "sample-repo", clone / "sample-repo")
    environment = {
        **GIT_ENVIRONMENT,
        "HOME": str(home),
        "XDG_STATE_HOME": "",
        "XDG_CACHE_HOME": "",
        "NO_COLOR": "1",
        "KUBECONFIG": "",
        "LEVELGATE_LISTEN": "off",  # another daemon of the machine may have the port
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with subprocess.Popen(
        ("bash", "-m"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=clone,
        env=environment,
    ) as shell:
        try:
            for command, expected in steps("README.md"):
                status, printed = typed(shell, command.replace("/tmp/platform", f"{tmp_path}/platform"))
                assert status == 0, [command, *printed]
                seen = {normalised(text) for text in printed}
                assert [text for text in expected if normalised(text) not in seen] == [], [command, *printed]
        finally:
            typed(shell, "kill %1; wait")


def typed(shell: subprocess.Popen[str], command: str) -> tuple[int, list[str]]:
    """Type a command into the shell; return its exit code and what it prints."""
    assert shell.stdin
    assert shell.stdout
    print(f"{command}\nstatus=$?; echo; echo {END} $status", file=shell.stdin, flush=True)
    printed: list[str] = []
    for line in shell.stdout:
        if line.startswith(END):
            return int(line.removeprefix(END)), printed
        printed.append(line.rstrip("\n"))
    raise AssertionError(["the shell has ended", *printed])
