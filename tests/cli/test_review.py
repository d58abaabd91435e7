"""`levelgate review` as it is typed, and the examples of how CI calls it (docs/review.md). What it does:
tests/gitops/pull_requests/test_reviewer.py.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from gitops.cli import EXIT_USAGE, invoke
from gitops.cli.review import command
from tests.support.fleet_documents import placement
from tests.support.git.forge import TOKEN, FakeForge, Pull
from tests.support.git.repository import Repository

EXAMPLES = Path(__file__).parents[2] / "deploy" / "review"


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    place = "https://git.example.com/acme/platform"
    assert invoke(["review", place, "--token-file", str(token), "--pr", "3"]) == EXIT_USAGE
    assert "--pr requires --once" in capsys.readouterr().err
    for more, said in (
        (["--listen", ":0"], "Levelgate rejects unsigned webhooks"),
        (["--hook-secret-file", str(token)], "Levelgate rejects unsigned webhooks"),
        (["--listen", ":0", "--hook-secret-file", str(token), "--once"], "cannot be combined with --once"),
        (["--listen", "nowhere", "--hook-secret-file", str(token)], "is not an address"),
    ):
        assert invoke(["review", place, "--token-file", str(token), *more]) == EXIT_USAGE
        assert said in capsys.readouterr().err
    assert invoke(["review", place, "--token-file", str(token), "--once"]) == 1
    assert "unknown forge; name github, gitlab or gitea (--forge" in capsys.readouterr().err


def test_one_command_plans_one_pull_request(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As CI calls it: a forge by HTTP, a process for the plan, and what it exits with, also where the job is run again. The third is left alone, and
    no token is told.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forge, token = FakeForge("github"), tmp_path / "token"
    token.write_text(TOKEN)
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: prod}\n"
    repository.commit({"a.yaml": config % "a"})
    for number, text in ((1, config % "b"), (2, "kind: [\n"), (3, config % "c")):
        repository.git("checkout", "--quiet", "--detach", "main")
        head = repository.commit({"b.yaml": text})
        repository.git("update-ref", f"refs/pull/{number}/head", head)
        forge.pulls[number] = Pull(number, head)

    async def called() -> list[int]:
        async with forge.serving():
            options = ["--forge", "github", "--api", forge.url, "--project", "acme/platform", "--source", "platform"]
            line = ["review", str(repository.path), "--token-file", str(token), *options, "--once", "--pr"]
            return [await asyncio.to_thread(invoke, [*line, number]) for number in ("1", "2", "2", "1")]

    assert asyncio.run(called()) == [0, 1, 1, 0]
    said = capsys.readouterr()
    assert [line[:3] for line in said.out.splitlines()] == ["#1 ", "#2 ", "#2 "]
    assert said.out.endswith(f"#2  {forge.pulls[2].head[:7]}  failure, as in its comment\n")
    assert "1 create" in forge.bodies(1)[0]
    assert ("1 problem" in forge.bodies(2)[0], forge.bodies(3)) == (True, [])
    assert [one["state"] for one in forge.states] == ["success", "failure"]
    assert TOKEN not in said.out + said.err


def test_with_a_fleet_the_comment_says_that_no_placement_is_in_the_plan(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a placement changes, which changes nothing in Git but that."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forge, token, config = FakeForge("github"), tmp_path / "token", tmp_path / "levelgate.yaml"
    token.write_text(TOKEN)
    header = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nfleet: {source: platform}\n"
    config.write_text(f"{header}sources:\n- {{name: platform, url: {repository.path}}}\n")
    repository.commit({"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: prod}\n"})
    repository.git("checkout", "--quiet", "--detach", "main")
    head = repository.commit({"all.json": placement("all")})
    repository.git("update-ref", "refs/pull/1/head", head)
    forge.pulls[1] = Pull(1, head)

    async def called() -> int:
        async with forge.serving():
            options = ["--forge", "github", "--api", forge.url, "--project", "acme/platform", "--source", "platform"]
            line = ["review", str(repository.path), "--token-file", str(token), *options, "--config", str(config)]
            return await asyncio.to_thread(invoke, [*line, "--once", "--pr", "1"])

    assert asyncio.run(called()) == 0
    assert "before placements, overrides and namespace maps" in forge.bodies(1)[0]


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.stem)
def test_the_examples_use_options_that_there_are(example: Path) -> None:
    """And none of them checks out or runs what a pull request holds."""
    text = example.read_text()
    (called,) = [
        line for line in text.splitlines() if "levelgate review " in line and "#" not in line.split("levelgate")[0]
    ]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(--[a-z-]+)", called)) <= known
    assert "uses: actions/checkout" not in text
