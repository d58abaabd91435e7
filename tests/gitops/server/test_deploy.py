"""What `deploy/` has for Prometheus and Grafana asks for what there is; what it has for Kubernetes gives what is needed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from applier.causes import Reason
from applier.cluster import Discovery, Resource
from applier.execute.results import Result
from applier.read.leftovers import LeftoverSurvey
from gitops.config import read_config
from gitops.config.fields import parse_address
from gitops.fleet.reach import ReachState
from gitops.instrumentation import STAGES
from gitops.maintenance.cluster_facts import needed_permissions
from gitops.records.display_state import DisplayState
from gitops.server.observability import Observability
from renderer.kinds import CRD
from tests.support.monitoring.metrics import DEPLOY, KEY, ROOT
from tests.support.monitoring.page import held
from tests.support.monitoring.promql import Scraped
from tests.support.monitoring.scene import scene

ROLLOUT_STATES = {"Settled", "Progressing", "Waiting", "Held", "Failed"}
VALUES: Mapping[tuple[str, str], Set[str]] = {
    ("levelgate_instances", "state"): set(DisplayState),
    ("levelgate_source_state", "state"): set(DisplayState),
    ("levelgate_rollout_instances", "state"): ROLLOUT_STATES,
    ("levelgate_windows", "state"): {"active", "inactive"},
    ("levelgate_clusters", "state"): set(ReachState),
    ("levelgate_cluster_state", "state"): set(ReachState),
    ("levelgate_blocked", "reason"): set(Reason),
    ("levelgate_stage_failures_total", "stage"): set(STAGES),
    ("levelgate_stage_duration_seconds_bucket", "stage"): set(STAGES),
    ("levelgate_stage_duration_seconds_sum", "stage"): set(STAGES),
    ("levelgate_api_requests_total", "code"): {str(code) for code in range(600)},
}
"""Labels whose values are a closed vocabulary, by metric."""


@dataclass(frozen=True)
class Asked:
    """An expression, and which labels are named where its result is shown."""

    expression: str
    shown: frozenset[str]
    where: str


@pytest.fixture(scope="module")
def scraped() -> Scraped:
    """What the hub of a fleet that has seen everything tells; without a fleet labels `cluster` are missing, which is empty to Prometheus."""

    async def told() -> str:
        async with scene(names=("i0",), has_fleet=True) as seen:
            await held(seen)
            seen.seen.metrics.record_webhook("github", "accepted")
            seen.seen.record_action(Result(KEY, KEY, "healed"))
            return await seen.metrics()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Observability, "_cache_sizes", lambda _: {"renderings": 7})
        return Scraped.of(asyncio.run(told()), VALUES)


def panels() -> list[Asked]:
    board: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return [
        Asked(target["expr"], shown(r"\{\{\s*(\w+)\s*\}\}", target.get("legendFormat", "")), panel["title"])
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def alerts() -> list[Asked]:
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    return [
        Asked(rule["expr"], shown(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())), rule["alert"])
        for group in rules["groups"]
        for rule in group["rules"]
    ]


def shown(pattern: str, text: str) -> frozenset[str]:
    return frozenset(re.findall(pattern, text))


def test_every_query_has_an_answer(scraped: Scraped) -> None:
    """Names, types and labels are those of a daemon, and what is shown of a result is in it."""
    asked = panels() + alerts()
    assert len(asked) > 25
    for one in asked:
        assert one.shown <= scraped.labels(one.expression), one


def test_every_metric_is_seen() -> None:
    """On the dashboard or by an alert; but for the version, and a count that is a fault of ours."""
    asked = " ".join(one.expression for one in (*panels(), *alerts()))
    documented = re.findall(r"^\| `(levelgate_\w+)` \|", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    unseen = {name for name in documented if not re.search(rf"\b{name}(_bucket|_sum)?\b", asked)}
    assert unseen == {"levelgate_build_info", "levelgate_rollout_miscounts_total"}


def test_the_choices_of_the_dashboard_are_labels(scraped: Scraped) -> None:
    board: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    asked = [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    assert asked
    for one in asked:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", one).groups()  # type: ignore[union-attr]
        assert label in scraped.labels(metric)


def test_work_on_a_cluster_is_filtered_by_the_choice_of_clusters(scraped: Scraped) -> None:
    """What has no such label is of the process: it is shown whatever is chosen."""
    for one in panels():
        for name, chosen in re.findall(r"(levelgate_\w+)(\{cluster=~\"\$cluster\")?", one.expression):
            assert bool(chosen) == ("cluster" in scraped.labels(name)), one


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("levelgate_instance", "no metric levelgate_instance"),
        ("sum by (name) (levelgate_instances)", "name is no label"),
        ('levelgate_instances{namespace="a"}', "namespace is no label"),
        ('levelgate_instances{state="settled"}', "settled is no state"),
        ('levelgate_blocked{reason=~"Held|Holding"}', "Holding is no reason"),
        ("rate(levelgate_instances[5m])", "rate of a gauge"),
        ("increase(levelgate_last_pass_timestamp_seconds[5m])", "increase of a gauge"),
        ("histogram_quantile(0.5, sum by (stage) (rate(levelgate_stage_duration_seconds_bucket[5m])))", "without le"),
        ("histogram_quantile(0.5, sum by (stage) (rate(levelgate_stage_duration_seconds_sum[5m])))", "without le"),
        ("levelgate_source_readable unless on (definition) levelgate_instances", "definition is no label"),
        ("levelgate_source_lag_seconds unless levelgate_next_opening_timestamp_seconds * on (verb) levelgate_leader", "verb"),
        ("sum by (source) (levelgate_blocked) / sum by (reason) (levelgate_blocked)", "never match"),
        ("sum(rate(levelgate_actions_total))", "expected type matrix"),
        ("levelgate_source_readable{", "unexpected"),
    ],
)  # fmt: skip
def test_a_query_that_has_none_is_found(scraped: Scraped, expression: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        scraped.labels(expression)


def test_alerts_say_what_and_how_bad() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    documented = (ROOT / "docs" / "operations.md").read_text()
    for rule in alerts:
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert f"`{rule['alert']}`" in documented


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_probes_ask_what_is_answered_and_the_program_listens_for_them(tmp_path: Path) -> None:
    found = manifests()
    file = tmp_path / "levelgate.yaml"
    file.write_text(found["ConfigMap", "levelgate-config"]["data"]["levelgate.yaml"])
    listens = parse_address(read_config(file).listen)
    assert listens
    (container,) = found["Deployment", "levelgate"]["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": listens.port}]
    assert not listens.is_loopback
    asked = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}
    assert {name: one["path"] for name, one in asked.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {one["port"] for one in asked.values()} == {"http"}


def test_the_program_may_do_what_it_does_everywhere() -> None:
    """What `levelgate check` asks of a cluster in which nothing is deployed yet."""
    found = manifests()
    crds = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
    wanted = needed_permissions(LeftoverSurvey(discovery=Discovery({CRD: crds}), objects={}, list_errors={}))
    assert len(wanted) > 10
    for one in wanted:
        role = found["Role", "levelgate"] if one.namespace else found["ClusterRole", "levelgate-definitions"]
        assert any(
            one.group in rule["apiGroups"] and one.resource in rule["resources"] and one.verb in rule["verbs"]
            for rule in role["rules"]
        ), str(one)


def test_nobody_gets_permissions_by_a_loophole() -> None:
    """Threat 12: it cannot give itself more than it has."""
    for (kind, _), one in manifests().items():
        for rule in one.get("rules", ()) if kind.endswith("Role") else ():
            assert not {"*", "escalate", "bind", "impersonate"} & set(rule["verbs"])
            assert "*" not in rule["apiGroups"]


def test_the_image_has_what_sources_need_and_the_user_that_the_manifests_name() -> None:
    """ssh does not work for a user without a name ("No user exists for uid"), and Git needs a place to write."""
    image = (DEPLOY / "Dockerfile").read_text()
    pod = manifests()["Deployment", "levelgate"]["spec"]["template"]["spec"]
    user, home = pod["securityContext"]["runAsUser"], "/var/cache/levelgate"
    assert f"USER {user}:{pod['securityContext']['runAsGroup']}\n" in image
    assert f"useradd --uid {user} --gid {user} --home-dir {home} --create-home levelgate\n" in image
    assert {one["name"]: one["value"] for one in pod["containers"][0]["env"] if one["name"] == "HOME"} == {"HOME": home}
    assert f"ENV HOME={home} XDG_CACHE_HOME={home}\n" in image
    assert " git openssh-client " in image
    assert {".git", ".venv", ".cluster"} <= {*(DEPLOY.parent / ".dockerignore").read_text().splitlines()}
