"""Commands that wait for a Git server which never answers end at once when a person has enough of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

from gitops import cli
from tests.support.git.forge import TOKEN, FakeForge, Pull

ROOT = Path(__file__).parents[2]
AT_ONCE = 120
"""In seconds, on a slow and busy machine; Git would be waited for five minutes."""
CALLED = "import sys; from gitops.cli import invoke; sys.exit(invoke(sys.argv[1:]))"
REVIEW = ("review", "--token-file", "token", "--forge", "github", "--project", "acme/platform")


@pytest.mark.parametrize(
    "words",
    [("lint",), ("plan", "--base", "main"), (*REVIEW, "--once"), (*REVIEW, "--once", "--pr", "1"), REVIEW],
    ids=" ".join,
)
def test_nobody_waits_for_a_git_server_that_never_answers(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "token").write_text(TOKEN)
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }

    async def ended() -> int:
        asked = asyncio.Event()

        async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await reader.read()
            writer.close()

        forge = FakeForge("github")
        forge.pulls[1] = Pull(1, "1" * 40)
        async with await asyncio.start_server(never, "127.0.0.1", 0) as git, forge.serving():
            url = f"http://127.0.0.1:{git.sockets[0].getsockname()[1]}/platform"
            more = ("--api", forge.url) if words[0] == "review" else ()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CALLED, words[0], url, *words[1:], *more, cwd=tmp_path, env=environment
            )
            try:
                await asyncio.wait_for(asked.wait(), 60)
                process.send_signal(signal.SIGINT)
                return await asyncio.wait_for(process.wait(), AT_ONCE)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    assert asyncio.run(ended()) == (0 if words == REVIEW else 130)


def test_who_interrupts_it_while_its_classes_are_made_sees_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command loads its own modules while Git is asked already."""

    class Interrupted:
        def __set_name__(self, owner: object, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli.group, "main", lambda *_, **__: type("Loaded", (), {"field": Interrupted()}))
    assert cli.invoke([]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize(("before", "code"), [("", 130), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0)])
def test_who_interrupts_it_while_it_is_loaded_sees_no_traceback(before: str, code: int) -> None:
    """As the command that is installed, at the first thing that it imports; a job in the background, which ignores that, goes on."""
    module, _, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
        "levelgate"
    ].partition(":")
    begin = f"""
import os, signal, sys
{before}
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from {module} import {function}
sys.argv = ["levelgate", "version"]
{function}()
"""
    command = [sys.executable, "-c", begin]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert bool(done.stdout) is not bool(code)
