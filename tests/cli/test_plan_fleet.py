"""`levelgate plan` with a fleet: each cluster of the commit is asked, and clusters with equal differences are one block."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from applier.cluster import Cluster
from applier.errors import ConfigurationError
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.cli import EXIT_USAGE, invoke
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.plan import fleet_planner
from tests.support import fleet_documents as documents
from tests.support.cli import Printed, Typed
from tests.support.definitions import chain, link
from tests.support.git.repository import Repository
from tests.support.link_platform import LinkPlatform

CONFIG = """\
apiVersion: levelgate.dev/v1alpha1
kind: Config
fleet: {source: platform}
sources:
- {name: platform, url: /platform}
"""
US = {"matchLabels": {"region": "us"}}
REGIONS = {"eu-1": "eu", "us-1": "us", "us-2": "us"}
Told = Callable[..., str]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three clusters, and a ConfigMap for those of the region us."""
    (tmp_path / "levelgate.yaml").write_text(CONFIG)
    platform = tmp_path / "platform"
    platform.mkdir()
    for name, region in REGIONS.items():
        (platform / f"{name}.yaml").write_text(documents.cluster(name, {"region": region}))
    (platform / "us.yaml").write_text(documents.placement("us", clusters=US))
    (platform / "page.yaml").write_text(documents.plain("page", namespace="default", data={"text": "one"}))
    return tmp_path


@pytest.fixture
def hub() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=()) as hub:
        yield hub


@pytest.fixture
def down() -> set[str]:
    """Clusters that cannot be reached."""
    return set()


@pytest.fixture
def clusters(hub: LinkPlatform, down: set[str], monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Sandbox]:
    found = {name: Sandbox(clock=hub.clock.seconds) for name in REGIONS}

    @asynccontextmanager
    async def connect_cluster(spec: ClusterSpec, *_: object, **_options: float) -> AsyncIterator[Cluster]:
        if spec.name in down:
            raise ConfigurationError(f"cluster {spec.name}: nobody answers")
        cluster = cluster_of(found[spec.name].answer, name=spec.name)
        try:
            yield cluster
        finally:
            await cluster.close()

    monkeypatch.setattr(fleet_planner, "connect_cluster", connect_cluster)
    return found


@pytest.fixture
def planned(printed: Printed, hub: LinkPlatform, clusters: Mapping[str, Sandbox], place: Path) -> Told:
    """`planned("--cluster", "all", code=1)`: what is printed to stdout."""

    def plan(*arguments: str, code: int = 0) -> str:
        config = ("--config", str(place / "levelgate.yaml"), "--source", "platform")
        return printed(hub, "plan", str(place / "platform"), *config, *arguments, code=code)[0]

    return plan


def test_clusters_with_equal_differences_are_one_block(planned: Told) -> None:
    lines = planned("--cluster", "all", "--exit-code", code=2).splitlines()
    assert "us-1, us-2: the same, all added by this commit" in lines
    assert "local, eu-1: the same (eu-1 added by this commit)" in lines
    assert sum("+ ConfigMap/page" in line for line in lines) == 1
    assert lines[0].endswith("by the hub prod-eu")


def test_a_cluster_that_cannot_be_reached_is_unknown_and_the_others_are_planned(
    planned: Told, down: set[str], hub: LinkPlatform
) -> None:
    down.add("us-1")
    lines = planned("--cluster", "all", code=1).splitlines()
    assert "us-1: unknown: cluster us-1: nobody answers (added by this commit)" in lines
    assert "us-2: added by this commit" in lines
    record = {"state": "Unreachable", "since": "2026-11-20T09:00:00Z"}
    metadata = {"name": "cluster-us-1", "labels": {"internal.levelgate.dev/record": "cluster"}}
    path = "/api/v1/namespaces/levelgate-system/configmaps"
    hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": "levelgate-system"}})
    hub.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": record})
    lines = planned("--cluster", "all", code=1).splitlines()
    assert any(line.startswith("us-1: unknown since Fri 2026-11-20 10:00 CET: cluster us-1") for line in lines)


def test_one_cluster_is_planned_by_its_name(planned: Told, down: set[str]) -> None:
    down.add("us-1")
    lines = planned("--cluster", "us-2").splitlines()
    assert "us-2: added by this commit" in lines
    assert not any("us-1" in line or "eu-1" in line for line in lines)


def test_a_commit_tells_which_clusters_it_removes_and_adds(planned: Told, hub: LinkPlatform, place: Path) -> None:
    document = json.loads(documents.cluster("old", onRemove="Delete"))
    known = json.loads(documents.cluster("us-1", {"region": "us"}))
    rules = [{"file": f"{at['metadata']['name']}.yaml", "line": 1, "manifest": at} for at in (document, known)]
    metadata = {"name": "fleet-platform", "labels": {"internal.levelgate.dev/record": "fleet"}}
    accepted = {"accepted": json.dumps({"rules": rules})}
    path = "/api/v1/namespaces/levelgate-system/configmaps"
    hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": "levelgate-system"}})
    hub.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": accepted})
    lines = planned("--cluster", "all").splitlines()
    assert "old: removed by this commit; the objects deployed there are deleted" in lines
    assert "us-1, us-2: the same (us-2 added by this commit)" in lines


def test_revisions_have_the_numbers_that_the_hub_gives(planned: Told, hub: LinkPlatform, place: Path) -> None:
    """S3-8: a cluster that is new to the definition does not begin with r1, where the fleet is at r12."""
    (place / "platform" / "chain.json").write_text(chain("fleet.test", "ab"))
    (place / "platform" / "one.json").write_text(link("fleet.test", "default"))
    metadata = {"name": "fleet-platform", "labels": {"internal.levelgate.dev/record": "fleet"}}
    numbers = {"accepted": "{}", "revisions": json.dumps({"fleet.test/Chain": {"earlier": 12}})}
    path = "/api/v1/namespaces/levelgate-system/configmaps"
    hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": "levelgate-system"}})
    hub.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": numbers})
    lines = planned("--cluster", "us-1").splitlines()
    assert [line for line in lines if line.startswith("chains.fleet.test  new: r13")]


def test_a_paused_cluster_is_not_asked(planned: Told, place: Path, down: set[str]) -> None:
    down.add("us-1")
    (place / "platform" / "us-1.yaml").write_text(documents.cluster("us-1", {"region": "us"}, paused=True))
    assert "us-1: paused in Git; Levelgate reads and writes nothing in the cluster" in planned("--cluster", "all")


def test_json_has_a_plan_for_each_cluster(planned: Told, down: set[str]) -> None:
    down.add("eu-1")
    found = json.loads(planned("--cluster", "all", "-o", "json", code=1))
    rows = [(row["name"], row["state"], row["sameAs"]) for row in found["clusters"]]
    assert rows == [
        ("local", "Planned", ""),
        ("eu-1", "Unknown", ""),
        ("us-1", "Planned", ""),
        ("us-2", "Planned", "us-1"),
    ]
    assert [row["plan"]["summary"]["create"] for row in found["clusters"] if row["plan"]] == [0, 1, 1]


def test_markdown_has_a_heading_for_each_block(planned: Told) -> None:
    text = planned("--cluster", "all", "-o", "markdown")
    assert "## `us-1, us-2: the same, all added by this commit`" in text
    assert "+ level 0  create ConfigMap/default/page" in text


def test_a_plan_without_cluster_is_of_the_hub_and_says_so(printed: Printed, hub: LinkPlatform, place: Path) -> None:
    """What goes to other clusters is not shown as created in the hub."""
    arguments = ("--config", str(place / "levelgate.yaml"), "--source", "platform")
    out, err = printed(hub, "plan", str(place / "platform"), *arguments)
    assert "0 to create" in out
    assert "add --cluster all" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--cluster", "all"), "needs `fleet` in the configuration"),
        (("--cluster", "all", "--config", "FILE", "--against", "x.json"), "asks the clusters themselves"),
        (("--cluster", "all", "--config", "FILE", "-o", "sarif"), "-o sarif is for one plan"),
    ],
)
def test_wrong_usage_is_told(
    typed: Typed, hub: LinkPlatform, place: Path, arguments: tuple[str, ...], says: str
) -> None:
    given = [str(place / "levelgate.yaml") if word == "FILE" else word for word in arguments]
    assert says in typed(hub, "plan", str(place / "platform"), *given, code=EXIT_USAGE)


def test_a_cluster_that_nobody_declares_is_told(typed: Typed, hub: LinkPlatform, place: Path) -> None:
    arguments = ("--config", str(place / "levelgate.yaml"), "--source", "platform", "--cluster", "us-3")
    told = typed(hub, "plan", str(place / "platform"), *arguments, code=1)
    assert "cluster 'us-3' is not declared; did you mean" in told


def test_a_plan_between_commits_says_that_placements_are_not_in_it(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No placement counts as one that nobody obeys; one that cannot be read is a problem."""
    config = tmp_path / "levelgate.yaml"
    config.write_text(CONFIG)
    repository.commit({"page.json": documents.plain("page", namespace="default")})
    repository.commit({"us.json": documents.placement("us", clusters=US)})
    arguments = ["plan", str(repository.path), "--base", "main~1", "--source", "platform", "--config", str(config)]
    assert invoke(arguments) == 0
    assert "before placements, overrides and namespace maps" in " ".join(capsys.readouterr().out.split())
    repository.commit({"us.json": documents.placement("us", clusters=US, onUnmatch="Keep")})
    assert invoke(arguments) == 1
    assert "onUnmatch" in capsys.readouterr().out
