"""`levelgate simulate` with a fleet: a world for each cluster on one clock, and one timeline where the same happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops.cli import EXIT_USAGE, invoke
from tests.support import fleet_documents as documents
from tests.support.git.repository import Repository
from tests.support.simulation import AT, FREEZE, files
from tests.support.windows.documents import manifest

US = {"matchLabels": {"region": "us"}}
Simulated = Callable[..., str]


def fleet(**regions: str) -> dict[str, str | None]:
    return {f"{name}.json": documents.cluster(name, {"region": region}) for name, region in regions.items()}


@pytest.fixture
def platform(repository: Repository) -> Repository:
    """Four instances on two clusters of the region us, none on the one of the region eu; then a change of the definition."""
    clusters = {**fleet(u1="us", u2="us", e1="eu"), "all.json": documents.placement("all", clusters=US)}
    repository.commit({**files("one"), **clusters})
    repository.commit(files("two"))
    return repository


@pytest.fixture
def simulated(platform: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulated:
    config = tmp_path / "levelgate.yaml"
    header = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nfleet: {source: platform}\n"
    config.write_text(f"{header}sources:\n- {{name: platform, url: /platform}}\n")

    def simulate(*arguments: str, base: str = "main~1", source: str = "platform", code: int = 0) -> str:
        fixed = ("--base", base, *AT, "--config", str(config), "--source", source)
        found = invoke(["simulate", str(platform.path), *fixed, *arguments])
        printed = capsys.readouterr()
        assert found == code, printed.err
        return printed.err if code else printed.out

    return simulate


def timelines(text: str) -> dict[tuple[str, ...], str]:
    """How each simulation ended, by its clusters."""
    return {tuple(row["names"]): row["to"] for row in json.loads(text)["clusters"]}


def test_clusters_that_get_the_same_have_one_timeline(simulated: Simulated) -> None:
    text = simulated()
    lines = text.splitlines()
    assert [line for line in lines if line in ("e1", "u1, u2: the same")] == ["e1", "u1, u2: the same"]
    assert sum("app updated" in line for line in lines) == 4
    assert timelines(simulated("-o", "json")) == {
        ("e1",): "2026-11-20T10:50:00Z",
        ("u1", "u2"): "2026-11-20T11:02:00Z",
    }
    assert simulated() == text


def test_a_window_of_one_cluster_holds_that_one_alone(simulated: Simulated, platform: Repository) -> None:
    """Equal projections are judged apart where a window selects clusters by name."""
    freeze = {**FREEZE, "selector": {"clusters": ["u2"]}, "schedule": {"cron": "30 10 * * 5"}}
    platform.commit({"freeze.json": manifest("freeze", **freeze).decode()})
    found = timelines(simulated("-o", "json", base="main~2"))
    assert found[("u1",)] == "2026-11-20T11:02:00Z"
    assert found[("u2",)] > "2026-11-22"


def test_a_window_of_other_clusters_leaves_equal_ones_together(simulated: Simulated, platform: Repository) -> None:
    freeze = {**FREEZE, "selector": {"clusters": ["e9"]}}
    platform.commit({"freeze.json": manifest("freeze", **freeze).decode()})
    assert ("u1", "u2") in timelines(simulated("-o", "json", base="main~2"))


def test_a_cluster_that_a_commit_adds_begins_with_nothing(simulated: Simulated, platform: Repository) -> None:
    platform.commit(fleet(u3="us"))
    rows = {tuple(row["names"]): row for row in json.loads(simulated("-o", "json"))["clusters"]}
    assert [row["instances"] for names, row in rows.items() if "e1" in names] == [[]]
    assert rows[("u3",)]["summary"]["settled"] == 4
    assert any(event["message"].endswith("created") for event in rows[("u3",)]["events"] if event["kind"] == "write")


def test_what_is_not_simulated_is_told(simulated: Simulated, platform: Repository) -> None:
    """A cluster that goes keeps what lives there, and in one that is paused nothing happens."""
    paused = documents.cluster("e1", {"region": "eu"}, paused=True)
    head = platform.commit({"u2.json": None, "e1.json": paused})
    lines = simulated("--head", "main").splitlines()
    assert lines[-2:] == [
        "e1: paused in Git; nothing is written there",
        f"u2: removed by commit {head[:7]}; the objects deployed there stay",
    ]
    assert "u1" in lines


def test_other_rules_are_tried_on_each_cluster(simulated: Simulated, tmp_path: Path) -> None:
    rules = tmp_path / "stricter.json"
    rules.write_bytes(
        manifest("freeze", **{**FREEZE, "selector": {"clusters": ["u2"]}, "schedule": {"cron": "30 10 * * 5"}})
    )
    rows = json.loads(simulated("--policy", str(rules), "-o", "json"))["clusters"]
    delays = {name: row["comparison"][0]["delaySeconds"] for row in rows for name in row["names"]}
    assert (delays["e1"], delays["u1"]) == (0, 0)
    assert delays["u2"] > 86_400


def test_one_cluster_is_simulated_alone_and_drawn(simulated: Simulated) -> None:
    assert "choose a cluster with --cluster NAME" in simulated("-o", "svg", code=EXIT_USAGE)
    assert simulated("-o", "svg", "--cluster", "u1").startswith("<svg")
    assert timelines(simulated("-o", "json", "--cluster", "u2")) == {("u2",): "2026-11-20T11:02:00Z"}
    assert "declares no cluster 'u9'" in simulated("--cluster", "u9", code=1)


def test_a_source_that_declares_no_clusters_cannot_be_placed(simulated: Simulated) -> None:
    assert "the clusters of its objects are not known" in simulated(source="apps", code=1)


def test_cluster_needs_a_fleet(platform: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", str(platform.path), "--base", "main~1", "--cluster", "u1"]
    assert invoke(arguments) == EXIT_USAGE
    assert "needs `fleet` in the configuration" in capsys.readouterr().err
