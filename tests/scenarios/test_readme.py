"""The tour of the README, typed as it stands from a copy of this repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.git.server import GIT_ENVIRONMENT

ROOT = Path(__file__).parents[2]
LEFT_OUT: Final = "[...]"
VARIABLE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:T[\d:]+Z| \d\d:\d\d)|\b\d\d:\d\d\b|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\b[0-9a-f]{7}\b"
)
"""Times, days and short ids of commits: they differ from run to run."""
END: Final = "end of command"


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page with the lines of output that the page shows below."""
    for block in re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = step.splitlines()
            yield command, [line for line in output if line and line != LEFT_OUT]


def normalised(line: str) -> str:
    return VARIABLE.sub("…", line).rstrip()


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
