"""Samples and series of the metrics endpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gitops.reconcile.context import ReconcileResult
from renderer.identity import ObjectKey
from tests.support.monitoring.scene import planned

ROOT = Path(__file__).parents[3]
KEY = ObjectKey("", "ConfigMap", "default", "a")
DEPLOY = ROOT / "deploy"


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a metric by the values of their labels, in the order of the labels' names."""
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def multiplied(found: ReconcileResult, count: int) -> ReconcileResult:
    """Return the result with *count* instances like its first one."""
    (first, *_) = (one for one in found.plan.sets if not one.rendered.is_source)
    assert first.parent is not None
    sets = [one for one in found.plan.sets if one.rendered.is_source]
    for number in range(count):
        key = first.rendered.parent._replace(name=f"n{number}")
        parent = {**first.parent, "metadata": {**first.parent["metadata"], "name": key.name}}
        sets.append(replace(first, rendered=replace(first.rendered, parent=key), parent=parent))
    return planned(found, sets)


def series(text: str) -> int:
    """Return the number of different series."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return len({(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples})
