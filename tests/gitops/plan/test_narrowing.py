"""A plan of only what somebody names: `levelgate plan REPO REF...` (docs/plans.md)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitops.plan.report import PlannedAction, PlannedChange, Report, filter_report
from gitops.records.references import Ref
from renderer.identity import ObjectKey

SHOP = ObjectKey("net.test", "EdgePolicy", "prod", "shop")
RULE = PlannedChange(
    PlannedAction.CREATE, ObjectKey("", "ConfigMap", "prod", "shop-rule"), "ConfigMap", SHOP, "rules/1"
)
OWN = PlannedChange(PlannedAction.UPDATE, SHOP, "EdgePolicy.net.test", SHOP)
OTHER = PlannedChange(PlannedAction.DELETE, ObjectKey("", "ConfigMap", "dev", "shop-rule"), "ConfigMap")
REPORT = Report("platform", "a" * 40, datetime(2026, 11, 20, tzinfo=UTC), changes=(OWN, RULE, OTHER))


@pytest.mark.parametrize(
    "word", ["edgepolicy", "EdgePolicy", "edgepolicies", "edgepolicy.net.test", "edgepolicies.net.test"]
)
def test_an_instance_is_called_by_kind_or_plural(word: str) -> None:
    assert filter_report(REPORT, [Ref(word, "shop")]).changes == (OWN, RULE)


@pytest.mark.parametrize(
    ("ref", "namespace", "left"),
    [
        (Ref("edgepolicy", "shop", "rules"), "", (RULE,)),
        (Ref("edgepolicy", "shop", "rules/2"), "", ()),
        (Ref("configmaps", "shop-rule"), "", (RULE, OTHER)),
        (Ref("configmap", "shop-rule"), "dev", (OTHER,)),
        (Ref("edgepolicys", "shop"), "", ()),
    ],
)
def test_nodes_objects_and_namespaces(ref: Ref, namespace: str, left: tuple[PlannedChange, ...]) -> None:
    assert filter_report(REPORT, [ref], namespace).changes == left
