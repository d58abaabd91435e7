"""`levelgate windows`: the calendar of a repository as a table and as its stable JSON (docs/windows.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitops.cli import EXIT_USAGE, invoke
from gitops.cli.options import ClusterChoice
from gitops.explain.window_table import WindowCalendar
from tests.support.properties.repositories import UNREADABLE, plain
from tests.support.windows.documents import manifest

HOURS = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 9 * * 1-5"}}
FREEZE = {"once": [{"start": "2026-12-18T12:00", "end": "2027-01-04T06:00"}]}
AT = ("--at", "2026-11-20T14:20:00Z")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "platform"
    folder.mkdir()
    for name, data in {
        "a.json": plain("web", namespace="prod").encode(),
        "b.json": plain("web", namespace="staging").encode(),
        "hours.json": manifest(
            "business-hours", **HOURS, until="17:00", cutoff="30m", selector={"namespaces": ["prod"]}
        ),
        "named.json": manifest("dba-hours", **HOURS, duration="2h", byName=True, ticket="CHG-2210"),
        "freeze.json": manifest("year-end-freeze", kind="Deny", timeZone="Europe/Berlin", schedule=FREEZE),
    }.items():
        (folder / name).write_bytes(data)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["windows", *arguments]) == code
    return capsys.readouterr().out


def test_all_namespaces_override_the_namespace_for_the_reads_and_for_the_output(
    capsys: pytest.CaptureFixture[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = printed(capsys, str(repository), *AT)
    assert printed(capsys, str(repository), *AT, "-n", "prod") != everything
    assert printed(capsys, str(repository), *AT, "-n", "prod", "-A") == everything
    namespaces = []

    async def read_cluster(
        namespace: str | None, _choice: ClusterChoice
    ) -> tuple[list[WindowCalendar], str, list[str]]:
        namespaces.append(namespace)
        return [], "", []

    monkeypatch.setattr("gitops.cli.windows._read_cluster", read_cluster)
    printed(capsys, "-n", "prod")
    printed(capsys, "-n", "prod", "-A")
    assert namespaces == ["prod", None]


def test_the_table_says_what_is_active_and_when_each_target_opens(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    lines = printed(capsys, str(repository), *AT, "--utc", "--next", "2").splitlines()
    assert lines[1].startswith("Fri 2026-11-20 14:20 UTC (14:20Z), tzdata ")
    assert lines[3:] == [
        "WINDOW            KIND    NOW      NEXT CHANGE                GOVERNS",
        "year-end-freeze   Deny    -        Fri 2026-12-18 11:00 UTC   everything",
        "business-hours    Allow   active   last start 15:30 UTC       prod",
        "dba-hours         Allow   -        Mon 2026-11-23 08:00 UTC   where it is named",
        "",
        "TARGET    NOW    OPENS                      LAST START / CLOSES",
        "prod      open   (now)                      15:30 UTC / 16:00 UTC",
        "                 Mon 2026-11-23 08:00 UTC   15:30 UTC / 16:00 UTC",
        "staging   open   (always)                   Fri 2026-12-18 11:00 UTC",
        "",
        "Ahead: year-end-freeze closes everything for 16d18h from Fri 2026-12-18 11:00 UTC.",
        "       First opening after year-end-freeze for prod: Mon 2027-01-04 08:00 UTC.",
    ]


def test_json_is_a_list_of_windows_with_their_occurrences_and_targets(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    found = json.loads(printed(capsys, str(repository), *AT, "--next", "1", "-o", "json"))
    assert found[1] == {
        "name": "business-hours",
        "kind": "Allow",
        "timeZone": "Europe/Berlin",
        "open": True,
        "occurrences": [{"opens": "2026-11-20T08:00:00Z", "closes": "2026-11-20T16:00:00Z"}],
        "targets": [{"target": "prod", "open": True, "until": "2026-11-20T15:30:00Z"}],
        "description": "",
        "ticket": "",
    }
    assert [(one["name"], [target["target"] for target in one["targets"]]) for one in found] == [
        ("year-end-freeze", ["prod", "staging"]),
        ("business-hours", ["prod"]),
        ("dba-hours", []),
    ]


def test_inside_a_freeze_targets_are_closed_until_the_first_opening_after_it(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    found = json.loads(printed(capsys, str(repository), "--at", "2026-12-24T10:00:00Z", "-o", "json"))
    assert found[0]["targets"] == [
        {"target": "prod", "open": False, "until": "2027-01-04T08:00:00Z"},
        {"target": "staging", "open": False, "until": "2027-01-04T05:00:00Z"},
    ]


def test_targets_of_one_namespace_under_different_windows_are_told_apart(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    (repository / "kinds.json").write_bytes(
        manifest("secrets", **HOURS, duration="1h", selector={"kinds": ["Secret"], "clusters": ["loc*"]})
    )
    (repository / "secret.json").write_text(plain("token", namespace="prod", kind="Secret"))
    found = json.loads(printed(capsys, str(repository), *AT, "-o", "json"))
    assert {one["name"]: [target["target"] for target in one["targets"]] for one in found}["secrets"] == [
        "prod, year-end-freeze and business-hours and secrets"
    ]


def test_a_node_whose_gate_needs_a_window_is_a_target_of_its_own(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    """Surface 4.5: open where the windows that govern it are, and the ones that its gate asks for."""
    node = {
        "id": "db",
        "propagateWhen": ['${inWindow("dba-hours")}'],
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db"}},
    }
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "webapp.kro.run"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "WebApp"}, "resources": [node]},
    }
    instance = {"apiVersion": "kro.run/v1alpha1", "kind": "WebApp", "metadata": {"name": "cart", "namespace": "prod"}}
    for name, content in {"def.json": definition, "cart.json": instance}.items():
        (repository / name).write_text(json.dumps(content))
    lines = printed(capsys, str(repository), *AT, "--utc", "--next", "2").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("prod, in dba-hours"))
    assert [" ".join(line.split()) for line in lines[at : at + 2]] == [
        "prod, in dba-hours closed Mon 2026-11-23 08:00 UTC 10:00 UTC",
        "Tue 2026-11-24 08:00 UTC 10:00 UTC",
    ]
    found = json.loads(printed(capsys, str(repository), *AT, "-o", "json"))
    assert {one["name"]: one["targets"] for one in found}["dba-hours"] == [
        {"target": "prod, in dba-hours", "open": False, "until": "2026-11-23T08:00:00Z"}
    ]


def test_verbs_other_than_the_usual_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "w.json").write_bytes(
        manifest("w", **HOURS, duration="1h", verbs=["prune"], selector={"rgds": ["web*"]})
    )
    assert "rgds web* (prune only)" in printed(capsys, str(tmp_path), *AT)


def test_a_broken_window_is_reported_and_the_others_are_shown(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    (repository / "broken.json").write_bytes(manifest("broken", **{**HOURS, "timeZone": "Europe/Berln"}, until="17:00"))
    (repository / "unreadable.yaml").write_text(UNREADABLE)
    assert invoke(["windows", str(repository), *AT]) == 1
    captured = capsys.readouterr()
    assert "business-hours" in captured.out
    assert (
        "broken.json:1: spec.timeZone: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?" in captured.err
    )
    assert "unreadable.yaml" in captured.err


def test_what_ends_soon_is_warned_of_and_no_failure(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    assert invoke(["windows", str(repository), "--at", "2026-12-01T00:00:00Z"]) == 0
    assert capsys.readouterr().err == ""
    (repository / "ends.json").write_bytes(manifest("ends", **HOURS, until="17:00", effective={"to": "2026-12-10"}))
    assert invoke(["windows", str(repository), "--at", "2026-12-01T00:00:00Z"]) == 0
    assert (
        "warning: ends.json:1: window ends does not open again after 2026-12-10 17:00; "
        "then no change that it governs starts; remove it, or prolong it"
    ) in capsys.readouterr().err


def test_days_on_which_the_clock_moves_an_edge_are_told_ahead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of the coming year; a window that no change of the clock touches is not mentioned."""
    night = {**HOURS, "schedule": {"cron": "30 2 * * *"}}
    (tmp_path / "night.json").write_bytes(manifest("night", **night, duration="1h"))
    (tmp_path / "hours.json").write_bytes(manifest("hours", **HOURS, duration="1h"))
    assert invoke(["windows", str(tmp_path), *AT]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "note: night.json:1: window night opens at 03:00, as 02:30 is skipped: Sun 2027-03-28",
        "note: night.json:1: window night opens once, at the first 02:30 of that day: Sun 2027-10-31",
    ]


def test_without_windows_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "No windows hold changes." in printed(capsys, str(tmp_path), *AT)
    assert json.loads(printed(capsys, str(tmp_path), *AT, "-o", "json")) == []


@pytest.mark.parametrize("at", ["tomorrow", "9999-12-31T00:00", "2026-13-01"])
def test_a_time_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path, at: str) -> None:
    assert invoke(["windows", str(tmp_path), "--at", at]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert f"Invalid value for --at: {at!r} is not a time; write for example 2026-12-24T10:00" in error


def test_a_calendar_beside_the_window_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = {"kind": "Deny", "timeZone": "Europe/Berlin", "schedule": {"calendar": "holidays.ics"}}
    (tmp_path / "holidays.json").write_bytes(manifest("holidays", **spec))
    lines = ("BEGIN:VCALENDAR", "BEGIN:VEVENT", "DTSTART;VALUE=DATE:20261225", "END:VEVENT", "END:VCALENDAR")
    (tmp_path / "holidays.ics").write_text("\r\n".join(lines))
    found = json.loads(printed(capsys, str(tmp_path), *AT, "-o", "json"))
    assert found[0]["occurrences"] == [{"opens": "2026-12-24T23:00:00Z", "closes": "2026-12-25T23:00:00Z"}]
