"""What `deploy/` has for Prometheus and Grafana asks for metrics that there are, with labels that they have."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from applier.execute import Result
from applier.reasons import Reason
from gitops.stages import STAGES
from gitops.standing import State
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
