"""`levelgate init`: what it writes works as it stands, and nothing is ever overwritten."""

from __future__ import annotations

import shlex
from pathlib import Path

import jsonschema_rs
import orjson
import pytest
import yaml

from gitops.cli import invoke
from tests.support.git.repository import WorkTree


def test_what_it_writes_renders_without_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    platform = tmp_path / "platform"
    assert invoke(["init", str(platform)]) == 0
    assert "Next: cd" in capsys.readouterr().out
    assert invoke(["render", str(platform), "-o", "json"]) == 0
    rendered = orjson.loads(capsys.readouterr().out)
    assert rendered["problems"] == []
    assert [one["instance"]["name"] for one in rendered["instances"]] == ["docs", "hello"]
    levels = [[node["id"] for node in level] for level in rendered["instances"][0]["levels"]]
    assert levels == [["config"], ["deployment"], ["service"]]


def test_each_file_fits_the_schema_that_it_names_and_generate_writes(tmp_path: Path) -> None:
    assert invoke(["init", str(tmp_path)]) == 0
    files = sorted(path for path in tmp_path.rglob("*.yaml") if ".github" not in path.parts)
    assert [path.parent.name for path in files] == ["apps", "apps", "definitions", "rules", "rules"]
    for file in files:
        first, _, text = file.read_text().partition("\n")
        schema = file.parent / first.removeprefix("# yaml-language-server: $schema=")
        jsonschema_rs.validator_for(schema.read_text()).validate(yaml.safe_load(text))
    before = {path: path.read_bytes() for path in (tmp_path / ".schemas").rglob("*.json")}
    assert invoke(["generate", "schema", str(tmp_path), "--output-dir", str(tmp_path / ".schemas")]) == 0
    assert {path: path.read_bytes() for path in (tmp_path / ".schemas").rglob("*.json")} == before


def test_lint_finds_nothing_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invoke(["init", str(tmp_path)])
    assert invoke(["lint", "--strict", str(tmp_path)]) == 0


def test_its_workflow_runs_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a branch that says another image: the plan that the summary of the run gets."""
    invoke(["init", str(tmp_path)])
    work = WorkTree.create(tmp_path)
    work.git("update-ref", "refs/remotes/origin/main", work.commit())
    hello = tmp_path / "apps" / "hello.yaml"
    hello.write_text(hello.read_text().replace("1.0.0", "1.1.0"))
    work.commit()
    monkeypatch.chdir(tmp_path)
    steps = yaml.safe_load((tmp_path / ".github/workflows/levelgate.yaml").read_text())["jobs"]["check"]["steps"]
    commands = [step["run"].replace("$GITHUB_BASE_REF", "main").partition(" >> ")[0] for step in steps if "run" in step]
    capsys.readouterr()
    assert [invoke(shlex.split(command)[1:]) for command in commands] == [0, 0]
    assert "### Levelgate plan: 2 update" in capsys.readouterr().out


def test_it_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "apps" / "hello.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert invoke(["init", str(tmp_path)]) == 1
    assert f"the command would overwrite {mine}; name another directory" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert invoke(["init", str(tmp_path / "file" / "platform")]) == 1
    err = capsys.readouterr().err
    assert str(tmp_path / "file" / "platform") in err
    assert "Traceback" not in err
