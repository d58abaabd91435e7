"""The bench beside kro: what it declares, when it takes a row for done, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.beside_kro import BARE_ROWS, Options
from bench.kro.bare import BareFigures, record
from bench.kro.fleet import Change, Fleet, at_once, differences, summarize
from bench.kro.report import COLUMNS, Report
from bench.kro.rows import ROWS, Figures, History, Taken, Versions
from bench.kro.watching import Rest, StuckError, Tail
from renderer.catalog.catalog import load
from renderer.render.render import render
from tests.support.cluster.audit import AuditEvent
from tests.support.cluster.control_plane import ControlPlane

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
FLEET = Fleet.of_size(3, 2)
ACTIVE: dict[str, str | None] = {"i00000": "ACTIVE", "i00001": "ACTIVE", "i00002": "ACTIVE"}


def patched(name: str, version: str, **other: Any) -> AuditEvent:
    event = AuditEvent(
        user="levelgate",
        verb="patch",
        group="",
        resource="configmaps",
        subresource="",
        namespace="bench",
        name=name,
        code=200,
        uri=f"/api/v1/namespaces/bench/configmaps/{name}?fieldManager=levelgate",
        time=NOW,
        answered=NOW + timedelta(milliseconds=5),
        request={"kind": "ConfigMap", "metadata": {"name": name, "uid": "u", "resourceVersion": "1"}},
        response={"metadata": {"name": name, "resourceVersion": version}},
    )
    return replace(event, **other)


def test_levelgate_renders_what_is_expected_of_the_fleet() -> None:
    """So the bench waits for objects that the definition has."""
    files = {name: (text or "").encode() for name, text in Change.between(None, FLEET).files().items()}
    rendering = render([load(files)])
    manifests = [node.manifest for one in rendering.sets for node in one.nodes if node.manifest]
    found = {one["metadata"]["name"]: one["data"] for one in manifests if one["kind"] == "ConfigMap"}
    assert found == FLEET.config_maps()
    assert len(json.dumps(found["i00000-r1"])) in range(250, 350)


def test_a_changed_definition_is_one_file_and_reaches_all_objects() -> None:
    after = FLEET.with_release("two")
    change = Change.between(FLEET, after)
    assert list(change.files()) == ["definition.yaml"]
    assert len(differences(after, FLEET.config_maps(), ACTIVE)) == 6


def test_a_changed_instance_and_a_deleted_one_are_files_of_their_own() -> None:
    after = FLEET.with_text("i00001", "other").without("i00002")
    change = Change.between(FLEET, after)
    assert change.files().keys() == {"apps/i00001.yaml", "apps/i00002.yaml"}
    assert (change.definition, change.removed, change.files()["apps/i00002.yaml"]) == (None, ("i00002",), None)


def test_the_policy_is_read_without_a_problem() -> None:
    files = {**Change.between(None, FLEET).files(), **at_once()}
    assert not load({name: (text or "").encode() for name, text in files.items()}).problems


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda maps, states: maps.pop("i00000-r0"), "ConfigMap i00000-r0 is missing"),
        (lambda maps, states: maps.update(x={}), "ConfigMap x is still there"),
        (lambda maps, states: maps["i00000-r0"].update(number="5"), 'ConfigMap i00000-r0 is {"number": "5"'),
        (lambda maps, states: states.update(i00001="IN_PROGRESS"), 'instance i00001 is "IN_PROGRESS"'),
        (lambda maps, states: states.pop("i00001"), "instance i00001 is missing"),
    ],
)
def test_every_difference_is_found(spoil: Callable[[dict[str, Any], dict[str, Any]], object], told: str) -> None:
    maps, states = FLEET.config_maps(), dict(ACTIVE)
    assert differences(FLEET, maps, states) == []
    spoil(maps, states)
    (found,) = differences(FLEET, maps, states)
    assert found.startswith(told)


def test_a_summary_names_the_first_and_counts_the_rest() -> None:
    assert summarize(["a", "b"]) == "a; b"
    assert summarize([*"abcde"]) == "a; b; c and 2 more"


def test_a_write_that_changes_nothing_is_no_change() -> None:
    versions = Versions()
    written = [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2")]
    assert [versions.is_change(patched(*each)) for each in written] == [True, False, True, True]
    assert not versions.is_change(patched("a", "3", code=409))
    assert versions.is_change(patched("a", "3", verb="delete"))
    assert not versions.is_change(patched("a", "4", verb="get"))


def test_a_request_is_recorded_as_another_cluster_can_take_it() -> None:
    found = record(patched("a", "1"))
    assert found
    assert json.loads(found.body) == {"kind": "ConfigMap", "metadata": {"name": "a"}}
    assert found.path == "/api/v1/namespaces/bench/configmaps/a?fieldManager=levelgate"
    refused: list[dict[str, Any]] = [
        {"code": 409},
        {"verb": "delete"},
        {"resource": "leases"},
        {"request": {"data": {}}},
    ]
    assert [record(patched("a", "1", **other)) for other in refused] == [None] * 4


def test_only_requests_of_the_system_that_end_count_as_work(control_plane: ControlPlane) -> None:
    """On the log of a real server: the bench reads lines without parsing them."""
    tail = Tail(control_plane.audit_log, "person")
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    control_plane.request("GET", f"{leases}/none", user="person")
    control_plane.request("GET", "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1", user="person")
    control_plane.request("GET", "/api/v1/namespaces/default/configmaps", user="other")
    assert not tail.advance()
    control_plane.request("GET", "/api/v1/namespaces/default/configmaps", user="person")
    control_plane.request("DELETE", "/api/v1/namespaces/default/configmaps/none", {}, user="person")
    assert tail.advance()
    assert tail.requests == 2
    assert not tail.advance()


def waiting(log: Path, *, longest: float = 60.0, missing: Callable[[], list[str]] = list) -> Rest:
    return Rest("kro: drift", Tail(log, "kro"), lambda: None, missing, longest, still=0)


def test_a_row_is_over_when_all_is_still_and_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    waiting(tmp_path / "log").wait()


def test_a_row_that_takes_too_long_says_what_was_awaited_and_how_far_it_was(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(
        StuckError, match=r"^kro: drift: 0 requests after 0 s, and may take -1 s at most\. a is missing$"
    ):
        waiting(tmp_path / "log", longest=-1, missing=lambda: ["a is missing"]).wait()


def test_the_report_has_a_column_for_each_system_and_ratios() -> None:
    def figures(seconds: float) -> Figures:
        return Figures(requests=1_000, writes=500, cpu=1.5, seconds=seconds, peak=80.4)

    report = Report(20, 3, kubernetes="v1")
    report.systems["levelgate"] = Taken({"first": [figures(2)], "drift": [figures(0.3), figures(0.1), figures(0.2)]})
    report.systems["kro-lifted"] = Taken({"first": [figures(4)]}, ["a note"])
    report.bare["first"] = BareFigures(900, 1.0, 0.5)
    lines = list(report.lines())
    assert lines[0].startswith("20 instances with 3 ConfigMaps each. ")
    assert lines[2] == "| | | Levelgate | kro, limits lifted | bare client |"
    assert "| first deployment | seconds | 2.00 | 4.00 | 1.00 |" in lines
    assert "| | peak MiB | 80 | 80 | – |" in [line.replace("|  |", "| |") for line in lines]
    assert "| drift of one object | seconds | 0.20 (0.30, 0.10, 0.20) | – | – |" in lines
    assert "- kro, limits lifted: a note" in lines
    assert [line for line in lines if line.endswith(" bare client | 2.00 |")]
    assert [line for line in lines if line.endswith(" kro, limits lifted | 0.50 |")]


def test_each_row_has_its_method() -> None:
    assert all(callable(getattr(History, f"_{row.replace('-', '_')}")) for row in ROWS)


def test_options_keep_the_order_of_rows_and_always_deploy_first() -> None:
    found = Options.parse(["20", "3", "--only", "bare,levelgate", "--rows", "idle,drift"])
    assert (found.instances, found.resources) == (20, 3)
    assert (found.only, found.rows) == (("levelgate", "bare"), ("first", "drift", "idle"))
    assert found.bare_rows == ("first",)
    assert Options.parse([]) == Options(1_000, 10, tuple(COLUMNS), tuple(ROWS))
    assert Options.parse([]).bare_rows == BARE_ROWS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "flux"], "--only: not known: flux. There are levelgate, kro-lifted, kro, bare"),
        (["--rows", "second"], "--rows: not known: second. There are first, "),
        (["2"], "give 4 instances and 1 resource at least"),
    ],
)
def test_wrong_options_are_named(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Options.parse(words)
    assert told in capsys.readouterr().err
