"""The commands of the README and of CONTRIBUTING.md, typed as they stand from a copy of this repository."""

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
    clone = tmp_path / "clone"
    clone.mkdir()
    shutil.copytree(ROOT / "sample-repo", clone / "sample-repo")
    type_page("README.md", tmp_path, clone)


def test_the_first_hour_of_a_contributor_works_as_it_is_typed(tmp_path: Path) -> None:
    """As the tour, in a clone. `make` only prints what it would run: the page has the single commands too."""
    clone = tmp_path / "clone"
    untracked = (".git", ".venv", ".cluster", ".hypothesis", "*_cache", "__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*untracked))
    (clone / ".venv").symlink_to(sys.prefix)
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "All")):
        subprocess.run(("git", *words), cwd=clone, env=GIT_ENVIRONMENT, check=True)
    type_page("CONTRIBUTING.md", tmp_path, clone, MAKEFLAGS="n")


def type_page(page: str, tmp_path: Path, directory: Path, **variables: str) -> None:
    """Type all commands of a page in one shell that starts in `directory`, with `tmp_path` in the place of `/tmp`."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **{name: value for name, value in GIT_ENVIRONMENT.items() if not name.startswith("PYTEST_")},
        "HOME": str(home),
        "XDG_STATE_HOME": "",
        "XDG_CACHE_HOME": "",
        "NO_COLOR": "1",
        "KUBECONFIG": "",
        "LEVELGATE_LISTEN": "off",  # another daemon of the machine may have the port
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **variables,
    }
    with subprocess.Popen(
        ("bash", "-m"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env=environment,
    ) as shell:
        try:
            for command, expected in steps(page):
                status, printed = typed(shell, command.replace("/tmp/", f"{tmp_path}/"))
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
