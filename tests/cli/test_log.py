"""The log of `levelgate run --log-format json`: each line is an object that says which source, commit and set it is about, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applier.errors import Denied
from applier.execute.results import Result
from gitops.cli.progress import ProgressPrinter
from renderer.identity import ObjectKey
from tests.support.link_platform import LinkPlatform
from tests.support.platform import commit_id

KEY = ObjectKey("g.test", "Link", "default", "i0")
HOURS = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 1 * * *"}, "duration": "1h"}


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_done_is_told_with_source_and_commit(capsys: pytest.CaptureFixture[str]) -> None:
    with LinkPlatform(names=("i0",)) as fleet:
        progress = ProgressPrinter(fleet.clock, json=True)
        fleet.reconciler.report = progress.print_result
        fleet.push()
        for _ in range(3):
            progress.report_pass(fleet.step())
    told = lines(capsys)
    (made,) = [line for line in told if line.get("object") == "Link.g.test/default/i0"]
    assert (made["source"], made["revision"], made["action"]) == ("platform", commit_id(1), "created")
    (member,) = [line for line in told if line.get("node") == "app" and line["action"] == "created"]
    assert (member["set"], member["object"]) == ("Link.g.test/default/i0", "Deployment.apps/default/i0-app")
    assert all(line["time"].endswith("Z") for line in told)


def test_what_settles_or_is_held_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with LinkPlatform(names=("i0",)) as fleet:
        fleet.push()
        progress = ProgressPrinter(fleet.clock, json=True)
        for _ in range(5):
            progress.report_pass(fleet.step())
            fleet.ready(*fleet.at("one"))
        fleet.push("two", night=HOURS)
        progress.report_pass(fleet.step())
    told = lines(capsys)
    settled = next(line for line in told if line.get("action") == "settled")
    assert (settled["source"], settled["revision"], settled["reason"]) == ("platform", commit_id(1), "Settled")
    assert settled["set"] == "Link.g.test/default/i0"
    held = told[-1]
    assert (held["source"], held["revision"], held["reason"]) == ("platform", commit_id(2), "WindowClosed")
    assert held["sets"] == ["Link.g.test/default/i0"]


def test_a_failure_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with LinkPlatform() as fleet:
        progress = ProgressPrinter(fleet.clock, json=True)
        progress.print_result(Result(KEY, KEY, "updated", error=Denied("no"), source="platform", commit="abc"))
    (line,) = lines(capsys)
    assert (line["reason"], line["error"]) == ("ApplyFailed", "no")


def test_the_same_failure_is_told_in_full_once_and_then_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Another message is told again, and so is the same one once it has worked in between."""
    no, other = (Result(KEY, KEY, "updated", error=Denied(why)) for why in ("no", "quota"))
    with LinkPlatform() as fleet:
        for progress in (ProgressPrinter(fleet.clock), ProgressPrinter(fleet.clock, json=True)):
            for result in (no, no, no, other, Result(KEY, KEY, "updated"), other):
                progress.print_result(result)
    shown = capsys.readouterr().out.splitlines()
    told = [line.partition("NOT updated: ")[2] for line in shown[:6]]
    assert told == ["no", "as before, 2 times in a row", "as before, 3 times in a row", "quota", "", "quota"]
    fields = [{"error", "times"} & json.loads(line).keys() for line in shown[6:]]
    assert fields == [{"error"}, {"times"}, {"times"}, {"error"}, set(), {"error"}]


def test_what_is_told_of_a_failure_is_forgotten_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    """I11: an object that was refused and that Git no longer wants leaves nothing behind."""
    with LinkPlatform(names=("i0",)) as fleet:
        progress = ProgressPrinter(fleet.clock)
        progress.print_result(Result(KEY, KEY._replace(name="gone"), "created", error=Denied("no")))
        fleet.push()
        for _ in range(4):
            progress.report_pass(fleet.step())
            fleet.ready(*fleet.at("one"))
        capsys.readouterr()
        progress.print_result(Result(KEY, KEY._replace(name="gone"), "created", error=Denied("no")))
    assert capsys.readouterr().out.rstrip().endswith("NOT created: no")
