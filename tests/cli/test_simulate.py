"""`levelgate simulate`: a timeline as text, JSON and picture, and what other rules would have done to past commits (docs/simulate.md)."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gitops.cli import EXIT_INTERRUPTED, EXIT_USAGE, invoke
from gitops.simulate.engine import Simulation
from tests.support.git.repository import Repository
from tests.support.simulation import AT, FREEZE, files
from tests.support.windows.documents import manifest


@pytest.fixture
def platform(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Its history: the fleet on a Monday, then a change on Friday morning, and one on a Wednesday of the next month."""
    for day, image in (("11-16T09:00", "one"), ("11-20T10:50", "two"), ("12-16T10:00", "three")):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-{day}:00+00:00")
        repository.commit(files(image), message=f"move to {image}")
    return repository


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["simulate", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code in (0, EXIT_INTERRUPTED) else captured.err


def test_the_timeline_tells_what_moves_and_what_waits(capsys: pytest.CaptureFixture[str], platform: Repository) -> None:
    (platform.path / "freeze.json").write_bytes(manifest("freeze", **FREEZE))
    text = printed(capsys, str(platform.path), "--base", "main~1", *AT)
    lines = text.splitlines()
    assert lines[0].endswith("arrives Fri 2026-11-20 10:50 UTC; assumed ready=4m")
    assert "working tree of" in lines[0]
    assert "11:00:00  freeze                   window begins (Deny)" in lines
    moved = [line.split()[0] for line in lines if "app updated" in line]
    assert moved == ["10:50:00", "10:54:00", "10:58:00", "10:58:00"]
    assert lines[-2:] == [
        "4 instances: 4 settled",
        "Ended Fri 2026-11-20 11:02 UTC, after 12m: all matches Git.",
    ]


def test_json_has_every_span_and_the_same_input_gives_the_same_bytes(
    capsys: pytest.CaptureFixture[str], platform: Repository
) -> None:
    arguments = (str(platform.path), "--base", "main~1", "--head", "main", *AT, "--seed", "7", "-o", "json")
    first = printed(capsys, *arguments)
    assert printed(capsys, *arguments) == first
    found = json.loads(first)
    assert (found["from"], found["to"]) == ("2026-11-20T10:50:00Z", "2026-11-20T11:02:00Z")
    assert (found["summary"]["settled"], found["seed"]) == (4, 7)
    assert found["commits"][0]["settled"] == "2026-11-20T11:02:00Z"
    assert found["instances"][1]["spans"][0] == {
        "by": ["default/a"],
        "from": "2026-11-20T10:50:00Z",
        "message": "2nd of 4, exponential 2",
        "reason": "PaceReached",
        "state": "waiting",
        "to": "2026-11-20T10:54:00Z",
    }


def test_the_picture_is_svg(capsys: pytest.CaptureFixture[str], platform: Repository) -> None:
    root = ET.fromstring(printed(capsys, str(platform.path), "--base", "main~1", "--head", "main", *AT, "-o", "svg"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_other_rules_are_tried_on_the_commits_of_the_past(
    capsys: pytest.CaptureFixture[str], platform: Repository, tmp_path: Path
) -> None:
    """A freeze on weekends would have held the commit of Friday until Monday, and not the one of Wednesday, which has two weeks of its own."""
    rules = tmp_path / "stricter.json"
    rules.write_bytes(manifest("freeze", **{**FREEZE, "schedule": {"cron": "30 10 * * 5"}}))
    arguments = (str(platform.path), "--base", "main~2", "--policy", str(rules), "--assume", "ready=4m", "--utc")
    rows = [line.split("   ") for line in printed(capsys, *arguments).splitlines() if line.endswith(("two", "three"))]
    assert [[cell.strip() for cell in row if cell][1:] for row in rows] == [
        ["Fri 2026-11-20 10:50", "Fri 2026-11-20 11:02", "Sun 2026-11-22 23:42", "2d12h40m", "2d12h40m", "move to two"],
        ["Wed 2026-12-16 10:00", "Wed 2026-12-16 10:12", "Wed 2026-12-16 10:12", "0s", "0s", "move to three"],
    ]
    compared = json.loads(printed(capsys, *arguments, "-o", "json"))["comparison"]
    assert [one["delaySeconds"] for one in compared] == [218400, 0]


def test_rules_that_let_more_through_settle_a_commit_sooner_or_alone(
    capsys: pytest.CaptureFixture[str], platform: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A freeze of two hours keeps one commit, one of years the next."""

    def frozen(begins: str, ends: str) -> bytes:
        return manifest("freeze", kind="Deny", timeZone="UTC", schedule={"once": [{"start": begins, "end": ends}]})

    for at, image, ends in (("10:50", "four", "2026-11-27T13:00"), ("14:00", "five", "2036-01-01T00:00")):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-11-27T{at}:00+00:00")
        said = {"freeze.json": frozen("2026-11-27T10:00", ends).decode()}
        platform.commit({**files(image), **said}, message=f"move to {image}")
    rules = tmp_path / "past.json"
    rules.write_bytes(frozen("2020-01-01T00:00", "2020-01-02T00:00"))
    place = str(platform.path)
    lines = printed(
        capsys, place, "--base", "main~2", "--policy", str(rules), "--assume", "ready=4m", "--utc"
    ).splitlines()
    assert "-2h10m" in next(line for line in lines if line.endswith("four")).split()
    assert lines[-2:] == [
        "1 of 2 commits would settle at another time, at most 0s later; 0 more overtaken.",
        "1 would settle only under this policy.",
    ]


def test_what_is_wrong_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str], platform: Repository, tmp_path: Path
) -> None:
    rules = tmp_path / "bad.yaml"
    rules.write_text(
        "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: w}\nspec: {kind: No}\n"
    )
    place = str(platform.path)
    assert "bad.yaml:4" in printed(capsys, place, "--base", "main~2", "--policy", str(rules), code=1)
    rules.write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
    assert "contains no PropagationWindow" in printed(capsys, place, "--base", "main~2", "--policy", str(rules), code=1)
    assert "no branch, tag or commit" in printed(capsys, place, "--base", "nowhere", code=1)
    assert "write ready=2m" in printed(capsys, place, "--base", "main", "--assume", "soon", code=EXIT_USAGE)
    assert "is not after" in printed(
        capsys, place, "--base", "main", *AT, "--until", "2026-11-19T10:00", code=EXIT_USAGE
    )
    assert "is not after" in printed(
        capsys, place, "--base", "main", *AT, "--until", "2026-11-20T10:50", code=EXIT_USAGE
    )
    assert "0<=x<=" in printed(capsys, place, "--base", "main", "--seed", str(2**64), code=EXIT_USAGE)
    assert "longer than 36525d" in printed(capsys, place, "--base", "main", "--assume", "ready=99999d", code=EXIT_USAGE)
    assert "no commit between" in printed(capsys, place, "--base", "main", "--policy", str(rules), code=1)


def test_a_mistake_of_the_head_is_told_and_the_rest_simulated(
    capsys: pytest.CaptureFixture[str], platform: Repository
) -> None:
    (platform.path / "broken.yaml").write_text("apiVersion: v1\nkind: [\n")
    assert invoke(["simulate", str(platform.path), "--base", "main", *AT]) == 1
    captured = capsys.readouterr()
    assert "broken.yaml:" in captured.err
    assert "Ended Fri 2026-11-20" in captured.out


def test_what_was_simulated_so_far_is_shown_when_somebody_breaks_it_off(
    capsys: pytest.CaptureFixture[str], platform: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = Simulation._until

    async def broken_off(self: Simulation, *arguments: object) -> str:
        await until(self, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulation, "_until", broken_off)
    text = printed(capsys, str(platform.path), "--base", "main~1", "--head", "main", *AT, code=EXIT_INTERRUPTED)
    assert text.splitlines()[-1].endswith("interrupted.")


def test_a_broken_commit_in_the_middle_of_a_history_keeps_what_was(
    capsys: pytest.CaptureFixture[str], platform: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One instance cannot be read for a day: it stays, and the commit that mends it finds it as it was."""
    for day, text in ((26, "kind: [\n"), (27, files("three")["b.json"])):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-12-{day}T10:00:00+00:00")
        platform.commit({"b.json": text}, message=f"day {day}")
    rules = tmp_path / "freeze.json"
    rules.write_bytes(manifest("freeze", **FREEZE))
    arguments = (str(platform.path), "--base", "main~3", "--head", "main", "--policy", str(rules), "-o", "json")
    found = json.loads(printed(capsys, *arguments, "--assume", "ready=4m"))
    assert [one["subject"] for one in found["commits"]] == ["move to three", "day 26", "day 27"]
    assert {one["name"]: one["spans"][-1]["state"] for one in found["instances"]} == dict.fromkeys("abcd", "settled")
    deleted = [one for one in found["events"] if "deleted" in one["message"]]
    assert (deleted, "settled" in found["commits"][2]) == ([], True)
