"""What `deploy/` has for Prometheus and Grafana asks for metrics that there are, with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from applier.cluster import Discovery, Resource
from applier.reasons import Reason
from applier.results import Result
from applier.traces import Survey
from gitops.check.facts import needed
from gitops.config import read
from gitops.config.address import address
from gitops.records.standing import State
from gitops.stages import STAGES
from renderer.kinds import CRD
from tests.gitops.server.seeing import scene
from tests.gitops.server.test_metrics import KEY, ROOT
from tests.gitops.server.test_page import held

DEPLOY = ROOT / "deploy"
KNOWN_VALUES = {
    "state": {*State, "active", "inactive", "settled", "moving", "held", "failed", "waiting"},
    "stage": set(STAGES),
    "reason": set(Reason),
}


async def labels() -> dict[str, set[str]]:
    """Names of all samples, each with its labels."""
    async with scene(names=("i0",)) as seen:
        await held(seen)
        seen.seen.metrics.hook("github", "accepted")
        seen.seen.report(Result(KEY, KEY, "healed"))
        text = await seen.metrics()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> list[str]:
    board: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    return asked + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


async def test_every_metric_that_is_asked_for_is_there_with_these_labels() -> None:
    known = await labels()
    asked = expressions()
    assert len(asked) > 25
    for expression in asked:
        for name, matchers in re.findall(r"\b((?:levelgate|process)_\w+)(?:\{([^}]*)\})?", expression):
            assert name in known, expression
            for label, value in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', matchers):
                assert label in known[name] | {"job"}, expression
                if label in KNOWN_VALUES and "$" not in value:
                    assert set(value.split("|")) <= KNOWN_VALUES[label], expression
        grouped = [label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")]
        names = re.findall(r"\b(levelgate_\w+)", expression)
        assert all(any(label in known[name] for name in names) for label in grouped), expression


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
    listens = address(read(file).listen)
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
    wanted = needed(Survey(discovery=Discovery({CRD: crds}), objects={}, refused={}))
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
